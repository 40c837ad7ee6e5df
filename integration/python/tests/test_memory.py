"""The lock of a memory directory: the guide's uses, and the document's own lock manager beside it."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import types
from datetime import datetime, timedelta, timezone
from typing import Any, Iterator

import pytest

from beadlock import memory
from beadlock.memory import LockError, MemoryLock, get_lock, with_lock
from conftest import PATIENCE, Scene, let_go, line
from test_lock import in_a_fork, interrupted

SHARED = pathlib.Path(
    os.environ.get("BEADLOCK_SHARED") or pathlib.Path(__file__).parents[4] / "shared"
)
SEED = SHARED / "seeds/clawdbot-memory-lock.md"


@pytest.fixture(autouse=True)
def default(scene: Scene) -> Iterator[None]:
    """Each test has a default lock of its own workspace."""
    memory._default_lock = None
    yield
    memory._default_lock = None


def record(**fields: Any) -> str:
    now = datetime.now(timezone.utc)
    host = os.uname().nodename
    return json.dumps(
        {
            "pid": os.getppid(),
            "session_id": "main",
            "acquired_at": now.isoformat(),
            "hostname": host,
            "operation": "x",
            **fields,
        }
    )


def test_the_guides_uses(scene: Scene) -> None:
    lock = MemoryLock()
    assert lock.lock_path == scene.top / "memory/.lock" and not lock.lock_path.exists()
    with lock.acquire("consolidation:nightly"):
        tasks = pathlib.Path("memory/tasks.json")
        tasks.write_text(json.dumps({"updated_at": datetime.now().isoformat()}))
        held = json.loads(lock.lock_path.read_text())
        assert (held["pid"], held["session_id"], held["operation"]) == (
            os.getpid(),
            "unknown",
            "consolidation:nightly",
        )
    assert not lock.lock_path.exists()

    @with_lock("heartbeat:check")
    def run_heartbeat(n: int) -> int:
        assert get_lock().status()["holder"]["operation"] == "heartbeat:check"
        return n

    assert run_heartbeat(7) == 7 and get_lock() is get_lock()
    assert lock.acquire_nowait("quick-check")
    try:
        assert lock.status()["we_hold_it"]
    finally:
        lock.release()
    assert lock.status() == {"locked": False}
    lock.release()


def test_get_lock_is_the_one_lock_of_the_default_workspace(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = get_lock()
    assert isinstance(lock, MemoryLock) and get_lock() is lock
    assert lock.lock_path == scene.top / "memory/.lock"
    probe = "from beadlock.memory import get_lock\nprint(get_lock().acquire_nowait('probe'))"

    def may_another_process() -> str:
        done = subprocess.run(
            [sys.executable, "-c", probe],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with lock.acquire("session:update-tasks"):
        assert get_lock().status()["we_hold_it"]
        assert (
            json.loads(lock.lock_path.read_text())["operation"]
            == "session:update-tasks"
        )
        assert may_another_process() == "False\n"
    assert may_another_process() == "True\n"
    monkeypatch.chdir(scene.beads)
    assert get_lock() is lock, "where it was made first"
    memory._default_lock = None
    monkeypatch.setenv("CLAWDBOT_WORKSPACE", str(scene.top / "w"))
    assert get_lock().lock_path == scene.top / "w/memory/.lock"


def test_with_lock_holds_it_for_each_call_and_no_longer(scene: Scene) -> None:
    seen = []

    @with_lock("update:tasks")
    def update(number: int, *, by: str = "") -> str:
        """Updates."""
        holder = get_lock().status()["holder"]
        seen.append((holder["pid"], holder["operation"]))
        if not number:
            raise KeyError(by)
        return f"{number} by {by}"

    lock = MemoryLock()
    assert not lock.lock_path.exists(), "a decorator takes nothing"
    assert (update.__name__, update.__doc__) == ("update", "Updates.")
    assert update(7, by="ann") == "7 by ann" and lock.status() == {"locked": False}
    with pytest.raises(KeyError, match="bob"):
        update(0, by="bob")
    assert lock.status() == {"locked": False}
    assert seen == [(os.getpid(), "update:tasks")] * 2

    @with_lock("refused", 0.2)
    def never() -> None:
        seen.append((0, "it ran"))

    lock.lock_path.write_text(record(operation="write:tasks.json"))
    with pytest.raises(
        LockError,
        match=r"within 0\.2s\. Held by session 'main' for operation 'write:tasks\.json'",
    ):
        never()
    assert len(seen) == 2


@pytest.fixture
def guide() -> str:
    """The document's uses, with the import changed and nothing else: the blocks in Python after its integration guide."""
    if not SEED.exists():
        pytest.skip("no shared/ beside the checkout")
    blocks = re.findall(
        r"```python\n(.*?)```",
        SEED.read_text().split("## Integration Guide")[1],
        re.DOTALL,
    )
    assert len(blocks) == 2
    return re.sub(
        r"from memory\.lock_manager import",
        "from beadlock.memory import",
        "\n".join(blocks),
    )


def test_the_guides_own_code_runs(scene: Scene, guide: str) -> None:
    assert guide.count("from beadlock.memory import") == 2
    (scene.top / "memory").mkdir()
    (scene.top / "memory/tasks.json").write_text("{}")
    # What it takes for granted: these imports, and who reads and writes the tasks.
    names: dict[str, Any] = {
        "json": json,
        "Path": pathlib.Path,
        "datetime": datetime,
        "workspace_root": scene.top,
    }
    tasks = scene.top / "memory/tasks.json"
    names["read_tasks_json"] = lambda: json.loads(tasks.read_text())
    names["write_tasks_json"] = lambda content: tasks.write_text(json.dumps(content))
    path = list(sys.path)
    try:
        exec(compile(guide, "guide", "exec"), names)
    finally:
        sys.path[:] = path
    assert "updated_at" in json.loads(tasks.read_text())
    seen = []
    names["update_tasks"](
        lambda content: (
            seen.append(MemoryLock().status()["holder"]["operation"])
            or content.update(done=1)
        )
    )
    names["run_heartbeat"]()
    assert (
        seen == ["session:update-tasks"] and json.loads(tasks.read_text())["done"] == 1
    )
    assert [entry.name for entry in (scene.top / "memory").iterdir()] == ["tasks.json"]


def test_a_class_of_its_own_may_be_made_of_it(scene: Scene) -> None:
    class OfTheWorkspace(MemoryLock):
        MAX_WAIT_DEFAULT = 0.1

        def __init__(self) -> None:
            super().__init__(scene.top / "w")

    lock = OfTheWorkspace()
    with lock.acquire("x"):
        assert (scene.top / "w/memory/.lock").exists()
    lock.lock_path.write_text(record())
    with pytest.raises(LockError, match="within 0.1s"):
        lock.acquire_blocking("x")


def test_the_workspace_and_the_session(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAWDBOT_WORKSPACE", str(scene.top / "w"))
    monkeypatch.setenv("CLAWDBOT_SESSION_ID", "nightly")
    lock = MemoryLock()
    assert (lock.workspace_root, lock.session_id) == (scene.top / "w", "nightly")
    with lock.acquire("x"):
        assert (
            json.loads((scene.top / "w/memory/.lock").read_text())["session_id"]
            == "nightly"
        )
    assert MemoryLock("v").lock_path == scene.top / "v/memory/.lock"


def test_nested_acquires_are_counted(scene: Scene) -> None:
    lock, again = MemoryLock(), MemoryLock()
    with lock.acquire("outer"):
        with lock.acquire("inner"), again.acquire("other object"):
            pass
        assert lock.status()["holder"]["operation"] == "outer"
        assert again.acquire_nowait("x")
        again.release()
        assert lock.lock_path.exists()
    assert not lock.lock_path.exists()


def test_who_holds_it_is_said_in_the_documents_words(scene: Scene) -> None:
    lock = MemoryLock()
    lock.lock_path.parent.mkdir()
    lock.lock_path.write_text(record(operation="write:tasks.json"))
    assert lock.acquire_nowait("x") is False
    with pytest.raises(LockError) as refused:
        lock.acquire_blocking("x", max_wait=0.2)
    assert str(refused.value).startswith(
        "Could not acquire lock within 0.2s. Held by session 'main' for operation 'write:tasks.json'"
    )
    assert (refused.value.pid, refused.value.path) == (os.getppid(), lock.lock_path)
    with pytest.raises(LockError, match="Held by session 'main'"):
        lock.acquire_blocking("x", max_wait=0)
    before = lock.lock_path.read_text()
    lock.release()
    assert lock.lock_path.read_text() == before
    status = lock.status()
    assert status["locked"] and not status["is_stale"] and not status["we_hold_it"]
    assert status["holder"] == json.loads(before) and status["stale_reason"] is None


def test_a_stale_one_is_broken_and_said(
    scene: Scene, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = MemoryLock()
    lock.lock_path.parent.mkdir()
    old = (datetime.now(timezone.utc) - timedelta(seconds=45)).isoformat()
    lock.lock_path.write_text(record(acquired_at=old))
    assert lock.status()["is_stale"], "without beadlock's key nobody refreshes it"
    assert lock.acquire_nowait("x", break_stale=False) is False
    assert lock.acquire_nowait("x")
    lock.release()
    assert re.fullmatch(
        r"\[LOCK\] Breaking stale lock: lock is [45]\d\.\ds old \(>30s\)\n",
        capfd.readouterr().err,
    )
    lock.lock_path.write_text(record(acquired_at=old, hostname="elsewhere"))
    assert lock.status()["is_stale"] and re.match(
        r"lock is \d+\.\ds old \(>30s\)", lock.status()["stale_reason"]
    )
    assert lock.acquire_nowait("x")
    lock.release()
    assert capfd.readouterr().err.startswith("[LOCK] Breaking stale lock: lock is ")
    lock.lock_path.write_text("no json")
    assert lock.acquire_nowait("x")
    lock.release()
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("nobody", ["open('/dev/full', 'w', buffering=1)", "None"])
def test_it_is_had_also_where_nobody_can_be_told_what_it_took(
    scene: Scene, nobody: str
) -> None:
    """What cannot be said is no failure of an acquire: nobody would release the lock."""
    lock = MemoryLock()
    lock.lock_path.parent.mkdir()
    lock.lock_path.write_text(record(acquired_at="2020-01-01T00:00:00Z"))
    program = (
        "import os, sys; from beadlock.memory import MemoryLock\n"
        f"sys.stderr = {nobody}\n"
        "lock = MemoryLock(); lock.acquire_blocking('x')\n"
        "print(lock.status()['we_hold_it'], flush=True); lock.release(); os._exit(0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert not lock.lock_path.exists()


def test_another_process_is_waited_for(scene: Scene) -> None:
    script = "import sys\nfrom beadlock.memory import get_lock\nwith get_lock().acquire('first'): print('held', flush=True); sys.stdin.read()"
    other = scene.python(script)
    assert line(other) == "held\n"
    done = threading.Event()

    def second() -> None:
        with get_lock().acquire("second", max_wait=PATIENCE):
            done.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not done.wait(0.2)
    other.communicate(timeout=PATIENCE)
    assert done.wait(PATIENCE)
    thread.join()


def test_ctrl_c_ends_the_wait(scene: Scene) -> None:
    lock = MemoryLock()
    lock.acquire_blocking("first")
    before = json.loads(lock.lock_path.read_text())
    waiting = interrupted(
        scene, "memory.MemoryLock()", "acquire_blocking('second', 600)"
    )
    assert json.loads(lock.lock_path.read_text())["operation"] == before["operation"]
    lock.release()
    assert not lock.lock_path.exists()
    let_go(waiting)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_releases_nothing_and_a_loss_is_a_warning(scene: Scene) -> None:
    lock = MemoryLock()
    with lock.acquire("x"):
        in_a_fork(lock.release)
        assert lock.status()["we_hold_it"]
    lock.acquire_blocking("x")
    lock.lock_path.unlink()
    with pytest.warns(RuntimeWarning, match="lock"):
        lock.release()


@pytest.fixture
def original(scene: Scene) -> types.ModuleType:
    """The document's own lock manager, cut out of it."""
    if not SEED.exists():
        pytest.skip("no shared/ beside the checkout")
    blocks = re.findall(r"```python\n(.*?)```", SEED.read_text(), re.DOTALL)
    source = next(block for block in blocks if "class MemoryLock" in block)
    (scene.top / "lock_manager.py").write_text(source)
    spec = importlib.util.spec_from_file_location(
        "lock_manager", scene.top / "lock_manager.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_original_and_this_keep_each_other_out(
    scene: Scene, original: types.ModuleType
) -> None:
    """In two processes: by both rules one process has what it has already."""
    probe = "import sys; sys.path.insert(0, '.')\nfrom %s import MemoryLock\nprint(MemoryLock('.').acquire_nowait('probe'))"

    def may(module: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", probe % module],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    ours, theirs = MemoryLock("."), original.MemoryLock(".")
    with ours.acquire("ours"):
        assert may("lock_manager") == "False\n"
        seen = theirs.status()
        assert (
            seen["locked"]
            and seen["we_hold_it"]
            and not seen["is_stale"]
            and seen["holder"]["operation"] == "ours"
        )
    with theirs.acquire("theirs"):
        assert may("beadlock.memory") == "False\n"
        seen = ours.status()
        assert seen == theirs.status() and seen["holder"]["operation"] == "theirs"
    assert may("lock_manager") == may("beadlock.memory") == "True\n"


def test_a_process_is_alive_until_it_is_known_to_be_gone() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    assert memory.is_process_alive(ended.pid)
    ended.wait()
    assert not memory.is_process_alive(ended.pid)
    assert memory.is_process_alive(os.getpid())
    assert memory.is_process_alive(1), "also where it may not be asked"
    assert memory.is_process_alive(1 << 70), "nothing is known of it"


def test_the_surface_is_the_originals(original: types.ModuleType) -> None:
    import inspect

    for name in (
        "LOCK_FILE",
        "STALE_TIMEOUT_SECONDS",
        "MAX_WAIT_DEFAULT",
        "BACKOFF_BASE_MS",
        "BACKOFF_MAX_MS",
    ):
        assert getattr(MemoryLock, name) == getattr(original.MemoryLock, name)
    for name in ("acquire", "acquire_blocking", "acquire_nowait", "release", "status"):
        ours, theirs = (
            inspect.signature(getattr(kind, name))
            for kind in (MemoryLock, original.MemoryLock)
        )
        assert [(p.name, p.default) for p in ours.parameters.values()] == [
            (p.name, p.default) for p in theirs.parameters.values()
        ], name
    for name in ("get_lock", "is_process_alive", "with_lock"):
        ours, theirs = (
            inspect.signature(getattr(module, name)) for module in (memory, original)
        )
        assert list(ours.parameters) == list(theirs.parameters)
