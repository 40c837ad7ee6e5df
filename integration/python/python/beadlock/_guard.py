"""What every lock can do beside ``with``: ``acquire`` and ``release``, decorate a function, and ``async with``."""

from __future__ import annotations

import enum
import functools
import inspect
import os
from typing import Any, Callable, Generic, Optional, TypeVar, Union, cast

from . import _beadlock, _threads

F = TypeVar("F", bound=Callable[..., Any])
B = TypeVar("B", bound="Block")
S = TypeVar("S", bound="Guard")


class Own(enum.Enum):
    """Stands for what the lock was made with."""

    WAIT = "the wait of the lock"


Wait = Union[float, None, Own]


class Acquired(Generic[S]):
    """What ``acquire`` returns. Nothing has to be done with it; a ``with`` of it releases the lock at its end."""

    def __init__(self, lock: S) -> None:
        self.lock = lock

    def __enter__(self) -> S:
        return self.lock

    def __exit__(self, *raised: object) -> None:
        self.lock.__exit__(*raised)


class AcquiredAsync(Generic[S]):
    """What ``await acquire_async()`` returns; an ``async with`` of it releases the lock at its end."""

    def __init__(self, lock: S) -> None:
        self.lock = lock

    async def __aenter__(self) -> S:
        return self.lock

    async def __aexit__(self, *raised: object) -> None:
        await self.lock.__aexit__(*raised)


class Block:
    """What is had for a ``with``: for an ``async with`` too, and for each call of a function."""

    def _acquire_unless(
        self,
        is_over: Optional[Callable[[], bool]],
        asker: Optional[tuple[int, int]],
        wait: Optional[float],
    ) -> bool:
        raise NotImplementedError

    def _release_as(self, asker: Optional[tuple[int, int]], at_once: bool) -> None:
        raise NotImplementedError

    def _exit_as(self, asker: tuple[int, int], *raised: object) -> None:
        raise NotImplementedError

    def __enter__(self: B) -> B:
        raise NotImplementedError

    def __exit__(self, *raised: object) -> None:
        raise NotImplementedError

    async def _acquire_in_a_thread(self, wait: Optional[float]) -> None:
        asker = _beadlock._asker()
        await _threads.acquire(
            lambda is_over: self._acquire_unless(is_over, asker, wait),
            lambda: self._release_as(asker, False),
        )

    async def __aenter__(self: B) -> B:
        await self._acquire_in_a_thread(None)
        return self

    async def __aexit__(self, *raised: object) -> None:
        asker = _beadlock._asker()
        await _threads.finish(lambda: self._exit_as(asker, *raised))

    def __call__(self, function: F) -> F:
        """The function, which has the lock whenever it runs; ``async def`` too. Not a generator: that runs after its call."""
        return guarded(function, lambda: self)


class Guard(Block):
    """Beside the native half of a lock, which comes first among the bases."""

    @property
    def held(self) -> bool:
        raise NotImplementedError

    @property
    def age(self) -> Optional[float]:
        raise NotImplementedError

    @property
    def _named(self) -> Optional[os.PathLike[str]]:
        raise NotImplementedError

    def acquire(
        self: S,
        wait: Wait = Own.WAIT,
        *,
        timeout: Optional[float] = None,
        blocking: bool = True,
    ) -> Acquired[S]:
        """Waits for the lock: for ``wait`` seconds this time, where that is given; ``None`` or -1 for no end.

        ``timeout`` is another name of ``wait``, and ``blocking=False`` stands for ``wait=0``. A ``with`` of what it returns
        releases the lock at its end.
        """
        self._acquire_unless(None, None, seconds(wait, timeout, blocking))
        return Acquired(self)

    def release(self, force: bool = False) -> None:
        """Ends the lock; one that was acquired several times (``reentrant``) with the last release, or at once by ``force``."""
        self._release_as(None, force)

    @property
    def is_held(self) -> bool:
        """The same as ``held``."""
        return self.held

    @property
    def is_locked(self) -> bool:
        """The same as ``held``, by filelock's name. Whether somebody else has it: ``acquire(blocking=False)``."""
        return self.held

    def __repr__(self) -> str:
        named, age = self._named, self.age
        what = "" if named is None else f" {os.fspath(named)!r}"
        state = "not held" if age is None else f"held for {age:.1f} s"
        return f"<{type(self).__qualname__}{what}, {state}>"

    async def acquire_async(
        self: S,
        wait: Wait = Own.WAIT,
        *,
        timeout: Optional[float] = None,
        blocking: bool = True,
    ) -> AcquiredAsync[S]:
        """``acquire`` without blocking the event loop. Cancelled, nothing is held."""
        await self._acquire_in_a_thread(seconds(wait, timeout, blocking))
        return AcquiredAsync(self)

    async def release_async(self, force: bool = False) -> None:
        """``release`` without blocking the event loop. Cancelled, it is done all the same."""
        asker = _beadlock._asker()
        await _threads.finish(lambda: self._release_as(asker, force))


def seconds(wait: Wait, timeout: Optional[float], blocking: bool) -> Optional[float]:
    """The wait of one call in seconds, -1 for no end; None: the lock's own."""
    if isinstance(wait, bool) or isinstance(timeout, bool):
        raise TypeError(
            "a wait is a number of seconds; not to wait is wait=0 or blocking=False"
        )
    if wait is not Own.WAIT and timeout is not None:
        raise TypeError("wait and timeout are two names of one thing: give one")
    if not blocking:
        return 0.0
    if timeout is not None:
        return float(timeout)
    if isinstance(wait, Own):
        return None
    return -1.0 if wait is None else float(wait)


def guarded(function: F, guard: Callable[[], Block]) -> F:
    """The function, which runs under what ``guard`` gives each time; ``async def`` too. Not a generator."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function!r} is a generator, which runs after its call: take the lock inside it"
        )
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def locked_async(*args: Any, **kwargs: Any) -> Any:
            async with guard():
                return await function(*args, **kwargs)

        return cast(F, locked_async)

    @functools.wraps(function)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with guard():
            return function(*args, **kwargs)

    return cast(F, locked)
