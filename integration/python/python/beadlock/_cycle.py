"""One run of a daemon's work."""

from __future__ import annotations

from typing import TypeVar

from . import _beadlock, _threads

C = TypeVar("C", bound="Cycle")


class Cycle(_beadlock.Cycle):
    """One run of a daemon's work on the database in a directory, which is taken as it is. It holds the gate, so that a claim
    waits for its end, and two daemons never work at once.

    >>> import beadlock
    >>> with Cycle(".beads"):
    ...     "sync"
    'sync'

    Where it must not run the block is not entered: it raises ``beadlock.Skipped``, whose ``str()`` is the line for the log.

    >>> with beadlock.Lock(".beads", holder="make release"):
    ...     try:
    ...         with Cycle(".beads"):
    ...             "never"
    ...     except beadlock.Skipped as skipped:
    ...         print(skipped, f"[{skipped.decision.reason}]")
    Skipping database (locked by make release) [pid_alive]

    The gate is let go when this process ends. Work that commands do, which may outlive it, is for ``beadlock cycle -- CMD``.
    """

    async def __aenter__(self: C) -> C:
        asker = _beadlock._asker()

        def enter(_is_over: object) -> bool:
            self._enter_as(asker)
            return True

        await _threads.acquire(enter, self.leave)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.leave()
