#![expect(
    clippy::disallowed_methods,
    reason = "what other programs do to a lock file"
)]

use std::{fs, thread};

use super::*;
use beadlock_claim::protocol::memory::WAIT;

fn directory() -> (tempfile::TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("memory");
    (top, dir)
}

fn write(dir: &Path, pid: u32, age: i64) {
    let now = beadlock_core::facts::now().0 - jiff::SignedDuration::from_secs(age);
    let (time, host) = (
        beadlock_core::record::StartedAt(now),
        beadlock_core::facts::hostname().unwrap(),
    );
    let json = format!(
        r#"{{"pid":{pid},"session_id":"main","acquired_at":"{time}","hostname":"{host}","operation":"write:tasks.json"}}"#
    );
    fs::write(dir.join(".lock"), json).unwrap();
}

#[test]
fn it_is_held_until_the_last_guard_is_released() {
    let (_top, dir) = directory();
    let lock = MemoryLock::in_dir(&dir).session("main");
    let first = lock.acquire("write:tasks.json", WAIT).unwrap();
    let second = MemoryLock::in_dir(&dir)
        .try_acquire("again")
        .unwrap()
        .unwrap();
    assert_eq!(first.id(), second.id());
    let Status::Locked {
        holder,
        is_stale,
        we_hold_it,
        ..
    } = lock.status().unwrap()
    else {
        panic!("it is held")
    };
    assert_eq!(
        (holder.session(), holder.operation()),
        ("main", "write:tasks.json")
    );
    assert!(we_hold_it && !is_stale && holder.pid == Some(std::process::id().into()));
    first.release().unwrap();
    second.still_held().unwrap();
    drop(second);
    assert_eq!(lock.status().unwrap(), Status::Free { locked: false });
    assert!(!dir.join(".lock").exists());
}

#[test]
fn somebody_elses_is_waited_for_and_named() {
    let (_top, dir) = directory();
    fs::create_dir(&dir).unwrap();
    write(&dir, 1, 0);
    let lock = MemoryLock::in_dir(&dir);
    assert!(lock.try_acquire("x").unwrap().is_none());
    let error = lock
        .acquire("x", Wait::UpTo(Duration::from_millis(200)))
        .unwrap_err();
    let words = "Could not acquire lock within 0.2s. Held by session 'main' for operation 'write:tasks.json'";
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (Code::LockHeld, words)
    );
    assert_eq!(error.holder().unwrap().name.as_deref(), Some("main"));
    let mut asked = 0;
    let called_off = lock.acquire_unless("x", WAIT, || {
        asked += 1;
        asked == 2
    });
    assert!(called_off.unwrap().is_none());
}

#[test]
fn a_stale_one_is_broken_and_said_unless_it_is_to_stand() {
    let (_top, dir) = directory();
    fs::create_dir(&dir).unwrap();
    write(&dir, 1, 31);
    let lock = MemoryLock::in_dir(&dir);
    assert!(
        lock.clone()
            .stale(Stale::Keep)
            .try_acquire("x")
            .unwrap()
            .is_none()
    );
    let limits = Limits {
        age: Duration::from_secs(60),
        ..Limits::default()
    };
    assert!(
        lock.clone()
            .limits(limits)
            .try_acquire("x")
            .unwrap()
            .is_none()
    );
    // Without beadlock's key nobody refreshes it, whether process 1 lives or not.
    let guard = lock.try_acquire("x").unwrap().unwrap();
    let [broken] = guard.broken() else {
        panic!("{:?}", guard.broken())
    };
    assert!(
        broken.starts_with("[LOCK] Breaking stale lock: lock is 3")
            && broken.ends_with("s old (>30s)"),
        "{broken}"
    );
    guard.release().unwrap();
}

#[test]
fn a_loss_is_told_and_what_is_there_now_stays() {
    let (_top, dir) = directory();
    let guard = MemoryLock::in_dir(&dir).acquire("x", WAIT).unwrap();
    guard.still_held().unwrap();
    fs::remove_file(dir.join(".lock")).unwrap();
    write(&dir, 1, 0);
    assert_eq!(guard.still_held().unwrap_err().code(), Code::LockLost);
    assert!(guard.release().unwrap_err().is_lost());
    assert!(dir.join(".lock").exists());
}

#[test]
fn a_loss_says_how_old_the_lock_was_and_where_its_record_is_kept() {
    let (_top, dir) = directory();
    let guard = MemoryLock::in_dir(&dir).acquire("x", WAIT).unwrap();
    thread::sleep(Duration::from_millis(300));
    let broken = MemoryLock::in_dir(&dir)
        .break_lock(BreakLimit::EvenIfLive)
        .unwrap()
        .unwrap();
    write(&dir, 1, 0);
    let lost = guard.still_held().unwrap_err();
    let (words, kept) = (lost.to_string(), broken.kept.display().to_string());
    assert_eq!(lost.code(), Code::LockLost);
    let age = words
        .split("after ")
        .nth(1)
        .and_then(|rest| rest.split_once("ms:"));
    let age: u64 = age.unwrap().0.parse().unwrap();
    assert!((300..10_000).contains(&age), "{words}");
    assert!(
        words.contains("was broken, and is main's now (PID 1, on ") && words.contains(&kept),
        "{words}"
    );
    assert_eq!(
        guard.still_held().unwrap_err().to_string(),
        words,
        "it ages no more"
    );
}

#[test]
fn threads_of_a_process_come_in_together_and_the_last_one_releases() {
    let (_top, dir) = directory();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let guard = MemoryLock::in_dir(&dir).acquire("x", WAIT).unwrap();
                    assert!(dir.join(".lock").exists());
                    guard.release().unwrap();
                }
            });
        }
    });
    assert!(!dir.join(".lock").exists());
}

#[test]
fn a_stale_lock_is_broken_and_kept_and_a_living_holders_only_when_that_is_said() {
    let (_top, dir) = directory();
    let lock = MemoryLock::in_dir(&dir);
    assert_eq!(lock.break_lock(BreakLimit::Stale).unwrap(), None);
    assert!(!dir.exists(), "nothing is made for that");
    fs::create_dir(&dir).unwrap();
    assert_eq!(lock.break_lock(BreakLimit::EvenIfLive).unwrap(), None);
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let dead = ended.id();
    ended.wait().unwrap();
    write(&dir, dead, 0);
    let before = fs::read(dir.join(".lock")).unwrap();
    let broken = lock.break_lock(BreakLimit::Stale).unwrap().unwrap();
    assert_eq!(
        (broken.record.pid, broken.record.session()),
        (Some(dead.into()), "main")
    );
    assert_eq!(fs::read(&broken.kept).unwrap(), before);
    assert!(!dir.join(".lock").exists());
    write(&dir, std::process::id(), 0);
    let error = lock.break_lock(BreakLimit::Stale).unwrap_err();
    assert_eq!(
        (error.code(), error.holder().unwrap().name.as_deref()),
        (Code::LockHeld, Some("main"))
    );
    let words = error.to_string();
    assert!(
        words.contains("is held by session main for operation write:tasks.json (PID "),
        "{words}"
    );
    assert!(dir.join(".lock").exists());
    assert!(lock.break_lock(BreakLimit::EvenIfLive).unwrap().is_some());
    fs::create_dir(dir.join(".lock")).unwrap();
    assert_eq!(
        lock.break_lock(BreakLimit::EvenIfLive).unwrap_err().code(),
        Code::LockUnreadable
    );
}
