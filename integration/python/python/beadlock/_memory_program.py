"""``python -m beadlock.memory``: what the lock manager of the clawdbot document does when it is run as a program.

Its commands, lines and exit codes, by the ``MemoryLock`` of this package. What the document's program does to a lock of
somebody at work takes ``--even-if-live`` here.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import time
import warnings
from types import FrameType
from typing import NoReturn, Optional, Sequence

from .errors import BeadlockError
from .memory import LockError, MemoryLock

FAILED = 1
INTERRUPTED = 128 + signal.SIGINT
LOOK_EVERY = 1.0
EPILOG = """The lock is memory/.lock in $CLAWDBOT_WORKSPACE, else in the current directory. acquire holds it until Ctrl-C, SIGTERM or SIGHUP.

Exit 0: done, or there was no lock. 1: somebody holds it, it was lost, or it failed. 2: the command line is wrong.
130: Ctrl-C while acquire waits; 143, 129: acquire was ended by SIGTERM, SIGHUP."""


def main(words: Optional[Sequence[str]] = None) -> int:
    """Runs it, and returns the exit code."""
    given = _parser().parse_args(words)
    lock = MemoryLock()
    try:
        if given.command == "status":
            print(json.dumps(lock.status(), indent=2))
            return 0
        if given.command == "acquire":
            return _acquire(lock, given.operation, given.wait)
        if given.command == "release":
            return _break(
                lock,
                given.even_if_live,
                "Lock forcibly removed.",
                "We don't hold the lock.",
            )
        return _break(
            lock,
            given.even_if_live,
            "Broke lock held by PID {pid}",
            "No lock to break.",
        )
    except BeadlockError as refused:
        return _failed(refused)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m beadlock.memory",
        description="The lock of a workspace's memory directory",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["status", "acquire", "release", "break"])
    parser.add_argument(
        "--operation",
        default="cli-test",
        help="what acquire holds it for (default: %(default)s)",
    )
    parser.add_argument(
        "--wait",
        type=_seconds,
        default=5.0,
        help="for how many seconds acquire waits (default: %(default)s)",
    )
    parser.add_argument(
        "--even-if-live",
        action="store_true",
        help="let break and release take it also from somebody at work",
    )
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if math.isnan(seconds):
        raise ValueError("not a number")
    return seconds


class _Ended(BaseException):
    """A signal has come that ends the program."""

    def __init__(self, number: int) -> None:
        self.code = 128 + number


def _end(number: int, _frame: Optional[FrameType]) -> NoReturn:
    raise _Ended(number)


def _acquire(lock: MemoryLock, operation: str, wait: float) -> int:
    """Holds it until a signal comes."""
    is_held, code = False, 0
    try:
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, _end)
        lock.acquire_blocking(operation, max_wait=wait)
        is_held = True
        print(f"Lock acquired for: {operation}\nPress Ctrl+C to release...", flush=True)
        while lock._native.lost() is None:
            time.sleep(LOOK_EVERY)
    except LockError as refused:
        return _failed(refused)
    except KeyboardInterrupt:
        code = 0 if is_held else INTERRUPTED
    except _Ended as ended:
        code = ended.code
    return _release(lock, code, is_held)


def _release(lock: MemoryLock, code: int, is_held: bool) -> int:
    with warnings.catch_warnings(record=True) as lost:
        warnings.simplefilter("always")
        lock.release()
    if lost:
        return _failed(lost[0].message)
    if is_held:
        print("Lock released.", flush=True)
    return code


def _break(lock: MemoryLock, even_if_live: bool, broke: str, nothing: str) -> int:
    try:
        broken = lock.break_lock(even_if_live)
    except LockError as refused:
        at_work = (
            "; to take it all the same: --even-if-live"
            if refused.code == "LOCK_HELD"
            else ""
        )
        return _failed(f"{refused}{at_work}")
    if broken is None:
        print(nothing)
        return 0
    print(broke.format(pid=broken["holder"].get("pid")))
    print(f"Its record is kept in {broken['kept']}", file=sys.stderr)
    return 0


def _failed(why: object) -> int:
    print(f"Failed: {why}", flush=True)
    return FAILED
