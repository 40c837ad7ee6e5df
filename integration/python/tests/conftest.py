"""A scene for each test: a directory of its own with a ``.beads`` in it, and an environment that says nothing of locks."""

from __future__ import annotations

import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from typing import Callable, Iterator

import pytest

BEADLOCK = pathlib.Path(os.environ.get("BEADLOCK_BIN", ""), "beadlock")
PATIENCE = 30.0

# A shell starts what it leaves in the background with SIGINT ignored, and so would be every program of the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)


def until(what: str, holds: Callable[[], bool]) -> None:
    """Waits for something that can be seen."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
        time.sleep(0.005)


def line(process: subprocess.Popen[str]) -> str:
    """What it says next."""
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0], "it says nothing"
    return process.stdout.readline()


class Scene:
    """What a test does beside itself."""

    def __init__(self, top: pathlib.Path) -> None:
        self.top = top
        self.beads = top / ".beads"
        self.lock_file = self.beads / ".exclusive-lock"
        self.beads.mkdir()
        self._processes: list[subprocess.Popen[str]] = []

    def start(self, *command: object) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )
        self._processes.append(process)
        return process

    def python(self, script: str) -> subprocess.Popen[str]:
        return self.start(sys.executable, "-c", script)

    def beadlock(self, *words: object) -> subprocess.CompletedProcess[str]:
        process = self.start(BEADLOCK, *words)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def other(self, target: str = ".beads") -> subprocess.Popen[str]:
        """``beadlock hold`` by somebody else, until its stdin ends."""
        process = self.start(
            BEADLOCK, "hold", target, "--", "sh", "-c", "echo held; cat"
        )
        assert line(process) == "held\n"
        return process

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def let_go(process: subprocess.Popen[str]) -> None:
    """The other's command ends, and so does its lock."""
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.fixture
def scene(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name in list(os.environ):
        if name.startswith(("BEADLOCK_", "BEADS_", "CLAWDBOT_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    scene = Scene(tmp_path)
    yield scene
    scene.end()
