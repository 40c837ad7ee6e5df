//! Section 7 (docs/protocols/tower.md#the-requirements): a stale lock is taken only on request.

use std::fs;

use beadlock_checker::{Reason, Verdict};
use beadlock_core::facts::sha256;
use beadlock_testkit::{lives, until};
use nix::sys::signal::Signal;

use crate::scene::{Tower, keys, record};

#[test]
fn a_killed_holders_lock_is_taken_once_it_is_stale() {
    let tower = Tower::new();
    let holder = tower.holding(&["--ttl", "5", "--request-id", "req_old"], "exec sleep 60");
    holder.signal(Signal::SIGKILL);
    until("it is stale", || {
        tower.look().verdict == Verdict::Stale(Reason::HeartbeatExpired)
    });
    tower.hold(&[], "true").expect(4, &["--force-lock"]);
    tower.hold(&["--force-lock"], "true").expect(0, &[]);
    assert_eq!(
        tower.event("lock_stolen")["previous_lock"]["request_id"],
        "req_old"
    );
    assert!(tower.names().is_empty());
}

#[test]
fn a_stale_lock_is_taken_with_force_lock() {
    let tower = Tower::new();
    tower.write(1000);
    let ended = tower.hold(
        &["--force-lock", "--request-id", "req_new"],
        "ls -A locks; cat $LOCK >now",
    );
    assert_eq!(
        ended
            .expect(0, &["removed stale lock of claude-code", "claimed"])
            .out,
        "app-prod.lock\n"
    );
    assert_eq!(
        crate::scene::parsed(&tower.scene.read("now"))["request_id"],
        "req_new"
    );
    assert!(tower.names().is_empty(), "nothing of the old one either");
}

#[test]
fn previous_lock_is_what_was_read() {
    let tower = Tower::new();
    tower.write(1000);
    let there = tower.record();
    tower.hold(&["--force-lock"], "true").expect(0, &[]);
    let previous = tower.event("lock_stolen")["previous_lock"].clone();
    let wanted = [
        "request_id",
        "actor",
        "intent",
        "created_at",
        "last_heartbeat_at",
        "host_id",
        "pid",
    ];
    assert_eq!(keys(&previous), wanted);
    for key in wanted {
        assert_eq!(previous[key], there[key]);
    }
}

#[test]
fn an_active_lock_is_never_stolen() {
    let tower = Tower::new();
    for silent in [0, 890, -3600] {
        tower.write(silent);
        let before = fs::read(tower.lock()).unwrap();
        tower
            .hold(&["--force-lock"], "touch ran")
            .expect(4, &["held by claude-code"]);
        tower
            .hold(&["--force-lock", "--wait", "200ms"], "touch ran")
            .expect(4, &[]);
        assert_eq!(fs::read(tower.lock()).unwrap(), before);
    }
    assert!(!tower.scene.file("ran").exists());
}

#[test]
fn the_hash_is_that_of_the_old_bytes() {
    let tower = Tower::new();
    let bytes = record("app-prod", 1000) + " \n\n";
    fs::write(tower.lock(), &bytes).unwrap();
    tower.hold(&["--force-lock"], "true").expect(0, &[]);
    assert_eq!(
        tower.event("lock_stolen")["previous_lock_hash"],
        sha256(bytes.as_bytes())
    );
}

#[test]
fn nobody_is_signalled() {
    let tower = Tower::new();
    let mut bystander = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let pid = bystander.id();
    let text = record("app-prod", 1000).replace(
        &format!("\"pid\":{}", std::process::id()),
        &format!("\"pid\":{pid}"),
    );
    assert!(text.contains(&format!("\"pid\":{pid}")));
    fs::write(tower.lock(), text).unwrap();
    tower.hold(&["--force-lock"], "true").expect(0, &[]);
    assert!(lives(pid.cast_signed()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}
