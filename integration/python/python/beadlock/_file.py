"""Files: their locks, and whole writes."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, AsyncGenerator, Generator, Optional, TypeVar, Union

from . import _beadlock, _threads
from ._guard import Guard
from .errors import BeadlockError

L = TypeVar("L", bound="FileLock")
StrPath = Union[str, "os.PathLike[str]"]


class FileLock(_beadlock.FileLock, Guard):
    """The lock of a file: an flock on ``PATH.lock`` beside it, as ``flock(1)`` and ``beadlock hold file:PATH`` take it.

    ``shared`` is for readers, who have it together. ``wait`` is for how many seconds a holder is waited for: 0 for none,
    ``None`` or -1 for no end; ``acquire(wait=5)`` has one of its own. ``itself`` locks that very file or directory, as
    ``flock PATH`` does and ``flock:PATH`` names it; it is not written under that. ``mode`` is the permissions of a lock file that
    is made, such as ``0o660``, whatever the umask is. With ``reentrant=True`` the thread or task that has the lock by this object
    acquires it once more at once, and keeps it until the last release.

    >>> import json
    >>> with FileLock("todo.json") as lock:
    ...     todo = json.loads(lock.read() or b"{}")
    ...     todo["n"] = todo.get("n", 0) + 1
    ...     lock.save_json(todo)
    >>> with open("todo.json") as todo:
    ...     print(todo.read(), end="")
    {
      "n": 1
    }

    Threads and tasks that want the same file wait for each other, first come, first served. Who has it and asks again would wait
    for itself: that raises ``beadlock.LockFailed`` at once. So does a ``with`` of a task where another task of the same thread has
    it: no other one runs meanwhile. ``async with`` waits.
    """

    def __new__(
        cls: type[L],
        path: StrPath,
        *,
        shared: bool = False,
        wait: Optional[float] = 30.0,
        itself: bool = False,
        mode: Optional[int] = None,
        reentrant: bool = False,
    ) -> L:
        return super().__new__(cls, path, shared, wait, itself, mode, reentrant)

    def save_json(
        self, value: Any, *, schema: Optional[StrPath] = None, backups: int = 5
    ) -> None:
        """Writes the value as JSON, as ``beadlock.save_json`` does, under this lock."""
        self._write_json(_text(value), schema, backups)


def save_json(
    path: StrPath,
    value: Any,
    *,
    schema: Optional[StrPath] = None,
    backups: int = 5,
    wait: Optional[float] = 30.0,
) -> None:
    """Gives the file at ``path`` this value as JSON, all of it or none, under its lock.

    What it was before is ``PATH.1``, and so on to ``PATH.5``; ``schema`` is the file of a JSON Schema that the value has to meet.

    >>> import pathlib
    >>> save_json("config.json", {"name": "shop"})
    >>> save_json("config.json", ["shöp"])
    >>> [pathlib.Path(name).read_text().split() for name in ("config.json", "config.json.1")]
    [['[', '"shöp"', ']'], ['{', '"name":', '"shop"', '}']]
    """
    # Before the lock: a value that is none of JSON changes nothing.
    text = _text(value)
    with FileLock(path, wait=wait) as lock:
        lock._write_json(text, schema, backups)


async def save_json_async(
    path: StrPath,
    value: Any,
    *,
    schema: Optional[StrPath] = None,
    backups: int = 5,
    wait: Optional[float] = 30.0,
) -> None:
    """``save_json`` without blocking the event loop."""
    text = _text(value)
    async with FileLock(path, wait=wait) as lock:
        await _threads.finish(lambda: lock._write_json(text, schema, backups))


@contextlib.contextmanager
def update_json(
    path: StrPath,
    *,
    default: Any = None,
    schema: Optional[StrPath] = None,
    backups: int = 5,
    wait: Optional[float] = 30.0,
) -> Generator[Any, None, None]:
    """The JSON in the file at ``path``, to be changed in a ``with`` block, all under its lock; ``default`` where there is no file.

    At the end of the block it is written as ``save_json`` writes it; not when the block raises.

    >>> with update_json("counts.json", default={}) as counts:
    ...     counts["n"] = counts.get("n", 0) + 1
    >>> with open("counts.json") as file:
    ...     json.load(file)
    {'n': 1}
    """
    with FileLock(path, wait=wait) as lock:
        value = _value(lock, default)
        yield value
        lock.save_json(value, schema=schema, backups=backups)


@contextlib.asynccontextmanager
async def update_json_async(
    path: StrPath,
    *,
    default: Any = None,
    schema: Optional[StrPath] = None,
    backups: int = 5,
    wait: Optional[float] = 30.0,
) -> AsyncGenerator[Any, None]:
    """``update_json`` without blocking the event loop."""
    async with FileLock(path, wait=wait) as lock:
        value = await _threads.finish(lambda: _value(lock, default))
        yield value
        text = _text(value)
        await _threads.finish(lambda: lock._write_json(text, schema, backups))


def _value(lock: FileLock, default: Any) -> Any:
    text = lock.read()
    if text is None:
        return default
    try:
        return json.loads(text)
    except ValueError as error:
        raise BeadlockError(f"{lock.path} is not valid JSON: {error}") from error


def _text(value: Any) -> bytes:
    return (
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode()
        + b"\n"
    )
