"""Many threads and tasks of one process that want the same lock."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import pathlib
import signal
import threading
import time

import pytest

import beadlock
from conftest import PATIENCE, Scene, let_go, line, until

QUICKLY = PATIENCE / 3


def lock_of(kind: str, wait: float = PATIENCE) -> "beadlock.Lock | beadlock.FileLock":
    if kind == "FileLock":
        return beadlock.FileLock("todo.json", wait=wait)
    return beadlock.Lock(".beads" if kind == "Lock" else "lock:x.lock", wait=wait)


KINDS = pytest.mark.parametrize("kind", ["FileLock", "Lock", "named"])


@KINDS
@pytest.mark.parametrize("is_one", [True, False])
def test_threads_take_turns(scene: Scene, kind: str, is_one: bool) -> None:
    inside, most, done = 0, 0, 0
    common = lock_of(kind)

    def work() -> None:
        nonlocal inside, most, done
        for _ in range(5):
            with common if is_one else lock_of(kind) as lock:
                lock.still_held()
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1
                done += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (most, done, common.held) == (1, 20, False)


@KINDS
@pytest.mark.parametrize("is_one", [True, False])
def test_tasks_take_turns(scene: Scene, kind: str, is_one: bool) -> None:
    inside, most, done = 0, 0, 0
    common = lock_of(kind)

    async def work() -> None:
        nonlocal inside, most, done
        for _ in range(5):
            async with common if is_one else lock_of(kind):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1
                done += 1

    async def run() -> None:
        await asyncio.gather(*(work() for _ in range(4)))

    asyncio.run(run())
    assert (most, done, common.held) == (1, 20, False)


def test_eight_threads_save_json(scene: Scene) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for _ in threads.map(
            lambda n: beadlock.save_json("todo.json", {"n": n}), range(32)
        ):
            pass

    def count(_n: int) -> None:
        with beadlock.update_json("counts.json", default={"n": 0}) as counts:
            counts["n"] += 1

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(40)))
    assert json.loads(pathlib.Path("counts.json").read_text()) == {"n": 40}


def test_first_come_first_served(scene: Scene) -> None:
    order: list[int] = []
    ready: list[int] = []

    def work(number: int) -> None:
        ready.append(number)
        with beadlock.FileLock("todo.json"):
            order.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    with beadlock.FileLock("todo.json"):
        for number, thread in enumerate(threads):
            thread.start()
            until("it is about to wait", lambda: len(ready) == number + 1)
            # It joins the queue within that.
            time.sleep(0.02)
    for thread in threads:
        thread.join(PATIENCE)
    assert order == list(range(8))


@KINDS
def test_who_has_it_and_asks_again_is_refused_at_once(scene: Scene, kind: str) -> None:
    lock = lock_of(kind)
    with lock:
        for other in (lock, lock_of(kind)):
            begun = time.monotonic()
            with pytest.raises(beadlock.BeadlockError, match="this thread or task"):
                other.acquire()
            assert time.monotonic() - begun < QUICKLY
        assert lock.held
    with lock_of(kind):
        pass


@KINDS
def test_a_task_that_has_it_and_asks_again_is_refused_at_once(
    scene: Scene, kind: str
) -> None:
    async def run() -> None:
        begun = time.monotonic()
        async with lock_of(kind):
            with pytest.raises(beadlock.BeadlockError, match="this thread or task"):
                await lock_of(kind).acquire_async()
            with pytest.raises(beadlock.BeadlockError, match="this thread or task"):
                lock_of(kind).acquire()
        # A lock taken without await is its task's, too.
        with lock_of(kind):
            with pytest.raises(beadlock.BeadlockError, match="this thread or task"):
                await lock_of(kind).acquire_async()

            async def another() -> None:
                async with lock_of(kind):
                    pass

            task = asyncio.create_task(another())
            await asyncio.sleep(0.05)
            assert not task.done()
        await task
        assert time.monotonic() - begun < QUICKLY

    asyncio.run(run())


@KINDS
def test_a_task_that_would_block_the_others_is_refused_at_once(
    scene: Scene, kind: str
) -> None:
    """No other task runs while this one waits, so that one would never release it."""

    async def run() -> None:
        async with lock_of(kind):

            async def blocks() -> None:
                with lock_of(kind):
                    raise AssertionError

            begun = time.monotonic()
            with pytest.raises(beadlock.BeadlockError, match="this thread or task"):
                await asyncio.create_task(blocks())
            assert time.monotonic() - begun < QUICKLY

    asyncio.run(run())


def test_a_lock_inside_ones_own_cycle_is_refused_at_once(scene: Scene) -> None:
    async def run() -> None:
        async with beadlock.Cycle(".beads"):
            with pytest.raises(beadlock.DrainTimeout, match="leave the cycle first"):
                await beadlock.Lock(".beads").acquire_async()

    begun = time.monotonic()
    with beadlock.Cycle(".beads"):
        with pytest.raises(beadlock.DrainTimeout, match="leave the cycle first"):
            beadlock.Lock(".beads").acquire()
        # Somebody else's cycle it would wait for.
        with beadlock.Lock("lock:x.lock"):
            pass
        waits = concurrent.futures.ThreadPoolExecutor(1)
        claim = waits.submit(lambda: beadlock.Lock(".beads").__enter__())
        with pytest.raises(concurrent.futures.TimeoutError):
            claim.result(0.1)
    claim.result(PATIENCE).release()
    asyncio.run(run())
    assert time.monotonic() - begun < 2 * QUICKLY


def test_readers_of_one_object_release_their_own(scene: Scene) -> None:
    """Else who releases first would count as still holding it."""
    lock = beadlock.FileLock("todo.json", shared=True)
    lock.acquire()
    inside, leave = threading.Event(), threading.Event()

    def reads() -> None:
        with lock:
            inside.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=reads)
    thread.start()
    assert inside.wait(PATIENCE)
    lock.release()
    lock.acquire()
    leave.set()
    thread.join(PATIENCE)
    lock.release()
    assert not lock.held


def test_a_waiting_task_that_is_cancelled_leaves_the_queue(scene: Scene) -> None:
    async def run() -> None:
        async with beadlock.FileLock("todo.json"):

            async def waits() -> None:
                async with beadlock.FileLock("todo.json"):
                    pass

            first, second = asyncio.create_task(waits()), asyncio.create_task(waits())
            await asyncio.sleep(0.05)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
        await asyncio.wait_for(second, PATIENCE)

    asyncio.run(run())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_has_a_queue_of_its_own(scene: Scene) -> None:
    with beadlock.FileLock("todo.json"):
        thread = threading.Thread(
            target=lambda: beadlock.FileLock("todo.json").acquire()
        )
        thread.start()
        child = os.fork()
        if child == 0:
            try:
                beadlock.FileLock("todo.json", wait=0.2).acquire()
            except beadlock.LockHeld as held:
                os._exit(0 if held.pid == os.getppid() else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join(PATIENCE)


KILLED = """
import threading, time
import beadlock

def work():
    while True:
        with beadlock.FileLock("todo.json"):
            print("in", flush=True)

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(600)
"""


def test_a_kill_leaves_it_to_others(scene: Scene) -> None:
    other = scene.python(KILLED)
    assert line(other) == "in\n"
    other.send_signal(signal.SIGKILL)
    other.wait(PATIENCE)
    with beadlock.FileLock("todo.json"):
        pass


def test_threads_wait_for_another_process(scene: Scene) -> None:
    other = scene.other("file:todo.json")
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(beadlock.save_json, "todo.json", n, wait=PATIENCE)
            for n in range(4)
        ]
        time.sleep(0.05)
        assert not any(future.done() for future in done)
        let_go(other)
        for future in done:
            future.result(PATIENCE)


def test_the_time_out_names_this_process(scene: Scene) -> None:
    def gives_up(wait: float) -> str:
        with pytest.raises(beadlock.LockHeld) as held:
            beadlock.FileLock("todo.json", wait=wait).acquire()
        assert held.value.pid == os.getpid()
        return str(held.value)

    with (
        beadlock.FileLock("todo.json"),
        concurrent.futures.ThreadPoolExecutor() as other,
    ):
        for wait in (0, 0.1):
            words = other.submit(gives_up, wait).result(PATIENCE)
            assert (
                f"another thread or task of this process (PID {os.getpid()})" in words
            )


def test_a_lock_around_an_event_loop_is_not_waited_for_in_it(scene: Scene) -> None:
    """Its thread goes on when its tasks have ended."""

    async def work() -> None:
        with pytest.raises(beadlock.LockFailed):
            await beadlock.save_json_async("todo.json", 1, wait=PATIENCE)
        with pytest.raises(beadlock.LockHeld):
            await beadlock.Lock("lock:x.lock", wait=PATIENCE).acquire_async()

    begun = time.monotonic()
    with beadlock.FileLock("todo.json"), beadlock.Lock("lock:x.lock"):
        asyncio.run(work())
    assert time.monotonic() - begun < PATIENCE / 2
