"""FileLock and save_json, beside flock(1) and the program."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import pathlib
import threading
import time

import pytest

import beadlock
from conftest import PATIENCE, Scene, let_go, until
from test_lock import in_a_fork, interrupted


def flock_is_free(option: str = "-x") -> bool:
    import subprocess

    return (
        subprocess.run(
            ["flock", "-n", option, "todo.json.lock", "true"], check=False
        ).returncode
        == 0
    )


def test_flock_is_kept_out(scene: Scene) -> None:
    with beadlock.FileLock("todo.json") as lock:
        assert (
            lock.path == scene.top / "todo.json"
            and lock.lock_path == scene.top / "todo.json.lock"
        )
        assert not flock_is_free("-s")
        lock.still_held()
    assert flock_is_free() and lock.path is None
    with beadlock.FileLock("todo.json", shared=True):
        assert flock_is_free("-s") and not flock_is_free()
    assert (
        pathlib.Path("todo.json.lock").exists()
        and not pathlib.Path("todo.json").exists()
    )


def test_the_holder_is_named_and_waited_for(scene: Scene) -> None:
    other = scene.other("file:todo.json")
    with pytest.raises(beadlock.LockHeld) as held:
        beadlock.FileLock("todo.json", wait=0).acquire()
    assert (
        held.value.code == "E_LOCK_FAILED"
        and held.value.path == scene.top / "todo.json.lock"
    )
    assert held.value.pid is not None and held.value.retry_after is not None
    thread = threading.Thread(
        target=beadlock.save_json,
        args=("todo.json", {"n": 1}),
        kwargs={"wait": PATIENCE},
    )
    thread.start()
    thread.join(0.2)
    assert thread.is_alive() and not pathlib.Path("todo.json").exists()
    let_go(other)
    thread.join(PATIENCE)
    assert json.loads(pathlib.Path("todo.json").read_text()) == {"n": 1}


@pytest.mark.parametrize("wait", ["math.inf", "None", "-1"])
def test_ctrl_c_ends_a_wait_for_ever(scene: Scene, wait: str) -> None:
    other = scene.other("file:todo.json")
    waiting = interrupted(scene, f"FileLock('todo.json', wait={wait})")
    let_go(other)
    with beadlock.FileLock("todo.json"):
        pass
    let_go(waiting)


def test_a_fork_releases_nothing(scene: Scene) -> None:
    with beadlock.FileLock("todo.json") as lock:
        in_a_fork(lambda: lock.__exit__(None, None, None))
        assert not flock_is_free()
    assert flock_is_free()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_locks_for_itself(scene: Scene) -> None:
    def wait_for_the_parent() -> None:
        with pytest.raises(beadlock.LockHeld) as held:
            beadlock.FileLock("todo.json", wait=0).acquire()
        assert held.value.pid == os.getppid() and f"PID {os.getpid()} " not in str(
            held.value
        )
        pathlib.Path("refused").touch()
        with lock:
            assert not flock_is_free()

    lock = beadlock.FileLock("todo.json", wait=PATIENCE)
    with lock, concurrent.futures.ThreadPoolExecutor() as threads:
        child = threads.submit(in_a_fork, wait_for_the_parent)
        until(
            "the fork is refused",
            lambda: child.done() or pathlib.Path("refused").exists(),
        )
        lock.release()
        child.result(PATIENCE)
        lock.acquire()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_waits_for_itself(scene: Scene) -> None:
    """Its parent's thread, which has begun to wait, is not there."""
    other = scene.other("file:todo.json")
    lock = beadlock.FileLock("todo.json", wait=0.01)
    with pytest.raises(beadlock.LockHeld):
        lock.acquire()
    lock = beadlock.FileLock("todo.json", wait=PATIENCE)
    with concurrent.futures.ThreadPoolExecutor() as threads:
        child = threads.submit(in_a_fork, lock.acquire)
        with pytest.raises(concurrent.futures.TimeoutError):
            child.result(0.2)
        begun = time.monotonic()
        # The fork has its standard input open, too.
        other.terminate()
        child.result(PATIENCE)
        assert time.monotonic() - begun < PATIENCE / 2


def test_twice_in_a_process_fails_at_once(scene: Scene) -> None:
    with beadlock.FileLock("todo.json"):
        with pytest.raises(beadlock.LockFailed, match="this thread or task"):
            beadlock.FileLock("todo.json").acquire()
        with pytest.raises(beadlock.LockFailed):
            beadlock.save_json("todo.json", 1)


def test_a_loss_is_told(scene: Scene) -> None:
    with pytest.raises(beadlock.LockLost, match="todo.json.lock"):
        with beadlock.FileLock("todo.json") as lock:
            os.unlink("todo.json.lock")
            with pytest.raises(beadlock.LockLost):
                lock.save_json(1)
    assert not pathlib.Path("todo.json").exists()


def test_a_file_is_written_whole_with_backups(scene: Scene) -> None:
    path = pathlib.Path("todo.json")
    for n in range(4):
        beadlock.save_json(path, {"n": n, "ü": None}, backups=2)
    assert path.read_text() == '{\n  "n": 3,\n  "ü": null\n}\n'
    names = sorted(file.name for file in scene.top.iterdir() if file.is_file())
    assert names == ["todo.json", "todo.json.1", "todo.json.2", "todo.json.lock"]
    assert [
        json.loads(pathlib.Path(f"todo.json.{i}").read_text())["n"] for i in (1, 2)
    ] == [2, 1]


def test_an_update_is_one_under_the_lock(scene: Scene) -> None:
    path = pathlib.Path("todo.json")
    for n in range(2):
        with beadlock.update_json(path, default={"n": 0}) as todo:
            assert not flock_is_free() and todo == {"n": n}
            todo["n"] += 1
    with pytest.raises(KeyError):
        with beadlock.update_json(path) as todo:
            todo["n"] = 7
            raise KeyError
    with pytest.raises(ValueError):
        with beadlock.update_json(path) as todo:
            todo["n"] = float("inf")
    assert json.loads(path.read_text()) == {"n": 2} and flock_is_free()
    path.write_text("{")
    with pytest.raises(beadlock.BeadlockError, match="todo.json is not valid JSON: "):
        with beadlock.update_json(path):
            pass
    assert path.read_text() == "{"

    async def run() -> None:
        async with beadlock.update_json_async("new.json", default=[], backups=0) as new:
            new.append(1)
            assert not pathlib.Path("new.json").exists()
        async with beadlock.update_json_async("new.json", backups=0) as new:
            new.append(2)

    asyncio.run(run())
    assert (
        json.loads(pathlib.Path("new.json").read_text()) == [1, 2]
        and not pathlib.Path("new.json.1").exists()
    )


def test_what_is_no_json_or_not_of_the_schema_changes_nothing(scene: Scene) -> None:
    path = pathlib.Path("todo.json")
    beadlock.save_json(path, {"n": 1})
    before = path.read_bytes()
    pathlib.Path("schema.json").write_text('{"properties": {"n": {"type": "integer"}}}')
    with pytest.raises(beadlock.BeadlockError, match="schema.json"):
        beadlock.save_json(path, {"n": "one"}, schema="schema.json")
    with pytest.raises(ValueError):
        beadlock.save_json(path, float("nan"))
    with pytest.raises(TypeError):
        beadlock.save_json(path, object())
    with beadlock.FileLock(path) as lock:
        assert lock.read() == before
        with pytest.raises(beadlock.BeadlockError, match="JSON"):
            lock.write(b"{")
        lock.save_json({"n": 2}, schema="schema.json", backups=0)
    assert (
        json.loads(path.read_text()) == {"n": 2}
        and not pathlib.Path("todo.json.1").exists()
    )
    with beadlock.FileLock("notes.txt") as lock:
        assert lock.read() is None
        with pytest.raises(beadlock.BeadlockError, match="JSON"):
            lock.write(b"anything\n")
        with pytest.raises(ValueError, match="json, jsonl or any"):
            lock.write(b"anything\n", "text")  # type: ignore[arg-type]
        lock.write(b"anything\n", "any")
        assert lock.read() == b"anything\n"


def test_async(scene: Scene) -> None:
    async def run() -> None:
        await beadlock.save_json_async("todo.json", [1])
        async with beadlock.FileLock("todo.json") as lock:
            assert not flock_is_free() and lock.held
            with pytest.raises(beadlock.LockFailed):
                await beadlock.save_json_async("todo.json", [2])

    asyncio.run(run())
    assert flock_is_free() and pathlib.Path("todo.json").read_text() == "[\n  1\n]\n"


@pytest.mark.parametrize("kind", ["immutable", "mount"])
def test_a_write_that_fails_moves_no_backup(scene: Scene, kind: str) -> None:
    """Of a file that is immutable, and of one that is a mount point of its own."""
    import shutil
    import subprocess
    import sys

    names = ["todo.json", *(f"todo.json.{number}" for number in range(1, 6))]
    for number, name in enumerate(names):
        pathlib.Path(name).write_text(f"{number}\n")
    before = [pathlib.Path(name).read_text() for name in names]
    script = (
        "import beadlock, sys\n"
        "for number in range(6):\n"
        "    try: beadlock.save_json('todo.json', number)\n"
        "    except beadlock.BeadlockError as error: print(error)\n"
    )

    def six(*before: str) -> list[str]:
        process = scene.start(*before, sys.executable, "-c", script)
        return process.communicate(timeout=PATIENCE)[0].splitlines()

    def unchanged() -> bool:
        left = sorted(
            path.name
            for path in scene.top.iterdir()
            if path.name not in (".beads", "todo.json.lock")
        )
        return (
            left == names
            and [pathlib.Path(name).read_text() for name in names] == before
        )

    if os.geteuid() != 0:
        pytest.skip("needs root")
    unshare = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'cp todo.json x && mount --bind x todo.json && rm x && exec "$@"',
        "sh",
    ]
    if kind == "immutable":
        if (
            shutil.which("chattr") is None
            or subprocess.run(["chattr", "+i", "todo.json"], check=False).returncode
            != 0
        ):
            pytest.skip("needs chattr +i")
        try:
            said = six()
        finally:
            subprocess.run(["chattr", "-i", "todo.json"], check=True)
        assert len(said) == 6 and all(
            "todo.json is immutable (chattr +i)" in line for line in said
        ), said
        assert unchanged()
    else:
        if subprocess.run([*unshare, "true"], check=False).returncode != 0:
            pytest.skip("needs a mount")
        said = six(*unshare)
        wanted = "todo.json is a mount point of its own (docker -v file:file); mount its directory instead"
        assert len(said) == 6 and all(wanted in line for line in said), said
        assert unchanged()
    beadlock.save_json("todo.json", "new")
    assert pathlib.Path("todo.json.1").read_text() == before[0], (
        "and one that succeeds moves them"
    )
