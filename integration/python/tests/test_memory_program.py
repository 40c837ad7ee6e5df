"""``python -m beadlock.memory``: the commands, lines and exit codes of the document's program, and that program beside it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE, Scene, line, until
from test_memory import SEED, record

GONE = "2020-01-01T00:00:00.000Z"


def start(scene: Scene, *words: str) -> subprocess.Popen[str]:
    return scene.start(sys.executable, "-m", "beadlock.memory", *words)


def run(scene: Scene, *words: str) -> tuple[int, str, str]:
    """Its exit code, stdout and stderr."""
    process = start(scene, *words)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def held(scene: Scene, *words: str) -> subprocess.Popen[str]:
    """An ``acquire`` that has the lock."""
    process = start(scene, "acquire", *words)
    assert line(process).startswith("Lock acquired for: ")
    # It comes in the same write.
    assert (
        process.stdout is not None
        and process.stdout.readline() == "Press Ctrl+C to release...\n"
    )
    return process


def lock_file(scene: Scene) -> pathlib.Path:
    path = scene.top / "memory/.lock"
    path.parent.mkdir(exist_ok=True)
    return path


def test_the_status_is_the_documents_object(scene: Scene) -> None:
    assert run(scene, "status") == (0, '{\n  "locked": false\n}\n', "")
    lock_file(scene).write_text(record())
    code, out, err = run(scene, "status")
    holder = json.loads(lock_file(scene).read_text())
    expected = {
        "locked": True,
        "holder": holder,
        "is_stale": False,
        "stale_reason": None,
        "we_hold_it": False,
    }
    assert (code, out, err) == (0, json.dumps(expected, indent=2) + "\n", "")


@pytest.mark.parametrize(
    "ending, code", [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_acquire_holds_it_until_a_signal(
    scene: Scene, ending: signal.Signals, code: int
) -> None:
    process = held(scene, "--operation", "write:tasks.json")
    there = json.loads(lock_file(scene).read_text())
    assert (there["pid"], there["operation"]) == (process.pid, "write:tasks.json")
    process.send_signal(ending)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (code, "Lock released.\n", "")
    assert not lock_file(scene).exists()


def test_what_acquire_holds_it_for_where_nobody_says_so(scene: Scene) -> None:
    process = start(scene, "acquire")
    assert line(process) == "Lock acquired for: cli-test\n"


def test_a_lock_of_somebody_at_work_is_a_failure(scene: Scene) -> None:
    lock_file(scene).write_text(record(operation="write:tasks.json"))
    code, out, err = run(scene, "acquire", "--wait", "0.2")
    words = "Failed: Could not acquire lock within 0.2s. Held by session 'main' for operation 'write:tasks.json'\n"
    assert (code, out, err) == (1, words, "")


def test_a_signal_ends_the_wait_with_nothing_said_or_held(scene: Scene) -> None:
    lock_file(scene).write_text(record())
    before = lock_file(scene).read_text()
    for ending, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = start(scene, "acquire", "--wait", "600")
        # It waits, and hears signals as it is to, once it has these two.
        status = pathlib.Path(f"/proc/{process.pid}/status")
        caught = (1 << signal.SIGINT - 1) | (1 << signal.SIGTERM - 1)
        until(
            "it hears signals",
            lambda: (
                int(status.read_text().split("SigCgt:")[1].split()[0], 16) & caught
                == caught
            ),
        )
        process.send_signal(ending)
        assert (
            process.communicate(timeout=PATIENCE) == ("", "")
            and process.returncode == code
        )
    assert lock_file(scene).read_text() == before


def test_a_lock_that_is_lost_is_a_failure(scene: Scene) -> None:
    process = held(scene)
    lock_file(scene).unlink()
    out, err = process.communicate(timeout=PATIENCE)
    assert (
        process.returncode == 1
        and out.startswith("Failed: ")
        and "Lock released" not in out
    ), (out, err)


def test_a_stale_lock_is_broken_and_kept(scene: Scene) -> None:
    assert run(scene, "break") == (0, "No lock to break.\n", "")
    assert run(scene, "release") == (0, "We don't hold the lock.\n", "")
    assert not (scene.top / "memory").exists(), "nothing is made for that"
    for command, words in (
        ("break", "Broke lock held by PID 12345\n"),
        ("release", "Lock forcibly removed.\n"),
    ):
        lock_file(scene).write_text(
            record(pid=12345, hostname="elsewhere", acquired_at=GONE)
        )
        before = lock_file(scene).read_text()
        code, out, err = run(scene, command)
        assert (code, out) == (0, words) and not lock_file(scene).exists()
        kept = re.fullmatch(
            r"Its record is kept in (/.*/memory/\.lock\.broken-.*\.json)\n", err
        )
        assert kept and pathlib.Path(kept[1]).read_text() == before
    lock_file(scene).write_text("no JSON")
    assert run(scene, "break") == (0, "No lock to break.\n", "")


@pytest.mark.parametrize(
    "command, words",
    [("break", "Broke lock held by PID {}\n"), ("release", "Lock forcibly removed.\n")],
)
def test_from_somebody_at_work_it_is_taken_only_when_that_is_said(
    scene: Scene, command: str, words: str
) -> None:
    holder = held(scene)
    code, out, err = run(scene, command)
    assert (code, err) == (1, "") and re.match(
        r"Failed: \S+/memory/\.lock is held by session unknown ", out
    ), out
    assert out.endswith(
        "; it was not touched; to take it all the same: --even-if-live\n"
    )
    assert json.loads(lock_file(scene).read_text())["pid"] == holder.pid
    assert run(scene, command, "--even-if-live")[:2] == (0, words.format(holder.pid))
    assert not lock_file(scene).exists()


def test_a_wrong_command_line_is_exit_2(scene: Scene) -> None:
    for words in (
        [],
        ["steal"],
        ["acquire", "--wait", "soon"],
        ["acquire", "--wait", "nan"],
    ):
        code, out, err = run(scene, *words)
        assert (code, out) == (2, "") and err.startswith(
            "usage: python -m beadlock.memory "
        ), err
    assert run(scene, "--help")[0] == 0


def test_the_documents_program_and_this_say_the_same(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command after the same lock, of both programs."""
    if not SEED.exists():
        pytest.skip("no shared/ beside the checkout")
    source = next(
        block
        for block in re.findall(r"```python\n(.*?)```", SEED.read_text(), re.DOTALL)
        if "class MemoryLock" in block
    )
    root = re.compile(r'Path\(r"[^"]*"\)')
    assert root.search(source)
    # It knows one workspace, by a path of Windows.
    (scene.top / "lock_manager.py").write_text(root.sub("Path('.')", source))

    def both(*words: str) -> tuple[int, str]:
        seen = []
        for program in (["-m", "beadlock.memory"], ["lock_manager.py"]):
            lock_file(scene).unlink(missing_ok=True)
            if there is not None:
                lock_file(scene).write_text(there)
            ended = subprocess.run(
                [sys.executable, *program, *words],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            out = re.sub(r"[0-9.]+s old", "N s old", ended.stdout)
            seen.append((ended.returncode, out))
        ours, theirs = seen
        # It says this also of a lock that it never had.
        assert ours == (theirs[0], theirs[1].replace("Lock released.\n", "")), words
        return ours

    there = None
    assert both("status")[0] == both("break")[0] == 0
    there = record(pid=os.getpid(), operation="write:tasks.json")
    assert (
        json.loads(both("status")[1])["locked"]
        and both("acquire", "--wait", "0.1")[0] == 1
    )
    there = record(pid=0x7FFFFFFE)
    assert json.loads(both("status")[1])["is_stale"] and both("break") == (
        0,
        f"Broke lock held by PID {0x7FFFFFFE}\n",
    )
    assert both("release") == (0, "Lock forcibly removed.\n")
    there = record(pid=os.getpid(), hostname="elsewhere", acquired_at=GONE)
    assert json.loads(both("status")[1])["stale_reason"] == "lock is N s old (>30s)"
    there = "no JSON"
    assert both("break") == (0, "No lock to break.\n")
