"""``async with``: the loop runs on, many wait, and a cancellation leaves nothing claimed."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import threading

import pytest

import beadlock
from beadlock import memory
from beadlock.memory import LockError, MemoryLock, get_lock, with_lock
from conftest import PATIENCE, Scene, let_go, line, until


def test_the_loop_runs_on_while_it_waits(scene: Scene) -> None:
    other = scene.other()

    async def run() -> int:
        async def claim() -> None:
            async with beadlock.Lock(".beads", wait=PATIENCE) as lock:
                assert lock.held and scene.lock_file.exists()

        task = asyncio.create_task(claim())
        ticks = 0
        while ticks < 20:
            await asyncio.sleep(0.01)
            ticks += 1
        assert not task.done()
        await asyncio.get_running_loop().run_in_executor(None, let_go, other)
        await task
        return ticks

    assert asyncio.run(run()) == 20
    assert not scene.lock_file.exists()


@pytest.mark.parametrize("lock", ["Lock('.beads')", "FileLock('todo.json')"])
def test_a_cancelled_wait_claims_nothing(scene: Scene, lock: str) -> None:
    target = ".beads" if lock.startswith("Lock") else "file:todo.json"
    other = scene.other(target)

    async def run() -> None:
        waiting = eval(f"beadlock.{lock}")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(waiting.acquire_async(), 0.2)
        assert not waiting.held

    asyncio.run(run())
    let_go(other)
    again = eval(f"beadlock.{lock}")
    again.acquire()
    again.release()


CTRL_C = """
import asyncio, sys
import beadlock

ends = []

async def run():
    try:
        async with beadlock.Lock(".beads", wait=600):
            ends.append("claimed")
    finally:
        ends.append("cleaned up")

print("begins", flush=True)
try:
    asyncio.run(run())
except KeyboardInterrupt:
    print(*ends, flush=True)
    sys.stdin.read()
"""


def test_ctrl_c_ends_a_task_s_wait(scene: Scene) -> None:
    other = scene.other()
    waiting = scene.python(CTRL_C)
    assert line(waiting) == "begins\n"
    until(
        "a thread of its waits",
        lambda: len(os.listdir(f"/proc/{waiting.pid}/task")) > 1,
    )
    waiting.send_signal(signal.SIGINT)
    assert line(waiting) == "cleaned up\n"
    let_go(other)
    with beadlock.Lock(".beads", wait=0):
        pass
    let_go(waiting)


AT_THE_END = """
import threading, time
import beadlock

for lock in (beadlock.Lock(".beads", wait=600), beadlock.FileLock("todo.json", wait=600)):
    threading.Thread(target=lock.acquire, daemon=True).start()
# Longer than it takes until they ask.
time.sleep(0.12)
"""


def test_a_process_ends_while_its_threads_wait(scene: Scene) -> None:
    scene.other()
    scene.other("file:todo.json")
    ends = scene.python(AT_THE_END)
    said = ends.communicate(timeout=PATIENCE)
    assert (ends.returncode, *said) == (0, "", "")


def test_a_task_cancelled_at_any_moment_leaves_nothing(scene: Scene) -> None:
    """From before its thread runs to after the claim stands: released, whenever it is."""
    lock = beadlock.Lock("lock:x.lock", wait=PATIENCE)

    async def claim() -> None:
        async with lock:
            await asyncio.sleep(PATIENCE)

    async def run() -> None:
        for step in range(40):
            task = asyncio.create_task(claim())
            await asyncio.sleep(step * 0.0005)
            while step == 39 and not lock.held:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not lock.held and not pathlib.Path("x.lock").exists(), step

    asyncio.run(run())


def test_more_waiters_than_an_executor_has_threads(scene: Scene) -> None:
    inside = 0

    @beadlock.Lock("lock:n.lock", wait=PATIENCE)
    async def work() -> None:
        nonlocal inside
        inside += 1
        assert inside == 1
        await asyncio.sleep(0)
        inside -= 1

    async def run() -> None:
        await asyncio.gather(*(work() for _ in range(48)))

    asyncio.run(run())
    assert not pathlib.Path("n.lock").exists()
    until(
        "its threads end",
        lambda: all(thread.name != "beadlock" for thread in threading.enumerate()),
    )


def test_a_directorys_lock_waits_for_another_process_and_the_loop_runs_on(
    scene: Scene,
) -> None:
    lock = MemoryLock()
    lock.lock_path.parent.mkdir()
    other = scene.other("memory:memory")
    before = lock.lock_path.read_text()

    @with_lock("locked", PATIENCE)
    async def work() -> str:
        return str(get_lock().status()["holder"]["operation"])

    async def run() -> None:
        with pytest.raises(LockError, match="within 0.1s. Held by session 'unknown'"):
            async with lock.acquire("refused", 0.1):
                pass
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(
                lock.acquire("called off", PATIENCE).acquire_async(), 0.2
            )
        assert (
            json.loads(lock.lock_path.read_text())["pid"] == json.loads(before)["pid"]
        )
        task = asyncio.create_task(work())
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert not task.done()
        await asyncio.get_running_loop().run_in_executor(None, let_go, other)
        assert await task == "locked"
        async with lock.acquire("outer"), lock.acquire("inner"):
            assert lock.status()["we_hold_it"]

    memory._default_lock = None
    asyncio.run(run())
    memory._default_lock = None
    assert not lock.lock_path.exists()


def test_release_and_errors_come_through(scene: Scene) -> None:
    async def run() -> None:
        lock = beadlock.Lock(".beads")
        await lock.acquire_async()
        with pytest.raises(beadlock.LockHeld) as held:
            await beadlock.Lock(".beads", wait=0).acquire_async()
        assert held.value.holder is not None
        scene.lock_file.unlink()
        with pytest.raises(beadlock.LockLost):
            await lock.release_async()
        with pytest.raises(RuntimeError, match="not held"):
            await lock.release_async()

    asyncio.run(run())
