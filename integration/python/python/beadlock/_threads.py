"""What waits, for a task: in a thread of its own.

Not in the executor of ``asyncio.to_thread``: where its few threads all wait for locks, none is left for who would release one.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any, Callable, Optional, TypeVar

T = TypeVar("T")

_numbers = itertools.count(1)
_tasks: weakref.WeakKeyDictionary[asyncio.Task[Any], int] = weakref.WeakKeyDictionary()


_CALLBACK = 2**63
"""Stands for what an event loop runs beside its tasks."""


def task_number() -> int:
    """The number of the task that runs now, which no other one ever has; 0 where no event loop runs."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # No loop runs in this thread.
        return 0
    if task is None:
        return _CALLBACK
    number = _tasks.get(task)
    if number is None:
        number = _tasks[task] = next(_numbers)
    return number


async def acquire(
    acquire: Callable[[Callable[[], bool]], bool], release: Callable[[], object]
) -> None:
    """Calls ``acquire``. Cancelled, it is called off within 50 ms, and what it has acquired by then is released first."""
    called_off = threading.Event()
    work = _in_a_thread(lambda: acquire(called_off.is_set), release)
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        called_off.set()
        if await _settled(work) is None and work.result():
            await _settled(_in_a_thread(release))
        raise


async def finish(work: Callable[[], T]) -> T:
    """Calls ``work``, to its end: a cancellation comes after it."""
    running = _in_a_thread(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await _settled(running)
        raise


def _in_a_thread(
    work: Callable[[], T], undo: Optional[Callable[[], object]] = None
) -> asyncio.Future[T]:
    """The result of ``work``, which ``undo`` undoes should nobody be there any more to have it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            _deliver(loop, future.set_exception, error)
            return
        if (
            not _deliver(loop, future.set_result, result)
            and result
            and undo is not None
        ):
            undo()

    threading.Thread(target=run, name="beadlock", daemon=True).start()
    return future


def _deliver(
    loop: asyncio.AbstractEventLoop, deliver: Callable[[T], object], what: T
) -> bool:
    try:
        loop.call_soon_threadsafe(deliver, what)
    except RuntimeError:
        # The loop is closed.
        return False
    return True


async def _settled(future: asyncio.Future[T]) -> Optional[BaseException]:
    """Waits for its end, cancelled or not; what it has raised."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            # To be cancelled once more is not to be ready sooner.
            pass
    return future.exception()
