"""Lock: beside the program, when it is waited for, forked, lost, dropped."""

from __future__ import annotations

import json
import math
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from typing import AsyncIterator, Callable, Iterator

import pytest

import beadlock
from conftest import PATIENCE, Scene, let_go, line, until

CTRL_C = """
import math, sys, threading, time
import beadlock, beadlock.memory

def tick():
    for _ in range(5):
        time.sleep(0.05)
    print("the interpreter runs", flush=True)

threading.Thread(target=tick, daemon=True).start()
try:
    beadlock.%s.%s
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
"""


def interrupted(
    scene: Scene, lock: str, acquire: str = "acquire()"
) -> subprocess.Popen[str]:
    """One that waits for this lock, sees that its threads run meanwhile, and gets Ctrl-C."""
    waiting = scene.python(CTRL_C % (lock, acquire))
    assert line(waiting) == "the interpreter runs\n"
    begun = time.monotonic()
    waiting.send_signal(signal.SIGINT)
    assert line(waiting) == "interrupted\n"
    assert time.monotonic() - begun < 5
    return waiting


def test_the_program_sees_it(scene: Scene) -> None:
    with beadlock.Lock(".beads", holder="importer") as lock:
        status = json.loads(scene.beadlock("status", "--json", ".beads").stdout)["data"]
        record = status[0]["record"]
        assert (record["holder"], record["pid"]) == ("importer", os.getpid())
        assert (
            lock.held
            and lock.id == record["beadlock"]["id"]
            and lock.path == scene.lock_file
        )
        lock.still_held()
        assert scene.beadlock("check", ".beads").returncode == 4
    assert scene.beadlock("check", ".beads").returncode == 0
    assert not lock.held and lock.id is None and lock.path is None
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()
    with pytest.raises(RuntimeError, match="not held"):
        lock.still_held()


def test_the_target_is_found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    (scene.top / "src").mkdir()
    monkeypatch.chdir("src")
    with beadlock.Lock() as lock:
        assert lock.path == scene.lock_file
    monkeypatch.setenv("BEADLOCK_TARGET", f"lock:{scene.top}/x.lock")
    monkeypatch.setenv("BEADLOCK_HOLDER", "nightly")
    with beadlock.Lock() as lock:
        assert (
            lock.path == scene.top / "x.lock"
            and json.loads(lock.path.read_text())["holder"] == "nightly"
        )
    with beadlock.Lock(scene.beads) as lock:
        assert lock.path == scene.lock_file


def test_the_holder_is_the_program(scene: Scene) -> None:
    prints = "import beadlock, json\nwith beadlock.Lock('.beads') as lock: print(json.loads(lock.path.read_text())['holder'])"
    for path in ("nightly.py", "importer/__main__.py"):
        pathlib.Path(path).parent.mkdir(exist_ok=True)
        pathlib.Path(path).write_text(prints)
    for words, holder in (
        (["nightly.py"], "nightly.py"),
        (["-m", "importer"], "importer"),
        (["-c", prints], "python"),
    ):
        assert line(scene.start(sys.executable, *words)) == f"{holder}\n"


def test_the_version_and_the_address_are_in_the_lock_file(scene: Scene) -> None:
    with beadlock.Lock(
        ".beads", version="2.4.0", about="https://ci.example/runs/7"
    ) as lock:
        record = json.loads(scene.lock_file.read_text())
        assert (record["version"], record["beadlock"]["about"]) == (
            "2.4.0",
            "https://ci.example/runs/7",
        ) and lock.held
    with beadlock.Lock(".beads"):
        record = json.loads(scene.lock_file.read_text())
        assert "version" not in record and "about" not in record["beadlock"]
    for words in ({"version": "a\nb"}, {"about": "file:///etc/passwd"}):
        with pytest.raises(beadlock.UsageError):
            beadlock.Lock(".beads", **words).acquire()
    assert not scene.lock_file.exists()


def test_a_lock_at_a_path_can_do_without_the_sync(scene: Scene) -> None:
    with beadlock.Lock("lock:short.lock", durable=False) as lock:
        assert lock.path == scene.top / "short.lock" and lock.path.exists()
        lock.still_held()
    assert not (scene.top / "short.lock").exists()
    for target in (".beads", "lock:.beads/.exclusive-lock"):
        with pytest.raises(beadlock.UsageError, match="always synced to the disk"):
            beadlock.Lock(target, durable=False).acquire()
    assert not scene.lock_file.exists()


SYNCS = """
import beadlock
for durable in (True, False):
    with beadlock.Lock("lock:short.lock", durable=durable):
        pass
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_only_a_durable_lock_is_synced(scene: Scene) -> None:
    trace = ["strace", "-f", "-e", "trace=fsync,fdatasync,linkat", "-o", "calls"]
    subprocess.run([*trace, sys.executable, "-c", SYNCS], check=True)
    calls = [
        call
        for call in ("fsync(", "fdatasync(", "linkat(")
        for line in pathlib.Path("calls").read_text().splitlines()
        if f" {call}" in line and line.endswith(" = 0")
    ]
    assert calls == ["fdatasync(", "linkat(", "linkat("]


def test_who_holds_it_is_in_the_exception(scene: Scene) -> None:
    scene.other("lock:build.lock")
    with pytest.raises(beadlock.LockHeld) as refused:
        beadlock.Lock("lock:build.lock", wait=0.05).acquire()
    held = pickle.loads(pickle.dumps(refused.value))
    record = json.loads(pathlib.Path("build.lock").read_text())
    assert (held.code, held.holder, held.pid, held.host) == (
        "LOCK_HELD",
        "sh",
        record["pid"],
        record["hostname"],
    )
    assert held.path == scene.top / "build.lock"
    assert held.since.isoformat().replace("+00:00", "Z") == record["started_at"]
    assert 0 <= held.age < PATIENCE and 0 < held.retry_after <= 30
    assert held.detail.startswith("lock_file=") and f"PID {record['pid']}" in str(held)
    answer = scene.beadlock(
        "hold", "--json", "--wait", "50ms", "lock:build.lock", "--", "true"
    )
    words = json.loads(answer.stdout)["error"]["message"]
    # The ages differ.
    assert str(held).split("age")[0] == words.split("age")[0]


def test_it_is_waited_for(scene: Scene) -> None:
    other = scene.other()
    lock = beadlock.Lock(".beads", wait=PATIENCE)
    done = threading.Event()

    def claim() -> None:
        with lock:
            done.set()

    thread = threading.Thread(target=claim)
    thread.start()
    assert not done.wait(0.2)
    let_go(other)
    assert done.wait(PATIENCE)
    thread.join()
    assert not scene.lock_file.exists()


@pytest.mark.parametrize(
    "lock",
    ["Lock('.beads', wait=None)", "Lock('lock:.beads/.exclusive-lock', wait=600)"],
)
def test_ctrl_c_ends_a_wait_for_a_holder(scene: Scene, lock: str) -> None:
    other = scene.other()
    before = scene.lock_file.read_bytes()
    waiting = interrupted(scene, lock)
    assert scene.lock_file.read_bytes() == before
    let_go(other)
    with beadlock.Lock(".beads", wait=0):
        pass
    let_go(waiting)


def test_ctrl_c_ends_a_wait_for_a_cycle(scene: Scene) -> None:
    with beadlock.Cycle(".beads"):
        waiting = interrupted(scene, "Lock('.beads')")
    # The thread that was blocked on the gate lets it go at once.
    until(
        "the gate is free",
        lambda: not beadlock.should_skip_database(".beads") and free(scene),
    )
    assert not scene.lock_file.exists()
    let_go(waiting)


def free(scene: Scene) -> bool:
    try:
        with beadlock.Cycle(".beads"):
            return True
    except beadlock.Skipped:
        return False


def test_a_handler_that_raises_ends_a_wait_too(scene: Scene) -> None:
    class Alarm(Exception):
        pass

    def ring(*_: object) -> None:
        raise Alarm

    scene.other()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            beadlock.Lock(".beads", wait=PATIENCE).acquire()
        assert time.monotonic() - begun < PATIENCE / 2
    finally:
        signal.signal(signal.SIGALRM, before)


def in_a_fork(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_releases_nothing(scene: Scene) -> None:
    def leave_the_block() -> None:
        nonlocal lock
        assert not lock.held and lock.id is None
        lock.__exit__(None, None, None)
        lock = None  # type: ignore[assignment]

    with beadlock.Lock(".beads") as lock:
        in_a_fork(leave_the_block)
        lock.still_held()
        assert beadlock.should_skip_database(".beads").pid == os.getpid()
    assert not scene.lock_file.exists()


def test_a_loss_is_told_at_the_end(scene: Scene) -> None:
    lock = beadlock.Lock("lock:build.lock")
    with pytest.raises(beadlock.LockLost) as lost:
        with lock:
            os.unlink("build.lock")
            with pytest.raises(beadlock.LockLost):
                lock.still_held()
    assert lost.value.code == "LOCK_LOST" and not lock.held
    with (
        pytest.warns(RuntimeWarning, match="build.lock"),
        pytest.raises(KeyError, match="first"),
    ):
        with lock:
            os.unlink("build.lock")
            raise KeyError("first")
    # Somebody else's in its place is left alone.
    with pytest.raises(beadlock.LockLost):
        with lock:
            os.unlink("build.lock")
            scene.other("lock:build.lock")
    assert pathlib.Path("build.lock").exists()


def test_what_is_dropped_is_released(scene: Scene) -> None:
    lock = beadlock.Lock(".beads")
    lock.acquire()
    assert scene.lock_file.exists()
    del lock
    assert not scene.lock_file.exists()


def test_a_decorated_function_has_it(scene: Scene) -> None:
    @beadlock.Lock(".beads", holder="report")
    def report(fails: bool) -> bool:
        """What it says."""
        assert beadlock.should_skip_database(".beads").holder == "report"
        return 1 // (not fails) == 1

    assert report.__doc__ == "What it says." and report(False)
    with pytest.raises(ZeroDivisionError):
        report(True)
    assert not scene.lock_file.exists()


def test_what_would_run_without_the_lock_is_not_decorated(scene: Scene) -> None:
    def lines() -> Iterator[int]:
        yield 1

    async def async_lines() -> AsyncIterator[int]:
        yield 1

    for generator in (lines, async_lines):
        with pytest.raises(TypeError, match="take the lock inside it"):
            beadlock.Lock(".beads")(generator)


def test_threads_take_turns_with_one_lock_and_with_many(scene: Scene) -> None:
    shared = beadlock.Lock("lock:n.lock", wait=PATIENCE)
    inside: list[int] = []
    most: list[int] = []

    def work(own: bool) -> None:
        for _ in range(3):
            with beadlock.Lock("lock:n.lock", wait=PATIENCE) if own else shared:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    threads = [
        threading.Thread(target=work, args=(own,)) for own in (False, False, True, True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert most == [1] * 12 and not pathlib.Path("n.lock").exists()


def test_inside_a_hold_it_is_nested(scene: Scene) -> None:
    script = "import beadlock\nwith beadlock.Lock('.beads', wait=0) as lock: print(lock.id)\nprint(lock.held)"
    ended = scene.beadlock("hold", ".beads", "--", sys.executable, "-c", script)
    assert ended.returncode == 0, ended
    assert len(ended.stdout.split()[0]) == 32 and ended.stdout.split()[1] == "False"


def test_a_command_inside_the_block_is_nested_by_its_id(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = ("hold", "--no-wait", ".beads", "--", "true")
    with beadlock.Lock(".beads") as lock:
        assert lock.id is not None and scene.beadlock(*hold).returncode == 4
        monkeypatch.setenv("BEADLOCK_ID", lock.id)
        assert scene.beadlock(*hold).returncode == 0
        lock.still_held()
    assert not scene.lock_file.exists()


def test_what_makes_no_sense(scene: Scene) -> None:
    for wait in (-2.0, math.nan):
        with pytest.raises(ValueError, match="wait is a number of seconds"):
            beadlock.Lock(".beads", wait=wait)
    for target, words in (
        ("tower:app", "beadlock hold"),
        ("file:x", "file"),
        ("nfs:x", "nfs"),
    ):
        with pytest.raises(beadlock.UsageError, match=words):
            beadlock.Lock(target).acquire()
    with pytest.raises(beadlock.UsageError, match="1 to 128 printable"):
        beadlock.Lock(".beads", holder="a\nb").acquire()
    with pytest.raises(beadlock.NoTarget):
        beadlock.Lock("no/such/.beads").acquire()
    scene.lock_file.write_text("{")
    with pytest.raises(beadlock.LockUnreadable, match="malformed"):
        beadlock.Lock(".beads").acquire()
    assert scene.lock_file.read_text() == "{"
