//! A lock that is lost while it is held.
#![expect(clippy::disallowed_methods, reason = "what other tools do to a lock file")]

use std::fs;

use beadlock_testkit::{lives, until};

use crate::scene::{Tower, record};

#[test]
fn a_lock_removed_by_hand_is_noticed() {
    let tower = Tower::new();
    let holder = tower.holding(&[], "exec sleep 60");
    fs::remove_file(tower.lock()).unwrap();
    let pid = tower.scene.pid_in("pid");
    holder.end().expect(9, &["the lock is lost, ending the command", "app-prod.lock"]);
    assert!(!lives(pid));
    assert_eq!(tower.event_names(), ["lock_acquired"], "rm leaves no trace");
}

#[test]
fn one_that_is_moved_over_it_is_named_and_stays() {
    let tower = Tower::new();
    let holder = tower.holding(&["--on-loss", "warn"], "while test ! -e go; do sleep 0.05; done; echo ran");
    let other = tower.dir().join("other");
    fs::write(&other, record("app-prod", 0)).unwrap();
    fs::rename(&other, tower.lock()).unwrap();
    until("it is noticed", || holder.err().contains("the lock is lost"));
    fs::write(tower.scene.file("go"), "").unwrap();
    let ended = holder.end().expect(9, &["the command runs on without it", "claude-code's now"]);
    assert_eq!(ended.out, "ran\n");
    assert_eq!(tower.record()["request_id"], "req_abc");
}
