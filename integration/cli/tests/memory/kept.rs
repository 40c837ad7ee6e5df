//! A lock that is held is refreshed; one that is lost ends the command; and there is no work without beadlock.
#![expect(
    clippy::disallowed_methods,
    reason = "what other tools do to a lock file"
)]

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use beadlock_testkit::{Running, children, fastest, lives, process_is_gone, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::{Memory, TARGET};

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
    // The same time by the clock that nobody sets.
    let since = |record: &serde_json::Value| record["beadlock"]["boottime_ns"].as_u64();
    assert!(since(&second) > since(&first), "{second}");
    second["beadlock"]["boottime_ns"] = first["beadlock"]["boottime_ns"].clone();
    assert_eq!(
        (second, fs::read(memory.lock()).unwrap().len()),
        (first, bytes)
    );
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
    holder
        .end()
        .expect(9, &["the lock is lost, ending the command", "other's now"]);
    assert!(!lives(pid));
    assert_eq!(memory.record()["session_id"], "other", "untouched");
}

#[test]
fn a_loss_may_be_only_a_warning() {
    let memory = Memory::new();
    let holder = memory.holding(
        &["--on-loss", "warn"],
        "while test ! -e go; do sleep 0.05; done; echo ran",
    );
    fs::remove_file(memory.lock()).unwrap();
    until("it is noticed", || {
        holder.err().contains("the lock is lost")
    });
    fs::write(memory.scene.file("go"), "").unwrap();
    assert_eq!(
        holder
            .end()
            .expect(9, &["the command runs on without it"])
            .out,
        "ran\n"
    );
}

/// The kernel ends the command's own process at once, and the watchdog all that this has started. On a machine that
/// stands still it comes late.
#[test]
fn what_the_command_has_started_ends_before_the_next_one_begins() {
    let memory = Memory::new();
    let holder = memory.holding(&[], "sh -c 'echo $$ >child; exec sleep 60'; :");
    until("it works", || memory.scene.read("child").ends_with('\n'));
    let (pid, child) = (memory.scene.pid_in("pid"), memory.scene.pid_in("child"));
    let others: Vec<i32> = children(holder.pid())
        .into_iter()
        .filter(|other| *other != pid)
        .collect();
    let [watchdog] = others[..] else {
        panic!("one watchdog: {others:?}")
    };
    kill(Pid::from_raw(watchdog), Signal::SIGSTOP).unwrap();
    holder.signal(Signal::SIGKILL);
    holder.end();
    process_is_gone(pid);
    memory.run(&["check", TARGET]).expect(4, &[]);
    memory.hold(&["--no-wait"], "true").expect(4, &[]);
    let why = memory.run(&["status", TARGET]).expect(0, &[]).out;
    let words =
        format!("its process is gone, but PID {watchdog} has still to end what that had started");
    assert!(why.contains(&words), "{why}");
    // Where it cannot be seen for want of descriptors, the lock is held as well.
    for limit in 3..20 {
        let mut check = memory.scene.shell(&format!(
            "ulimit -n {limit}; exec \"$BEADLOCK\" check {TARGET}"
        ));
        check.stdin(Stdio::null());
        let ended = Running::apart(check).end();
        assert_ne!(ended.code, 0, "{limit}: {ended:?}");
        assert!(memory.lock().exists(), "{limit}: {ended:?}");
    }
    assert!(lives(child));
    kill(Pid::from_raw(watchdog), Signal::SIGCONT).unwrap();
    memory.hold(&[], "true").expect(
        0,
        &[
            &format!("[LOCK] Breaking stale lock: process {pid} is dead"),
            "claimed",
        ],
    );
    assert!(!lives(child));
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
    process_is_gone(pid);
    memory.hold(&[], "true").expect(
        0,
        &[
            &format!("[LOCK] Breaking stale lock: process {pid} is dead"),
            "claimed",
        ],
    );
    assert!(memory.names().is_empty());
}
