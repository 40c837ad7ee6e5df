"""should_skip_database, and a daemon's cycles."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import pickle
import socket
import subprocess

import pytest

import beadlock
from conftest import Scene, let_go


def record(pid: int, **more: str) -> str:
    fields = {
        "holder": "import",
        "pid": pid,
        "hostname": socket.gethostname(),
        "started_at": "2026-11-22T09:00:00Z",
    }
    return json.dumps({**fields, **more})


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_nobody(scene: Scene) -> None:
    for path in (scene.beads, str(scene.beads), "no/such/.beads"):
        decision = beadlock.should_skip_database(path)
        assert (bool(decision), decision.reason, decision.verdict, str(decision)) == (
            False,
            "no_lock",
            "free",
            "",
        )
        assert (
            decision.holder is None and decision.pid is None and decision.since is None
        )


def test_somebody_alive(scene: Scene) -> None:
    scene.lock_file.write_text(record(os.getpid()))
    decision = beadlock.should_skip_database(".beads")
    assert decision and decision.skip and not decision.removed
    assert str(decision) == "Skipping database (locked by import)"
    assert (decision.reason, decision.holder, decision.pid) == (
        "pid_alive",
        "import",
        os.getpid(),
    )
    assert decision.host == socket.gethostname()
    assert decision.since == datetime.datetime(
        2026, 11, 22, 9, tzinfo=datetime.timezone.utc
    )
    assert repr(decision) == "<Decision: skip (pid_alive)>"


def test_somebody_gone(scene: Scene) -> None:
    scene.lock_file.write_text(record(dead_pid()))
    decision = beadlock.should_skip_database(".beads")
    assert not decision and decision.removed and not scene.lock_file.exists()
    assert str(decision) == "Removed stale lock (import), proceeding with sync"


def test_what_cannot_be_understood_is_a_lock(scene: Scene) -> None:
    scene.lock_file.write_text("{")
    decision = beadlock.should_skip_database(".beads")
    assert decision and (decision.verdict, decision.reason) == (
        "unreadable",
        "malformed",
    )
    scene.lock_file.write_text(record(os.getpid(), started_at="9999-12-31T23:59:59Z"))
    assert beadlock.should_skip_database(".beads").since is not None


def test_a_cycle_keeps_claims_and_other_cycles_out(scene: Scene) -> None:
    with beadlock.Cycle(".beads") as cycle:
        assert (
            cycle.decision is not None
            and cycle.decision.reason == "no_lock"
            and cycle.no_gate is None
        )
        hold = scene.beadlock(
            "hold", "--no-wait", "--drain", "0", ".beads", "--", "true"
        )
        assert hold.returncode == 4 and f"PID {os.getpid()}" in hold.stderr, hold
        with pytest.raises(
            beadlock.Skipped, match="a sync cycle or a claim is in progress"
        ):
            beadlock.Cycle(".beads").enter()
        with pytest.raises(beadlock.DrainTimeout) as timed_out:
            beadlock.Lock(".beads", wait=0, drain=0).acquire()
        assert (
            timed_out.value.pid == os.getpid() and timed_out.value.path == scene.beads
        )
    assert (
        scene.beadlock(
            "hold", "--no-wait", "--drain", "0", ".beads", "--", "true"
        ).returncode
        == 0
    )
    assert cycle.decision is None
    with pytest.raises(RuntimeError, match="not entered"):
        cycle.leave()


def test_a_cycle_of_a_claimed_database_is_not_entered(scene: Scene) -> None:
    other = scene.other()
    entered = False
    with pytest.raises(
        beadlock.Skipped, match=r"^Skipping database \(locked by sh\)$"
    ) as skipped:
        with beadlock.Cycle(".beads"):
            entered = True
    assert (
        not entered
        and skipped.value.decision.pid == other.pid
        or skipped.value.decision.holder == "sh"
    )
    let_go(other)
    with beadlock.Cycle(".beads"):
        entered = True
    assert entered


def test_why_it_is_not_entered_goes_to_another_process(scene: Scene) -> None:
    scene.lock_file.write_text(record(os.getpid()))
    with pytest.raises(beadlock.Skipped) as skipped:
        beadlock.Cycle(".beads").enter()
    there = pickle.loads(pickle.dumps(skipped.value))
    assert (
        str(there)
        == str(skipped.value)
        == str(there.decision)
        == there.decision.message
    )
    fields = [name for name in dir(beadlock.Decision) if not name.startswith("_")]
    for field in fields:
        assert getattr(there.decision, field) == getattr(
            skipped.value.decision, field
        ), field
    assert len(fields) == 9 and there.decision.since is not None and there.decision


def test_a_fork_of_a_cycle_leaves_its_gate_alone(scene: Scene) -> None:
    with beadlock.Cycle(".beads") as cycle:
        child = os.fork()
        if child == 0:
            try:
                cycle.leave()
                del cycle
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert (
            scene.beadlock(
                "hold", "--no-wait", "--drain", "0", ".beads", "--", "true"
            ).returncode
            == 4
        )


def test_an_async_cycle(scene: Scene) -> None:
    async def run() -> None:
        async with beadlock.Cycle(".beads"):
            with pytest.raises(beadlock.Skipped):
                async with beadlock.Cycle(".beads"):
                    pass

    asyncio.run(run())
    beadlock.Cycle(".beads").enter()
