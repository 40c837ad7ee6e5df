"""The lock of a workspace's memory directory: ``memory.lock_manager`` of the clawdbot document with another import.

>>> from beadlock.memory import MemoryLock, with_lock
>>> lock = MemoryLock()
>>> with lock.acquire("write:tasks.json"):
...     lock.status()["we_hold_it"]
True
>>> @with_lock("heartbeat:check")
... def heartbeat():
...     return lock.status()["holder"]["operation"]
>>> heartbeat(), lock.status()
('heartbeat:check', {'locked': False})

The workspace is ``$CLAWDBOT_WORKSPACE``, else the current directory, and the session ``$CLAWDBOT_SESSION_ID``. A lock that is held
is refreshed every 3 s. A process that has it has it again at once, and releases it with the last ``release``; its threads do not
keep each other out, and tasks neither.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, Iterator, Optional, TypeVar, Union, cast

from . import _beadlock
from .errors import BeadlockError, _Somebodys

__all__ = ["LockError", "MemoryLock", "get_lock", "with_lock"]

F = TypeVar("F", bound=Callable[..., Any])
L = TypeVar("L", bound="MemoryLock")


class LockError(_Somebodys):
    """The lock could not be acquired. Where somebody has it, it says who, as ``beadlock.LockHeld`` does."""


class MemoryLock(_beadlock.MemoryLock):
    """The lock ``memory/.lock`` of a workspace."""

    LOCK_FILE = "memory/.lock"
    STALE_TIMEOUT_SECONDS = 30
    MAX_WAIT_DEFAULT = 5.0
    BACKOFF_BASE_MS = 100
    BACKOFF_MAX_MS = 2000

    workspace_root: pathlib.Path
    lock_path: pathlib.Path
    session_id: str

    def __new__(cls: type[L], workspace_root: Optional[Union[str, os.PathLike[str]]] = None) -> L:
        root = pathlib.Path(workspace_root or os.environ.get("CLAWDBOT_WORKSPACE") or os.getcwd()).absolute()
        path, session = root / cls.LOCK_FILE, os.environ.get("CLAWDBOT_SESSION_ID") or "unknown"
        lock = super().__new__(cls, path.parent, session)
        lock.workspace_root, lock.lock_path, lock.session_id = root, path, session
        return lock

    @contextlib.contextmanager
    def acquire(self, operation: str, max_wait: Optional[float] = None) -> Iterator[None]:
        """Has it for a ``with`` block; waits for it as ``acquire_blocking`` does."""
        self.acquire_blocking(operation, max_wait)
        try:
            yield
        finally:
            self.release()

    def acquire_blocking(self, operation: str, max_wait: Optional[float] = None, break_stale: bool = True) -> None:
        """Waits for at most ``max_wait`` seconds, 5 unless told otherwise; then it raises ``LockError``."""
        # The shortest wait is one look, which is refused in the words of a wait.
        wait = self.MAX_WAIT_DEFAULT if max_wait is None else max(max_wait, sys.float_info.min)
        self._acquired(operation, wait, break_stale)

    def acquire_nowait(self, operation: str, break_stale: bool = True) -> bool:
        """False when somebody has it."""
        return self._acquired(operation, 0.0, break_stale)

    def release(self) -> None:
        """Gives it up, once; without it nothing happens. That it was lost meanwhile is a warning."""
        lost = self._release()
        if lost is not None:
            warnings.warn(lost, RuntimeWarning, stacklevel=2)

    def status(self) -> dict[str, Any]:
        """Who has it: ``locked``, and when it is ``holder``, ``is_stale``, ``stale_reason`` and ``we_hold_it``."""
        return cast("dict[str, Any]", json.loads(self._status()))

    def _acquired(self, operation: str, wait: float, break_stale: bool) -> bool:
        try:
            broken = self._acquire(operation, wait, break_stale)
        except BeadlockError as refused:
            error = LockError(str(refused))
            error.__dict__.update(refused.__dict__)
            raise error from refused
        for line in broken or ():
            print(line, file=sys.stderr)
        return broken is not None


_default_lock: Optional[MemoryLock] = None


def get_lock() -> MemoryLock:
    """The lock of the default workspace, the same object each time."""
    global _default_lock
    if _default_lock is None:
        _default_lock = MemoryLock()
    return _default_lock


def with_lock(operation: str, max_wait: Optional[float] = None) -> Callable[[F], F]:
    """A decorator: the function has the lock of ``get_lock`` whenever it runs."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            with get_lock().acquire(operation, max_wait):
                return function(*args, **kwargs)

        return cast(F, locked)

    return decorate
