"""What every lock can do beside ``with``: decorate a function, and ``async with``."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional, TypeVar, cast

from . import _beadlock, _threads

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="Guard")


class Guard:
    """Beside the native half of a lock, which comes first among the bases."""

    def _acquire_unless(
        self, is_over: Optional[Callable[[], bool]], asker: Optional[tuple[int, int]]
    ) -> bool:
        raise NotImplementedError

    def _release_as(self, asker: Optional[tuple[int, int]]) -> None:
        raise NotImplementedError

    def _exit_as(self, asker: tuple[int, int], *raised: object) -> None:
        raise NotImplementedError

    def release(self) -> None:
        raise NotImplementedError

    def __enter__(self: S) -> S:
        raise NotImplementedError

    def __exit__(self, *raised: object) -> None:
        raise NotImplementedError

    async def acquire_async(self) -> None:
        """``acquire`` without blocking the event loop. Cancelled, nothing is held."""
        asker = _beadlock._asker()
        await _threads.acquire(
            lambda is_over: self._acquire_unless(is_over, asker),
            lambda: self._release_as(asker),
        )

    async def release_async(self) -> None:
        """``release`` without blocking the event loop. Cancelled, it is done all the same."""
        asker = _beadlock._asker()
        await _threads.finish(lambda: self._release_as(asker))

    async def __aenter__(self: S) -> S:
        await self.acquire_async()
        return self

    async def __aexit__(self, *raised: object) -> None:
        asker = _beadlock._asker()
        await _threads.finish(lambda: self._exit_as(asker, *raised))

    def __call__(self, function: F) -> F:
        """The function, which has the lock whenever it runs; ``async def`` too. Not a generator: that runs after its call."""
        return guarded(function, lambda: self)


def guarded(function: F, guard: Callable[[], Guard]) -> F:
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
