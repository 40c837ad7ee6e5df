//! Section 5 (docs/protocols/tower.md#the-requirements): a holder says that it lives, and does not work where it
//! cannot.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use beadlock_checker::{Reason, Verdict};
use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, lives, until};
use nix::sys::signal::Signal;

use crate::scene::{Tower, parsed};

/// Writes the time into `log` every 20 ms.
const WORK: &str = "while :; do date +%s.%N >>log; sleep 0.02; done";

#[track_caller]
fn gate(tower: &Tower) -> Gate {
    let mut gate = None;
    until("the gate is free", || {
        gate = Gate::try_take(&tower.dir()).unwrap();
        gate.is_some()
    });
    gate.unwrap()
}

#[test]
fn it_is_renewed_while_the_command_runs() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "6"], "exec sleep 60");
    let first = tower.record();
    until("it is renewed", || {
        tower.record()["last_heartbeat_at"] != first["last_heartbeat_at"]
    });
    let mut now = tower.record();
    now["last_heartbeat_at"] = first["last_heartbeat_at"].clone();
    assert_eq!(now, first, "nothing else changes");
    holder.signal(Signal::SIGTERM);
    holder.end().expect(143, &["released"]);
}

/// One every 30 s would come too late, and the lock be lost; three within two intervals would be too many. A look that
/// comes too late misses one, and goes on to wait.
#[test]
fn a_short_ttl_has_one_in_every_third_of_it() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "6"], "exec sleep 60");
    let written = || {
        let meta = fs::metadata(tower.lock()).unwrap();
        (meta.mtime(), meta.mtime_nsec())
    };
    let mut seen = vec![written()];
    until("three heartbeats", || {
        let now = written();
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        seen.len() == 4
    });
    assert!(seen[3].0 - seen[0].0 >= 4, "too often: {seen:?}");
    drop(holder);
}

/// Also where every processor is busy half of the time, and the looks last longer than the TTL: without heartbeats it would be stale by
/// then. Three seconds of it are left when a heartbeat is due, so that a machine that stands still for a moment does
/// not count.
#[test]
fn a_living_holder_is_never_stale() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "6"], "exec sleep 60");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, std::num::NonZero::get) {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(30) {
                        std::hint::spin_loop();
                    }
                    // Other tests are to have their turn.
                    std::thread::sleep(Duration::from_millis(170));
                }
            });
        }
        let begun = Instant::now();
        let mut looks = Vec::new();
        while begun.elapsed() < Duration::from_secs(7) {
            looks.push(tower.look().verdict);
            std::thread::sleep(Duration::from_millis(10));
        }
        over.store(true, Ordering::Relaxed);
        assert!(
            looks
                .iter()
                .all(|look| *look == Verdict::Held(Reason::HeartbeatFresh)),
            "{looks:?}"
        );
    });
    holder.signal(Signal::SIGTERM);
    holder.end().expect(143, &["released"]);
}

#[test]
fn the_command_ends_with_beadlock() {
    let tower = Tower::new();
    let holder = tower.holding(
        &["--ttl", "8"],
        "trap '' TERM; setsid sleep 60 & echo $! >child; wait",
    );
    let pids = [tower.scene.pid_in("pid"), tower.scene.pid_in("child")];
    holder.signal(Signal::SIGKILL);
    until("all of it has ended", || {
        pids.iter().all(|pid| !lives(*pid))
    });
    assert_eq!(
        tower.look().verdict,
        Verdict::Held(Reason::HeartbeatFresh),
        "before the lock is stale"
    );
}

#[test]
fn a_failure_is_a_warning_and_the_command_goes_on() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "12"], "while test ! -e go; do sleep 0.05; done");
    let gate = gate(&tower);
    until("it fails", || {
        holder.err().contains("warning: a heartbeat failed")
    });
    assert!(lives(tower.scene.pid_in("pid")));
    drop(gate);
    until("it succeeds again", || {
        holder.err().contains("heartbeats succeed again")
    });
    fs::write(tower.scene.file("go"), "").unwrap();
    holder.end().expect(0, &["the command goes on", "released"]);
}

#[test]
fn what_has_failed_is_tried_again() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "12"], "exec sleep 60");
    let gate = gate(&tower);
    until("it fails", || holder.err().contains("a heartbeat failed"));
    let before = tower.record()["last_heartbeat_at"].clone();
    drop(gate);
    until("it is renewed", || {
        tower.record()["last_heartbeat_at"] != before
    });
    drop(holder);
}

/// Between the third failure and the moment when the lock is given up is a 24th of the TTL. So one round in time is
/// enough.
#[test]
fn the_third_failure_in_a_row_is_an_event() {
    let has_event = |tower: &Tower| tower.event_names().contains(&"heartbeat_failed".to_owned());
    let round = || {
        let tower = Tower::new();
        let holder = tower.holding(
            &["--ttl", "6", "--request-id", "req_1", "--on-loss", "warn"],
            "exec sleep 60",
        );
        let gate = gate(&tower);
        until("the event, or the loss", || {
            has_event(&tower) || holder.err().contains("the lock is lost")
        });
        drop(gate);
        has_event(&tower).then_some((tower, holder))
    };
    let (tower, holder) = (0..5)
        .find_map(|_| round())
        .expect("an event before the loss");
    let event = tower.event("heartbeat_failed");
    assert_eq!(
        (&event["request_id"], &event["lock_name"]),
        (&"req_1".into(), &"app-prod".into())
    );
    assert_eq!(event["consecutive_failures"], 3);
    assert!(
        event["error"].as_str().unwrap().contains("take the gate"),
        "{event}"
    );
    assert!(lives(tower.scene.pid_in("pid")));
    drop(holder);
    assert_eq!(
        tower
            .event_names()
            .iter()
            .filter(|name| *name == "heartbeat_failed")
            .count(),
        1
    );
}

/// One round in time is enough: the machine may be busy for as long as the rest of the TTL.
#[test]
fn who_cannot_refresh_it_is_ended_before_it_is_stale() {
    assert!(
        (0..5).any(|_| one_is_ended_before_it_is_stale()),
        "its command works on until the lock is stale"
    );
}

fn one_is_ended_before_it_is_stale() -> bool {
    let tower = Tower::new();
    // A quarter of it is left when its command is ended.
    let holder = tower.holding(&["--ttl", "12"], &format!("trap '' TERM; {WORK}"));
    let pid = tower.scene.pid_in("pid");
    let gate = gate(&tower);
    until("it has ended", || !lives(pid));
    if tower.look().verdict != Verdict::Held(Reason::HeartbeatFresh) {
        return false;
    }
    drop(gate);
    holder.end().expect(
        9,
        &[
            "the lock is lost, ending the command",
            "could not be refreshed in time",
        ],
    );
    assert!(tower.names().is_empty(), "it was still ours to release");
    assert_eq!(tower.event("lock_released")["result"], "failure");
    let names = tower.event_names();
    assert_eq!(names[names.len() - 2..], ["lock_lost", "lock_released"]);
    true
}

/// Stopped, beadlock keeps nothing up; so its command is stopped too, until it is known whose the lock is.
#[test]
fn a_suspend_longer_than_the_ttl_ends_the_command_before_it_works_on() {
    let tower = Tower::new();
    let first = tower.holding(&["--ttl", "5"], WORK);
    let pid = tower.scene.pid_in("pid");
    until("it works", || tower.scene.read("log").lines().count() > 3);
    first.signal(Signal::SIGSTOP);
    until("the lock is stale", || {
        tower.look().verdict == Verdict::Stale(Reason::HeartbeatExpired)
    });
    until("its command stands still", || stands_still(pid));
    let before = tower.scene.read("log");
    let second = tower
        .hold(&["--force-lock"], "date +%s.%N; sleep 0.3; wc -l <log")
        .expect(0, &[]);
    assert_eq!(
        tower.scene.read("log"),
        before,
        "no work under the lock of somebody else"
    );
    assert!(second.out.lines().count() == 2);
    let third = tower.holding_other();
    first.signal(Signal::SIGCONT);
    first
        .end()
        .expect(9, &["the lock is lost, ending the command", "now (PID"]);
    assert!(!lives(pid));
    let worked = tower.scene.read("log").lines().count() - before.lines().count();
    assert!(
        worked <= 1,
        "{worked}: what it was at when it was stopped, and no more"
    );
    drop(third);
}

/// What tidies up on TERM would do so under the lock of somebody else.
#[test]
fn after_a_suspend_not_even_who_ignores_term_works_under_the_lock_of_somebody_else() {
    let tower = Tower::new();
    let first = tower.holding(
        &["--ttl", "5"],
        &format!("trap 'echo tidy >>log' TERM; {WORK}"),
    );
    let pid = tower.scene.pid_in("pid");
    first.signal(Signal::SIGSTOP);
    until("the lock is stale", || {
        tower.look().verdict == Verdict::Stale(Reason::HeartbeatExpired)
    });
    until("its command stands still", || stands_still(pid));
    let before = tower.scene.read("log");
    let second =
        Running::apart(tower.hold_command(&["--force-lock"], "echo >other; exec sleep 60"));
    until("the other one runs", || tower.scene.file("other").exists());
    first.signal(Signal::SIGCONT);
    first
        .end()
        .expect(9, &["the lock is lost, ending the command"]);
    assert!(!lives(pid));
    assert_eq!(tower.scene.read("log"), before);
    drop(second);
}

/// The same where beadlock is killed as it stands: its watchdog does not let the command go on to tidy up.
#[test]
fn who_stands_still_when_beadlock_is_killed_works_no_more() {
    let tower = Tower::new();
    let first = tower.holding(
        &["--ttl", "5"],
        &format!("trap 'echo tidy >>log' TERM; {WORK}"),
    );
    let pid = tower.scene.pid_in("pid");
    first.signal(Signal::SIGSTOP);
    until("the lock is stale", || {
        tower.look().verdict == Verdict::Stale(Reason::HeartbeatExpired)
    });
    until("its command stands still", || stands_still(pid));
    let before = tower.scene.read("log");
    first.signal(Signal::SIGKILL);
    until("its command has ended", || !lives(pid));
    assert_eq!(tower.scene.read("log"), before);
    drop(first);
}

/// In time for it: before the lock is stale.
#[test]
fn who_tidies_up_when_beadlock_is_killed_has_half_the_ttl_for_it() {
    let tower = Tower::new();
    let script =
        "trap 'sleep 0.3; echo >tidied; exit' TERM; echo >ready; while :; do sleep 0.02; done";
    let holder = tower.holding(&["--ttl", "8"], script);
    let pid = tower.scene.pid_in("pid");
    until("it would tidy up", || tower.scene.file("ready").exists());
    holder.signal(Signal::SIGKILL);
    until("it has ended", || !lives(pid));
    assert!(tower.scene.file("tidied").exists());
    assert_eq!(tower.look().verdict, Verdict::Held(Reason::HeartbeatFresh));
    drop(holder);
}

/// Nobody has taken the lock: it is refreshed, and the command goes on.
#[test]
fn after_a_suspend_a_lock_that_nobody_took_is_kept() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "5"], WORK);
    let pid = tower.scene.pid_in("pid");
    holder.signal(Signal::SIGSTOP);
    until("the lock is stale", || {
        tower.look().verdict == Verdict::Stale(Reason::HeartbeatExpired)
    });
    until("its command stands still", || stands_still(pid));
    let before = tower.scene.read("log").lines().count();
    holder.signal(Signal::SIGCONT);
    until("it works again", || {
        tower.scene.read("log").lines().count() > before + 3
    });
    until("it is refreshed", || {
        tower.look().verdict == Verdict::Held(Reason::HeartbeatFresh)
    });
    holder.signal(Signal::SIGTERM);
    holder.end().expect(143, &["released"]);
}

/// Stopped; or, as a shell whose child was stopped between vfork and exec, waiting (`D`) for one that is.
fn stands_still(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    match stat.rsplit_once(") ").unwrap().1.chars().next() {
        Some('T') => true,
        Some('D') => children
            .split_whitespace()
            .any(|child| stands_still(child.parse().unwrap())),
        _ => false,
    }
}

impl Tower {
    /// Another holder, which writes nothing.
    fn holding_other(&self) -> Running {
        let running = Running::apart(self.hold_command(&[], "echo >other; exec sleep 60"));
        until("the other one runs", || self.scene.file("other").exists());
        assert_ne!(parsed(&fs::read_to_string(self.lock()).unwrap())["pid"], 0);
        running
    }
}
