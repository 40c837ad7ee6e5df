//! A lock that is lost while it is held.
#![expect(
    clippy::disallowed_methods,
    reason = "what other tools do to a lock file"
)]

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_testkit::{lives, until};

use crate::scene::{Tower, keys, parsed, record};

#[test]
fn a_lock_removed_by_hand_is_noticed() {
    let tower = Tower::new();
    let holder = tower.holding(&["--request-id", "req_1"], "exec sleep 60");
    fs::remove_file(tower.lock()).unwrap();
    let pid = tower.scene.pid_in("pid");
    holder.end().expect(
        9,
        &["the lock is lost, ending the command", "app-prod.lock"],
    );
    assert!(!lives(pid));
    assert_eq!(
        tower.event_names(),
        ["lock_acquired", "lock_lost"],
        "rm itself leaves no trace, its holder does"
    );
    let event = tower.event("lock_lost");
    assert_eq!(
        keys(&event),
        [
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "lock_path",
            "held_duration_seconds",
            "reason",
            "error"
        ]
    );
    assert_eq!(
        (&event["request_id"], &event["reason"]),
        (&"req_1".into(), &"vanished".into())
    );
    assert!(
        event["error"]
            .as_str()
            .unwrap()
            .contains("app-prod.lock vanished"),
        "{event}"
    );
}

#[test]
fn one_that_is_moved_over_it_is_named_and_stays() {
    let tower = Tower::new();
    let holder = tower.holding(
        &["--on-loss", "warn"],
        "while test ! -e go; do sleep 0.05; done; echo ran",
    );
    let other = tower.dir().join("other");
    fs::write(&other, record("app-prod", 0)).unwrap();
    fs::rename(&other, tower.lock()).unwrap();
    until("it is noticed", || {
        holder.err().contains("the lock is lost")
    });
    fs::write(tower.scene.file("go"), "").unwrap();
    let ended = holder
        .end()
        .expect(9, &["the command runs on without it", "claude-code's now"]);
    assert_eq!(ended.out, "ran\n");
    assert_eq!(tower.record()["request_id"], "req_abc");
    assert_eq!(
        tower.event_names(),
        ["lock_acquired", "lock_lost"],
        "the command has exit 0, and there is no success"
    );
    assert_eq!(tower.event("lock_lost")["reason"], "changed");
}

/// It is lost because nothing could refresh it, and is still there to be removed.
#[test]
fn one_that_is_released_after_its_loss_is_no_success() {
    let tower = Tower::new();
    let waits = "while test ! -e go; do sleep 0.05; done";
    let holder = tower.holding(
        &["--ttl", "6", "--on-loss", "warn", "--audit", "trail"],
        waits,
    );
    let gate = Gate::try_take(&tower.dir()).unwrap().unwrap();
    until("it is given up", || {
        holder.err().contains("the lock is lost")
    });
    drop(gate);
    fs::write(tower.scene.file("go"), "").unwrap();
    holder.end().expect(9, &["the command runs on without it"]);
    assert!(tower.names().is_empty(), "it was still ours to release");
    assert!(!tower.scene.file("audit.jsonl").exists());
    let events: Vec<_> = tower.scene.read("trail").lines().map(parsed).collect();
    let end: Vec<_> = events
        .iter()
        .filter(|event| event["event"] != "heartbeat_failed")
        .skip(1)
        .collect();
    assert_eq!(
        (&end[0]["event"], &end[0]["reason"]),
        (&"lock_lost".into(), &"overdue".into()),
        "{events:?}"
    );
    assert_eq!(
        (&end[1]["event"], &end[1]["result"]),
        (&"lock_released".into(), &"failure".into()),
        "{events:?}"
    );
    assert_eq!(end.len(), 2, "{events:?}");
}
