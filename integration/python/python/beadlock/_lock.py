"""A lock that this process holds."""

from __future__ import annotations

import os
import sys
from typing import Optional, TypeVar, Union

from . import _beadlock
from ._guard import Guard

L = TypeVar("L", bound="Lock")


class Lock(_beadlock.Lock, Guard):
    """The lock of a beads database, or of ``lock:PATH``, for as long as this process has it.

    ``target`` is written as for the ``beadlock`` command: ``".beads"``, ``"beads:DIR"``, ``"lock:PATH"``; without one it is
    ``$BEADLOCK_TARGET``, ``$BEADS_DIR``, else the nearest ``.beads``. ``holder`` is the name in the lock file and in daemons'
    logs: ``$BEADLOCK_HOLDER``, else the program's. ``wait`` is for how many seconds a holder is waited for: 0 for none,
    ``None`` or -1 for no end. ``drain`` is for how many seconds a running cycle is waited for (130, without a wait 1, and without
    an end where the wait has none). ``version`` is the holder's own, and ``about`` the address (http or https) of what the lock
    is held for, such as a CI run: whoever waits sees it.

    ``durable=False`` leaves out the sync of the lock file to the disk, for short turns on a ``lock:PATH`` that need not survive
    a power cut in one piece. The file may be empty then, and nobody claims it until a person removes it. The lock of a database
    is always synced: ``acquire`` raises ``beadlock.UsageError``.

    ``acquire(wait=5)`` has a wait of its own, and ``with lock.acquire(wait=5):`` releases at its end. With ``reentrant=True`` the
    thread or task that has it by this object acquires it once more at once, and keeps it until the last release.

    >>> import beadlock
    >>> with Lock(".beads", holder="importer"):
    ...     str(beadlock.should_skip_database(".beads"))
    'Skipping database (locked by importer)'
    >>> bool(beadlock.should_skip_database(".beads"))
    False

    A decorator takes it for each call, of ``async def`` too:

    >>> import os
    >>> @Lock("lock:report.lock")
    ... def report():
    ...     return os.path.exists("report.lock")
    >>> report(), os.path.exists("report.lock")
    (True, False)

    Another thread or task that wants the same waits as another process would; the same one, which would wait for itself, gets
    ``LockHeld`` at once, and inside a ``Cycle`` of its own ``DrainTimeout``. A process that is forked does not have it, and
    releases nothing. ``beadlock.LockHeld`` is raised when the wait ran out, ``beadlock.LockLost`` at the end when the lock was
    lost meanwhile; where the block has raised something itself that is a warning.
    """

    def __new__(
        cls: type[L],
        target: Optional[Union[str, os.PathLike[str]]] = None,
        *,
        holder: Optional[str] = None,
        wait: Optional[float] = 10.0,
        drain: Optional[float] = None,
        version: Optional[str] = None,
        about: Optional[str] = None,
        durable: bool = True,
        reentrant: bool = False,
    ) -> L:
        name = _program() if holder is None else holder
        return super().__new__(
            cls, target, name, wait, drain, (version, about), durable, reentrant
        )


def _program() -> str:
    """What a lock file calls this program."""
    directory, script = os.path.split(sys.argv[0] if sys.argv else "")
    # python -m PACKAGE
    program = os.path.basename(directory) if script == "__main__.py" else script
    name = os.environ.get("BEADLOCK_HOLDER") or program
    printable = "".join(c if c.isprintable() else "?" for c in name)[:128]
    return "python" if printable.strip() in ("", "-c", "-m", "-") else printable
