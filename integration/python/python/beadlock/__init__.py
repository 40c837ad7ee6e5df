"""Lock files that make a sync daemon and the tools beside it stay out of each other's way.

A tool that needs a database to itself claims it; a daemon looks before every cycle, and skips what is claimed:

>>> import beadlock
>>> with beadlock.Lock(".beads", holder="importer"):
...     decision = beadlock.should_skip_database(".beads")
>>> decision.skip, decision.holder, decision.reason
(True, 'importer', 'pid_alive')

Waiting lets other threads run, and Ctrl-C ends it with nothing claimed. ``async with`` does it without blocking the event loop.
"""

from ._beadlock import Decision, __version__, should_skip_database
from ._cycle import Cycle
from ._file import FileLock, save_json, save_json_async, update_json, update_json_async
from ._lock import Lock
from .errors import (
    BeadlockError,
    DrainTimeout,
    LockFailed,
    LockHeld,
    LockLost,
    LockStale,
    LockUnreadable,
    NoTarget,
    Skipped,
    UsageError,
)

__all__ = [
    "BeadlockError",
    "Cycle",
    "Decision",
    "DrainTimeout",
    "FileLock",
    "Lock",
    "LockFailed",
    "LockHeld",
    "LockLost",
    "LockStale",
    "LockUnreadable",
    "NoTarget",
    "Skipped",
    "UsageError",
    "__version__",
    "save_json",
    "save_json_async",
    "should_skip_database",
    "update_json",
    "update_json_async",
]
