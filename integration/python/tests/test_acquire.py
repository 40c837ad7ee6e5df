"""What ``acquire`` and ``release`` take and give, of a ``Lock`` and a ``FileLock``."""

from __future__ import annotations

import asyncio
import pathlib
import pickle
import re
import threading
import time
from typing import Union

import pytest

import beadlock
from conftest import PATIENCE, Scene, let_go

AnyLock = Union[beadlock.Lock, beadlock.FileLock]
KINDS = ["lock:x.lock", "file:x"]


def lock(kind: str, wait: float = PATIENCE, reentrant: bool = False) -> AnyLock:
    if kind.startswith("lock:"):
        return beadlock.Lock(kind, wait=wait, reentrant=reentrant)
    return beadlock.FileLock("x", wait=wait, reentrant=reentrant)


@pytest.mark.parametrize("kind", KINDS)
def test_a_with_of_acquire_releases(scene: Scene, kind: str) -> None:
    one = lock(kind)
    with one.acquire(timeout=5) as held:
        assert held is one and one.held and one.is_held and one.is_locked
        assert one.lock_counter == 1
    assert not one.held and one.lock_counter == 0
    with pytest.raises(ZeroDivisionError):
        with one.acquire():
            print(1 / 0)
    assert not one.held
    one.acquire()
    one.release()
    assert scene.beadlock("check", kind).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_may_have_a_wait_of_its_own(scene: Scene, kind: str) -> None:
    other = scene.other(kind)
    one = lock(kind)
    for wait in ({"wait": 0}, {"wait": 0.05}, {"timeout": 0.05}, {"blocking": False}):
        begun = time.monotonic()
        with pytest.raises(beadlock.LockHeld) as held:
            one.acquire(**wait)  # type: ignore[arg-type]
        assert isinstance(held.value, TimeoutError) and held.value.pid
        assert time.monotonic() - begun < PATIENCE / 2
        again = pickle.loads(pickle.dumps(held.value))
        assert str(again) == str(held.value) and again.pid == held.value.pid
    ends = threading.Timer(0.1, let_go, [other])
    ends.start()
    with one.acquire(wait=None):
        pass
    ends.join(PATIENCE)
    with lock(kind, wait=0).acquire(timeout=-1):
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_that_is_none_is_refused(scene: Scene, kind: str) -> None:
    one = lock(kind)
    with pytest.raises(TypeError, match="blocking=False"):
        one.acquire(False)
    with pytest.raises(TypeError, match="two names"):
        one.acquire(1, timeout=1)
    with pytest.raises(ValueError, match="number of seconds"):
        one.acquire(float("nan"))
    assert not one.held


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_had_again_by_choice(scene: Scene, kind: str) -> None:
    one = lock(kind, reentrant=True)
    with one:
        with one.acquire(wait=0):
            assert one.lock_counter == 2
        assert one.held and scene.beadlock("check", kind).returncode == 4
    assert not one.held
    one.acquire()
    one.acquire()
    one.release(force=True)
    assert not one.held and scene.beadlock("check", kind).returncode == 0
    with pytest.raises(RuntimeError):
        one.release()


@pytest.mark.parametrize("kind", KINDS)
def test_another_thread_waits_for_one_that_is_had_again(
    scene: Scene, kind: str
) -> None:
    one = lock(kind, reentrant=True)
    order: list[str] = []

    def work() -> None:
        with one:
            order.append("second")

    with one:
        thread = threading.Thread(target=work)
        thread.start()
        with one:
            thread.join(0.2)
            order.append("first")
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert order == ["first", "second"]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_have_it_again_and_wait_for_each_other(scene: Scene, kind: str) -> None:
    one = lock(kind, reentrant=True)
    order: list[int] = []

    async def work(n: int) -> None:
        async with await one.acquire_async(wait=PATIENCE):
            async with one:
                order.append(n)
                await asyncio.sleep(0.02)
                order.append(n)

    async def both() -> None:
        await asyncio.gather(*(work(n) for n in range(4)))

    asyncio.run(both())
    assert order[::2] == order[1::2] and sorted(order[::2]) == list(range(4))
    assert not one.held


@pytest.mark.parametrize("kind", KINDS)
def test_repr_says_what_is_held(scene: Scene, kind: str) -> None:
    one = lock(kind)
    name = type(one).__name__
    named = kind if kind.startswith("lock:") else "x"
    assert repr(one) == f"<{name} {named!r}, not held>"
    with one:
        assert re.fullmatch(f"<{name} {named!r}, held for [0-9.]+ s>", repr(one))
        assert one.age is not None and one.age < PATIENCE
    assert one.age is None


def test_a_file_is_locked_itself(scene: Scene) -> None:
    file = pathlib.Path("x.lock")
    one = beadlock.FileLock(file, itself=True, mode=0o660, wait=0)
    with one:
        assert file.stat().st_mode & 0o777 == 0o660
        assert one.lock_path == scene.top / "x.lock"
        assert scene.beadlock("check", "flock:x.lock").returncode == 4
        with pytest.raises(beadlock.UsageError, match="beside it"):
            one.save_json({})
    assert file.read_bytes() == b""
    with beadlock.FileLock(".beads", itself=True):
        pass
    with pytest.raises(ValueError, match="permissions"):
        beadlock.FileLock("x", mode=0o100644)


def test_the_version_is_the_programs(scene: Scene) -> None:
    assert beadlock.__version__ in scene.beadlock("--version").stdout
