"""The package is typed: it passes mypy, its stubs are what is there, and whoever uses it gets the types."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

import beadlock
from conftest import Scene

pytest.importorskip("mypy", reason="mypy is for Python 3.10 and later")
PACKAGE = pathlib.Path(beadlock.__file__).parent
PYPROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"

USES = """
import asyncio
import beadlock

@beadlock.Lock(".beads", holder="x", wait=0)
def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    async with beadlock.FileLock("todo.json") as lock:
        lock.save_json({})
    reveal_type(lock)

reveal_type(add(1, 2))
with beadlock.Lock() as lock:
    reveal_type(lock.path)
try:
    with beadlock.Cycle(".beads"):
        pass
except beadlock.Skipped as skipped:
    reveal_type(skipped.decision.since)
add("one", 2)
"""


def run(*words: str) -> str:
    ended = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr


def test_the_package_and_its_stubs(scene: Scene) -> None:
    assert (PACKAGE / "py.typed").exists()
    assert "Success" in run(
        "-m", "mypy", "--config-file", str(PYPROJECT), "-p", "beadlock"
    )
    assert "Success" in run(
        "-m", "mypy.stubtest", "beadlock", "--mypy-config-file", str(PYPROJECT)
    )


def test_a_user_gets_the_types(scene: Scene) -> None:
    (scene.top / "uses.py").write_text(USES)
    said = run("-m", "mypy", "--config-file", str(PYPROJECT), "uses.py")
    types = [
        line.split('"')[1] for line in said.splitlines() if "Revealed type" in line
    ]
    assert types == [
        "beadlock._file.FileLock",
        "int",
        "pathlib.Path | None",
        "datetime.datetime | None",
    ], said
    assert 'Argument 1 to "add" has incompatible type "str"' in said
    assert said.count("error:") == 1, said
