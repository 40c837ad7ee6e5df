"""What beadlock raises. ``str()`` of each is the library's message: what, which file, held by whom, and what to do next."""

from __future__ import annotations

import datetime
import pathlib
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._beadlock import Decision

__all__ = [
    "BeadlockError",
    "DrainTimeout",
    "LockFailed",
    "LockHeld",
    "LockLost",
    "LockStale",
    "LockUnreadable",
    "NoTarget",
    "Skipped",
    "UsageError",
]


class BeadlockError(Exception):
    """Why there is no claim, or no answer. Of this class itself: the system refused.

    >>> from beadlock import Lock
    >>> try:
    ...     Lock("no/such/.beads").acquire()
    ... except BeadlockError as error:
    ...     print(error.code, error)
    NO_TARGET no/such/.beads does not exist; name the directory of a beads database, such as path/.beads
    """

    code: str = "IO"
    """The word of the contract, as ``beadlock --json`` has it."""
    detail: Optional[str] = None
    """``error.detail`` of the JSON contract: ``lock_file=… holder_pid=…``."""
    retry_after: Optional[float] = None
    """In how many seconds to come back, where the same call may succeed later."""


class _Somebodys(BeadlockError):
    """Somebody is in the way."""

    path: Optional[pathlib.Path] = None
    """The lock file; of a running cycle the database's directory."""
    holder: Optional[str] = None
    """The name in the lock file. Untrusted: whoever wrote the file chose it."""
    pid: Optional[int] = None
    """The process."""
    host: Optional[str] = None
    """Its host, by the lock file."""
    since: Optional[datetime.datetime] = None
    """When it was claimed, by the lock file."""
    age: Optional[float] = None
    """How many seconds ago that was."""


class LockHeld(_Somebodys, TimeoutError):
    """Somebody holds the lock, and the wait ran out: a ``TimeoutError`` too.

    >>> import os
    >>> from beadlock import Lock
    >>> with Lock("lock:build.lock", holder="first"):
    ...     try:
    ...         Lock("lock:build.lock", wait=0).acquire()
    ...     except LockHeld as held:
    ...         held.holder, held.path.name, held.pid == os.getpid(), held.age < 60
    ('first', 'build.lock', True, True)
    """


class DrainTimeout(LockHeld):
    """A running cycle did not end in time, or this is one of the database's own cycles."""


class LockStale(_Somebodys):
    """A stale lock that could not be removed."""


class LockUnreadable(BeadlockError):
    """The lock file cannot be understood, and was not touched."""


class LockLost(BeadlockError):
    """A lock that was held is gone, or somebody else's by now: what was done since is not protected."""


class LockFailed(BeadlockError):
    """A file could not be locked, for another reason than that somebody else has it: this process has it already, say."""


class NoTarget(BeadlockError):
    """There is no such database, or no such directory."""


class UsageError(BeadlockError, ValueError):
    """What was asked for makes no sense: an unknown kind of target, a name that would not be fit for a log."""


class Skipped(BeadlockError):
    """A cycle that must not run now. ``str()`` is the line for the daemon's log."""

    code = "SKIPPED"
    decision: Decision
    """Why."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(str(decision))
        self.decision = decision


_CLASSES: dict[str, type[BeadlockError]] = {
    "LOCK_HELD": LockHeld,
    "DRAIN_TIMEOUT": DrainTimeout,
    "LOCK_STALE": LockStale,
    "LOCK_UNREADABLE": LockUnreadable,
    "LOCK_LOST": LockLost,
    "E_LOCK_FAILED": LockFailed,
    "NO_TARGET": NoTarget,
    "USAGE": UsageError,
}


def _of(  # pyright: ignore[reportUnusedFunction]: the native half calls it
    code: str, is_held: bool, message: str, **fields: object
) -> BeadlockError:
    """The exception for an error of the library."""
    # The lock of a file has one code for whatever kept it from being taken.
    kind = (
        LockHeld
        if is_held and code == "E_LOCK_FAILED"
        else _CLASSES.get(code, BeadlockError)
    )
    error = kind(message)
    # As attributes of its own, so that a pickled one has them too.
    error.__dict__.update(fields, code=code)
    return error
