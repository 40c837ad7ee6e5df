//! A tool that knows nothing of the gate takes over a stale lock while four removers spin: its claim is never lost.
//! The obvious way to remove a stale lock (read it, find it dead, unlink it) runs beside it as the control, and must
//! lose claims, else this test has shown nothing.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]
#![expect(clippy::disallowed_methods, reason = "what careless tools do to a lock file")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::{is_process_alive, should_skip_database};

const REMOVERS: usize = 4;
const LANES: usize = 4;
const ROUNDS: usize = 200;

fn record(holder: &str, pid: u32) -> String {
    let host = hostname::get().unwrap().into_string().unwrap();
    format!(r#"{{"holder":"{holder}","pid":{pid},"hostname":"{host}","started_at":"2025-10-25T12:00:00Z"}}"#)
}

fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// A claim as the protocol's own recipes make it.
fn claim_in_place(lock: &Path) {
    fs::write(lock, record("naive", std::process::id())).unwrap();
}

fn claim_by_rename(lock: &Path) {
    let draft = lock.with_file_name("draft");
    fs::write(&draft, record("naive", std::process::id())).unwrap();
    fs::rename(draft, lock).unwrap();
}

/// The obvious way to remove a stale lock.
fn read_then_unlink(dir: &Path) {
    let lock = dir.join(".exclusive-lock");
    let there = fs::read(&lock).ok().and_then(|bytes| Record::parse(&bytes).ok());
    if there.is_some_and(|there| !is_process_alive(there.pid, &there.hostname)) {
        let _ = fs::remove_file(&lock);
    }
}

fn check(dir: &Path) {
    let _ = should_skip_database(dir);
}

/// One takeover beside four removers. True: the claim is lost.
fn loses(dead: u32, claim: fn(&Path), remove: fn(&Path), delay: Duration) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join(".exclusive-lock");
    fs::write(&lock, record("crashed", dead)).unwrap();
    let (start, claimed) = (Barrier::new(REMOVERS + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..REMOVERS {
            scope.spawn(|| {
                start.wait();
                while !claimed.load(Ordering::Acquire) {
                    remove(dir.path());
                }
                remove(dir.path());
            });
        }
        start.wait();
        let begun = Instant::now();
        while begun.elapsed() < delay {
            std::hint::spin_loop();
        }
        claim(&lock);
        claimed.store(true, Ordering::Release);
    });
    // What is aside now is so only because its remover was not last: the next check puts it back.
    remove(dir.path());
    let there = fs::read(&lock).ok().and_then(|bytes| Record::parse(&bytes).ok());
    there.is_none_or(|there| there.holder != "naive")
}

/// How many of the takeovers were lost.
fn lost(dead: u32, claim: fn(&Path), remove: fn(&Path)) -> usize {
    std::thread::scope(|scope| {
        let lane = |lane: usize| {
            let rounds = (lane..ROUNDS).step_by(LANES);
            // Delays of 0 to 300 µs: before, within and after the first look of the removers.
            rounds
                .filter(|round| loses(dead, claim, remove, Duration::from_micros(*round as u64 * 37 % 300)))
                .count()
        };
        let lanes: Vec<_> = (0..LANES).map(|number| scope.spawn(move || lane(number))).collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
    })
}

#[test]
fn no_takeover_is_lost_where_the_obvious_way_loses_some() {
    let dead = dead_pid();
    let (mut ours, mut control) = ([0; 2], [0; 2]);
    for (writer, claim) in [claim_in_place as fn(&Path), claim_by_rename].into_iter().enumerate() {
        ours[writer] += lost(dead, claim, check);
        control[writer] += lost(dead, claim, read_then_unlink);
        // Few are lost on some machines: the control gets as many rounds as it needs, within reason.
        for _ in 0..50 {
            if control[writer] > 0 {
                break;
            }
            control[writer] += lost(dead, claim, read_then_unlink);
        }
    }
    println!("lost of {ROUNDS} each, in place and by rename: ours {ours:?}, read-then-unlink {control:?}");
    assert!(control.iter().sum::<usize>() > 0, "the control lost nothing: this run has shown nothing");
    assert_eq!(ours, [0, 0], "claims were lost");
}
