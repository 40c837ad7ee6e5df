//! A lock that is held is refreshed; one that is lost ends the command; and there is no work without beadlock.
#![expect(clippy::disallowed_methods, reason = "what other tools do to a lock file")]

use std::fs;
use std::time::{Duration, Instant};

use beadlock_testkit::{fastest, lives, until};
use nix::sys::signal::Signal;

use crate::scene::Memory;

#[test]
fn it_is_refreshed_every_3_s_and_nothing_else_changes() {
    let memory = Memory::new();
    let holder = memory.holding(&[], "while test ! -e go; do sleep 0.05; done");
    let (first, bytes) = (memory.record(), fs::read(memory.lock()).unwrap().len());
    let limit = Duration::from_secs(6);
    let took = fastest(limit, || {
        let (begun, last) = (Instant::now(), memory.record()["acquired_at"].clone());
        until("it is refreshed", || memory.record()["acquired_at"] != last);
        begun.elapsed()
    });
    assert!(took < limit, "{took:?}");
    let mut second = memory.record();
    assert!(second["acquired_at"].as_str() > first["acquired_at"].as_str());
    // As text, a Z would come after the microseconds of the same millisecond.
    let refreshed: jiff::Timestamp = second["acquired_at"].as_str().unwrap().parse().unwrap();
    assert!(refreshed <= jiff::Timestamp::now());
    second["acquired_at"] = first["acquired_at"].clone();
    assert_eq!((second, fs::read(memory.lock()).unwrap().len()), (first, bytes));
    fs::write(memory.scene.file("go"), "").unwrap();
    holder.end().expect(0, &["released"]);
    assert!(memory.names().is_empty());
}

#[test]
fn one_that_is_broken_is_a_loss() {
    let memory = Memory::new();
    let holder = memory.holding(&[], "exec sleep 60");
    let pid = memory.scene.pid_in("pid");
    // As the document's program does: deleted, and another renamed into its place.
    fs::remove_file(memory.lock()).unwrap();
    let other = memory.dir().join(".lock.tmp");
    fs::write(&other, r#"{"pid": 1, "session_id": "other"}"#).unwrap();
    fs::rename(&other, memory.lock()).unwrap();
    holder.end().expect(9, &["the lock is lost, ending the command", "other's now"]);
    assert!(!lives(pid));
    assert_eq!(memory.record()["session_id"], "other", "untouched");
}

#[test]
fn a_loss_may_be_only_a_warning() {
    let memory = Memory::new();
    let holder = memory.holding(&["--on-loss", "warn"], "while test ! -e go; do sleep 0.05; done; echo ran");
    fs::remove_file(memory.lock()).unwrap();
    until("it is noticed", || holder.err().contains("the lock is lost"));
    fs::write(memory.scene.file("go"), "").unwrap();
    assert_eq!(holder.end().expect(9, &["the command runs on without it"]).out, "ran\n");
}

#[test]
fn the_command_ends_with_beadlock_and_the_next_one_breaks_the_lock() {
    let memory = Memory::new();
    let holder = memory.holding(&[], "exec sleep 60");
    let pid = memory.scene.pid_in("pid");
    holder.signal(Signal::SIGKILL);
    // Before that its orphan is nobody else's to reap, and until it is reaped it answers for the lock.
    holder.end();
    until("the command has ended", || !lives(pid));
    beadlock_testkit::process_is_gone(pid);
    memory.hold(&[], "true").expect(0, &[&format!("[LOCK] Breaking stale lock: process {pid} is dead"), "claimed"]);
    assert!(memory.names().is_empty());
}
