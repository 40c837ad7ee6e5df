#!/usr/bin/env python3
"""A sync daemon that stays out of the way of claims: every cycle runs under `beadlock cycle`.

    daemon.py [--interval SECONDS] [--target DIR] -- CMD [ARG...]

Python 3.8 or later, nothing but the standard library. Lines go to stderr, times are in UTC.

SIGTERM and SIGINT end it after the cycle that is running, with exit code 0; the second one is passed on to that cycle.
"""

import argparse
import logging
import select
import signal
import socket
import subprocess
import sys
import threading
import time

# beadlock's own exit codes for "leave the database alone this time": claimed or busy, could not be checked. Why is in
# the line that it prints. A command of yours that ends with one of these is better wrapped: `sh -c 'cmd || exit 1'`.
SKIPPED = (4, 5)

log = logging.getLogger("daemon")


class Signals:
    """Signals, one by one where it suits the daemon, never in the middle of something."""

    def __init__(self, *numbers):
        self.receiver, self.sender = socket.socketpair()
        self.receiver.setblocking(False)
        self.sender.setblocking(False)
        signal.set_wakeup_fd(self.sender.fileno(), warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, lambda _number, _frame: None)

    def wait(self, timeout=None):
        """Waits for signals, and returns their numbers."""
        ready, _, _ = select.select([self.receiver], [], [], timeout)
        return self.receiver.recv(4096) if ready else b""


class Daemon:
    def __init__(self, command, interval):
        self.command = command
        self.interval = interval
        self.stopping = False
        self.is_missing = False
        self.signals = Signals(signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

    def run(self):
        while not self.stopping:
            self.run_cycle()
            due = time.monotonic() + self.interval
            while not self.stopping and (left := due - time.monotonic()) > 0:
                self.heed(self.signals.wait(left))

    def heed(self, numbers, cycle=None):
        for number in numbers:
            if number == signal.SIGCHLD:
                continue
            if not self.stopping:
                log.info(
                    "Stopping%s", " after the cycle that is running" if cycle else ""
                )
            elif cycle:
                # `beadlock cycle` passes it on to the command, and waits for all that it has started.
                cycle.send_signal(signal.SIGTERM)
            self.stopping = True

    def run_cycle(self):
        try:
            # In a session of its own: a Ctrl-C is for the daemon, which lets the cycle finish.
            cycle = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            # Without beadlock nobody knows whether the database is claimed: no cycle. It may come back, as after an
            # upgrade.
            if not self.is_missing:
                log.error(
                    "No sync cycles: cannot run %s: %s", self.command[0], error.strerror
                )
            self.is_missing = True
            return
        self.is_missing = False
        # What the command leaves behind may keep the pipe open: the end of the cycle is its process's end, not EOF.
        reader = threading.Thread(target=copy_to_log, args=(cycle.stdout,), daemon=True)
        reader.start()
        while cycle.poll() is None:
            self.heed(self.signals.wait(), cycle)
        reader.join(timeout=1)
        if cycle.returncode == 0:
            log.info("Sync cycle complete")
        elif cycle.returncode < 0:
            log.error(
                "Sync cycle failed: beadlock was killed by signal %d", -cycle.returncode
            )
        elif cycle.returncode not in SKIPPED:
            log.error("Sync cycle failed: exit code %d", cycle.returncode)


def copy_to_log(stream):
    with stream:
        for line in stream:
            text = line.decode(errors="replace").rstrip("\n")
            log.info(
                "%s",
                text[len("beadlock: ") :] if text.startswith("beadlock: ") else text,
            )


def main():
    parser = argparse.ArgumentParser(
        description="Runs CMD as a sync cycle, again and again."
    )
    parser.add_argument("--interval", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument(
        "--target",
        metavar="DIR",
        help="default: the nearest .beads, as beadlock finds it",
    )
    parser.add_argument("command", nargs="+", metavar="CMD")
    options = parser.parse_args()

    logging.Formatter.converter = time.gmtime
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="[%(asctime)s] %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
    )
    target = [options.target] if options.target else []
    Daemon(
        ["beadlock", "cycle", *target, "--", *options.command], options.interval
    ).run()


if __name__ == "__main__":
    main()
