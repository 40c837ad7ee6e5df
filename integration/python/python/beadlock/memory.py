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
keep each other out, and tasks neither. ``async with`` waits for other processes without blocking the event loop, and ``@with_lock``
takes an ``async def`` as well:

>>> import asyncio
>>> async def consolidate():
...     async with lock.acquire("consolidation:nightly"):
...         return lock.status()["locked"]
>>> asyncio.run(consolidate())
True
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import warnings
from typing import Any, Callable, Optional, TypeVar, Union, cast

from . import _beadlock, _threads
from ._guard import Block, guarded
from .errors import BeadlockError, _Somebodys

__all__ = ["LockError", "MemoryLock", "get_lock", "is_process_alive", "with_lock"]

F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound="_Held")


def is_process_alive(pid: int) -> bool:
    """Whether a process of this machine has this PID. One that may not be asked is there: the document calls it dead."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    except OverflowError:
        # No kernel gives it, and nothing is known of it.
        return True
    return True


class LockError(_Somebodys):
    """The lock could not be acquired. Where somebody has it, it says who, as ``beadlock.LockHeld`` does."""


class MemoryLock:
    """The lock ``memory/.lock`` of a workspace."""

    LOCK_FILE = "memory/.lock"
    STALE_TIMEOUT_SECONDS = 30
    MAX_WAIT_DEFAULT = 5.0
    BACKOFF_BASE_MS = 100
    BACKOFF_MAX_MS = 2000

    def __init__(
        self, workspace_root: Optional[Union[str, os.PathLike[str]]] = None
    ) -> None:
        root = pathlib.Path(
            workspace_root or os.environ.get("CLAWDBOT_WORKSPACE") or os.getcwd()
        ).absolute()
        self.workspace_root = root
        self.lock_path = root / self.LOCK_FILE
        self.session_id = os.environ.get("CLAWDBOT_SESSION_ID") or "unknown"
        self._native = _beadlock.MemoryLock(self.lock_path.parent, self.session_id)

    def acquire(self, operation: str, max_wait: Optional[float] = None) -> _Held:
        """Has it for a ``with`` block, or an ``async with``; waits for it as ``acquire_blocking`` does."""
        return _Held(self, operation, max_wait)

    def acquire_blocking(
        self, operation: str, max_wait: Optional[float] = None, break_stale: bool = True
    ) -> None:
        """Waits for at most ``max_wait`` seconds, 5 unless told otherwise; then it raises ``LockError``."""
        self._acquired(operation, self._patience(max_wait), break_stale)

    def acquire_nowait(self, operation: str, break_stale: bool = True) -> bool:
        """False when somebody has it."""
        return self._acquired(operation, 0.0, break_stale)

    def release(self) -> None:
        """Gives it up, once; without it nothing happens. That it was lost meanwhile is a warning."""
        lost = self._native.release()
        if lost is not None:
            warnings.warn(lost, RuntimeWarning, stacklevel=2)

    def status(self) -> dict[str, Any]:
        """Who has it: ``locked``, and when it is ``holder``, ``is_stale``, ``stale_reason`` and ``we_hold_it``."""
        return cast("dict[str, Any]", json.loads(self._native.status()))

    def break_lock(self, even_if_live: bool = False) -> Optional[dict[str, Any]]:
        """Takes the lock away, whoever has it, and keeps its record: its ``holder``, and the file ``kept``. None: there is no lock.

        A lock whose holder may be at work is a ``LockError``, unless ``even_if_live``: that goes on, and nothing is told of it.
        """
        try:
            broken = self._native.break_lock(even_if_live)
        except BeadlockError as refused:
            raise _lock_error(refused) from refused
        return (
            None
            if broken is None
            else {"holder": json.loads(broken[0]), "kept": broken[1]}
        )

    def _patience(self, max_wait: Optional[float]) -> float:
        # The shortest wait is one look, which is refused in the words of a wait.
        return (
            self.MAX_WAIT_DEFAULT
            if max_wait is None
            else max(max_wait, sys.float_info.min)
        )

    def _acquired(
        self,
        operation: str,
        wait: float,
        break_stale: bool,
        is_over: Optional[Callable[[], bool]] = None,
    ) -> bool:
        try:
            broken = self._native.acquire(operation, wait, break_stale, is_over)
        except BeadlockError as refused:
            raise _lock_error(refused) from refused
        for line in broken or ():
            _tell(line)
        return broken is not None


def _lock_error(refused: BeadlockError) -> LockError:
    error = LockError(str(refused))
    error.__dict__.update(refused.__dict__)
    return error


def _tell(line: str) -> None:
    """A lock that has been acquired stays so, also where nobody can be told what it took."""
    # A program may have been started without it, whatever its type says.
    if cast(object, sys.stderr) is not None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr)


class _Held(Block):
    """A lock that is had for a block."""

    def __init__(
        self, lock: MemoryLock, operation: str, max_wait: Optional[float]
    ) -> None:
        self._lock, self._operation, self._max_wait = lock, operation, max_wait

    def _acquire_unless(
        self,
        is_over: Optional[Callable[[], bool]],
        asker: Optional[tuple[int, int]],
        wait: Optional[float],
    ) -> bool:
        # The process has it, whichever of its threads and tasks asks.
        return self._lock._acquired(
            self._operation, self._lock._patience(self._max_wait), True, is_over
        )

    def _release_as(self, asker: Optional[tuple[int, int]], at_once: bool) -> None:
        self._lock.release()

    def _exit_as(self, asker: tuple[int, int], *raised: object) -> None:
        self._lock.release()

    async def acquire_async(self) -> None:
        """Acquires it without blocking the event loop. Cancelled, nothing is held."""
        await self._acquire_in_a_thread(None)

    async def release_async(self) -> None:
        """Releases it without blocking the event loop."""
        await _threads.finish(self._lock.release)

    def __enter__(self: H) -> H:
        self._lock.acquire_blocking(self._operation, self._max_wait)
        return self

    def __exit__(self, *raised: object) -> None:
        self._lock.release()


_default_lock: Optional[MemoryLock] = None


def get_lock() -> MemoryLock:
    """The lock of the default workspace, the same object each time."""
    global _default_lock
    if _default_lock is None:
        _default_lock = MemoryLock()
    return _default_lock


def with_lock(operation: str, max_wait: Optional[float] = None) -> Callable[[F], F]:
    """A decorator: the function has the lock of ``get_lock`` whenever it runs; ``async def`` too."""
    return lambda function: guarded(
        function, lambda: get_lock().acquire(operation, max_wait)
    )


if __name__ == "__main__":
    from beadlock._memory_program import main

    sys.exit(main())
