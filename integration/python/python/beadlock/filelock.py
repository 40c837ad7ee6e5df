"""filelock's names, for a program that changes its import line and nothing else.

>>> from beadlock.filelock import FileLock, Timeout
>>> lock = FileLock("todo.json.lock", timeout=5)
>>> with lock:
...     with lock.acquire(timeout=1):
...         lock.is_locked, lock.lock_counter
(True, 2)
>>> lock.is_locked
False

The lock is the same flock on the same file, so programs with filelock and with this keep each other out. What differs, call by
call, is in docs/coming-from/filelock.md. ``SoftFileLock`` is not here: filelock's takes a file of another form for damaged, and
removes it. ``beadlock.Lock("lock:PATH")`` is the lock by a file's existence here; it is proved dead before it is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
import weakref
from typing import Any, Callable, Generic, NoReturn, Optional, TypeVar, Union, cast

from . import _beadlock, _threads
from .errors import BeadlockError, LockFailed, LockHeld, NoTarget

__all__ = ["AsyncFileLock", "FileLock", "Timeout"]

L = TypeVar("L", bound="_Lock")
F = TypeVar("F", bound="FileLock")
A = TypeVar("A", bound="AsyncFileLock")
StrPath = Union[str, "os.PathLike[str]"]

_singletons: weakref.WeakValueDictionary[tuple[type, str], Any] = (
    weakref.WeakValueDictionary()
)


class Timeout(LockHeld):
    """The lock was not acquired in time. It has what ``beadlock.LockHeld`` has, such as the ``pid`` of who has it."""

    @property
    def lock_file(self) -> str:
        """The path of the lock file."""
        return str(self.args[0] if self.path is None else self.path)


def _any_of(one: Callable[[], bool], other: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: one() or other()


def _timeout(why: BeadlockError) -> Timeout:
    timeout = Timeout(str(why))
    timeout.__dict__.update(why.__dict__)
    return timeout


class _Lock(_beadlock.FileLock):
    """The lock of a file, by filelock's names: who has it may acquire it again."""

    lock_file: str
    """The path of the file, as it was given."""
    timeout: float
    """For how many seconds ``acquire`` waits where it is not told; below 0: without end."""
    blocking: bool
    """Whether ``acquire`` waits at all where it is not told."""
    poll_interval: float
    """Changes nothing: a wait ends the moment the lock is free."""
    mode: Optional[int]
    """The permissions of a file that is made."""
    is_singleton: bool
    """Whether the lock of a path is one object."""
    lifetime: None
    """None: a lock ends with its process, and is not taken from one that lives."""

    _is_thread_local: bool
    _directory: Optional[str]
    """Where the file is, as it was when the lock was made; None: a directory is locked."""

    def __new__(
        cls: type[L],
        lock_file: StrPath,
        timeout: float = -1,
        mode: Optional[int] = None,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: Optional[float] = None,
        **options: Any,
    ) -> L:
        if options:
            names = ", ".join(sorted(options))
            raise TypeError(
                f"beadlock.filelock knows no {names}: docs/coming-from/filelock.md"
            )
        if lifetime is not None:
            warnings.warn(
                "lifetime is left out: a lock ends with its process, and is not taken from one that lives. "
                "A claim with a limit is `beadlock acquire --max-hold`",
                stacklevel=2,
            )
        key = (cls, os.path.abspath(lock_file))
        settings = (timeout, mode, thread_local, blocking, poll_interval)
        if is_singleton and key in _singletons:
            known = cast(L, _singletons[key])
            if known._settings() != settings:
                raise ValueError(
                    f"the lock of {known.lock_file} is a singleton, and was made with other arguments: {known._settings()}"
                )
            return known
        lock = super().__new__(cls, lock_file, False, None, True, mode, True)
        lock.lock_file = os.fspath(lock_file)
        is_file = os.path.basename(lock_file) not in ("", ".", "..")
        lock._directory = os.path.dirname(key[1]) if is_file else None
        lock.timeout, lock.mode, lock._is_thread_local = timeout, mode, thread_local
        lock.blocking, lock.poll_interval = blocking, poll_interval
        lock.is_singleton, lock.lifetime = is_singleton, None
        if is_singleton:
            _singletons[key] = lock
        return lock

    def _settings(self) -> tuple[object, ...]:
        return (
            self.timeout,
            self.mode,
            self._is_thread_local,
            self.blocking,
            self.poll_interval,
        )

    @staticmethod
    def _asker() -> tuple[int, int]:
        """Who asks: by filelock's rule this thread, whatever task it runs."""
        return _beadlock._asker()[0], 0

    @property
    def lock_counter(self) -> int:
        """How often it was acquired here and not yet released."""
        return self._levels_of(self._asker())

    @property
    def is_locked(self) -> bool:
        """Whether this thread has it by this object; with ``thread_local=False``, whether the process has."""
        return self.lock_counter > 0 if self._is_thread_local else self.held

    def is_thread_local(self) -> bool:
        """Whether only the thread that has it may release it."""
        return self._is_thread_local

    def _wait(self, timeout: Optional[float], blocking: Optional[bool]) -> float:
        if not (self.blocking if blocking is None else blocking):
            return 0.0
        seconds = float(self.timeout if timeout is None else timeout)
        return -1.0 if seconds < 0 else seconds

    def _acquired(
        self,
        is_over: Optional[Callable[[], bool]],
        asker: Optional[tuple[int, int]],
        wait: float,
    ) -> bool:
        try:
            try:
                return self._acquire_unless(is_over, asker, wait)
            except NoTarget:
                if self._directory is None:
                    raise
                os.makedirs(self._directory, exist_ok=True)
                return self._acquire_unless(is_over, asker, wait)
        except LockHeld as held:
            raise _timeout(held) from None
        except LockFailed as failed:
            if f"holder_pid={os.getpid()}" not in (failed.detail or "").split():
                raise
            # It is held here by another object: a wait for that would be one for itself.
            if wait < 0:
                raise RuntimeError(str(failed)) from None
            raise _timeout(failed) from None

    def _is_mine(self) -> bool:
        """Whether a release here releases anything."""
        return self.held and (self.lock_counter > 0 or not self._is_thread_local)

    def __repr__(self) -> str:
        age = self.age
        state = "not held" if age is None else f"held for {age:.1f} s"
        return f"<{type(self).__qualname__} {self.lock_file!r}, {state}>"


class AcquireReturnProxy(Generic[F]):
    """What ``acquire`` returns: a ``with`` of it releases the lock at its end."""

    def __init__(self, lock: F) -> None:
        self.lock = lock

    def __enter__(self) -> F:
        return self.lock

    def __exit__(self, *raised: object) -> None:
        self.lock.__exit__(*raised)


class FileLock(_Lock, contextlib.ContextDecorator):
    """filelock's ``FileLock``: an flock on the file ``lock_file`` itself, which the same thread may acquire again.

    ``thread_local=False`` lets another thread release it; one that acquires it waits all the same.
    """

    def acquire(
        self: F,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AcquireReturnProxy[F]:
        """Waits for ``timeout`` seconds, below 0 without end; then it raises ``Timeout``, as it does when ``cancel_check`` says so."""
        if not self._acquired(
            cancel_check, self._asker(), self._wait(timeout, blocking)
        ):
            raise Timeout(self.lock_file)
        return AcquireReturnProxy(self)

    def release(self, force: bool = False) -> None:
        """Ends what this thread has acquired last, or by ``force`` all of it; the lock is free with the last. Without it nothing
        happens."""
        if self._is_mine():
            self._release_as(self._asker(), force)

    def __enter__(self: F) -> F:
        self.acquire()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_mine():
            self._exit_as(self._asker(), *raised)


class AsyncAcquireReturnProxy(Generic[A]):
    """What ``await acquire()`` returns: an ``async with`` of it releases the lock at its end."""

    def __init__(self, lock: A) -> None:
        self.lock = lock

    async def __aenter__(self) -> A:
        return self.lock

    async def __aexit__(self, *raised: object) -> None:
        await self.lock.__aexit__(*raised)


class AsyncFileLock(_Lock):
    """filelock's ``AsyncFileLock``: ``FileLock`` without blocking the event loop. Tasks wait for each other, as threads do."""

    def __new__(
        cls: type[A],
        lock_file: StrPath,
        timeout: float = -1,
        mode: Optional[int] = None,
        thread_local: bool = False,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: Optional[float] = None,
        loop: Optional[asyncio.AbstractEventLoop] = None,
        run_in_executor: bool = True,
        executor: object = None,
        **options: Any,
    ) -> A:
        return super().__new__(
            cls,
            lock_file,
            timeout,
            mode,
            thread_local,
            blocking=blocking,
            is_singleton=is_singleton,
            poll_interval=poll_interval,
            lifetime=lifetime,
            **options,
        )

    @staticmethod
    def _asker() -> tuple[int, int]:
        """Who asks: the task that runs now."""
        return _beadlock._asker()

    async def acquire(
        self: A,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AsyncAcquireReturnProxy[A]:
        """Waits for ``timeout`` seconds, below 0 without end; then it raises ``Timeout``. Cancelled, nothing is held."""
        asker = self._asker()
        wait = self._wait(timeout, blocking)
        acquired = False

        def acquire(is_over: Callable[[], bool]) -> bool:
            nonlocal acquired
            either = is_over
            if (check := cancel_check) is not None:
                either = _any_of(is_over, check)
            acquired = self._acquired(either, asker, wait)
            return acquired

        await _threads.acquire(acquire, lambda: self._release_as(asker, False))
        if not acquired:
            raise Timeout(self.lock_file)
        return AsyncAcquireReturnProxy(self)

    async def release(self, force: bool = False) -> None:
        """Ends what this task has acquired last, or by ``force`` all of it; the lock is free with the last. Without it nothing
        happens."""
        if self._is_mine():
            asker = self._asker()
            await _threads.finish(lambda: self._release_as(asker, force))

    async def __aenter__(self: A) -> A:
        await self.acquire()
        return self

    async def __aexit__(self, *raised: object) -> None:
        if self._is_mine():
            asker = self._asker()
            await _threads.finish(lambda: self._exit_as(asker, *raised))

    def __enter__(self) -> NoReturn:
        raise NotImplementedError("this lock is for `async with`")


def __getattr__(name: str) -> NoReturn:
    if name == "SoftFileLock":
        # Not an AttributeError: `from … import` would leave out why.
        raise ImportError(
            "SoftFileLock is not in beadlock.filelock: filelock's takes a file of another form for damaged, and removes it. "
            'Use beadlock.Lock("lock:PATH"), in all programs that share the file'
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
