//! The events, as the document has them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::scene::{Tower, keys};

fn is_of_now(time: &serde_json::Value) {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    let age = beadlock_checker::internal::facts::now().0.as_secs() - time.as_second();
    assert!((0..60).contains(&age), "{age}");
}

#[test]
fn lock_acquired_is_the_documents_event() {
    let tower = Tower::new();
    tower.hold(&["--request-id", "req_1", "--ttl", "77"], "true").expect(0, &[]);
    let event = tower.event("lock_acquired");
    assert_eq!(keys(&event), ["event", "request_id", "timestamp", "lock_name", "lock_path", "ttl_seconds"]);
    assert_eq!((&event["request_id"], &event["lock_name"]), (&"req_1".into(), &"app-prod".into()));
    assert_eq!((&event["lock_path"], &event["ttl_seconds"]), (&tower.lock().to_str().unwrap().into(), &77.into()));
    is_of_now(&event["timestamp"]);
    let file = tower.scene.file("audit.jsonl");
    assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600);
}

#[test]
fn lock_stolen_is_the_documents_event() {
    let tower = Tower::new();
    tower.write(1000);
    tower.hold(&["--request-id", "req_new", "--force-lock"], "true").expect(0, &[]);
    assert_eq!(tower.event_names(), ["lock_stolen", "lock_acquired", "lock_released"]);
    let event = tower.event("lock_stolen");
    assert_eq!(
        keys(&event),
        ["event", "request_id", "timestamp", "lock_name", "previous_lock", "previous_lock_hash", "reason"]
    );
    assert_eq!((&event["request_id"], &event["reason"]), (&"req_new".into(), &"stale_lock_forced".into()));
    is_of_now(&event["timestamp"]);
}

#[test]
fn lock_released_is_the_documents_event() {
    let tower = Tower::new();
    tower.hold(&["--request-id", "req_1"], "sleep 1").expect(0, &[]);
    let event = tower.event("lock_released");
    assert_eq!(keys(&event), ["event", "request_id", "timestamp", "lock_name", "held_duration_seconds", "result"]);
    assert!(event["held_duration_seconds"].as_u64().is_some_and(|held| (1..60).contains(&held)), "{event}");
    assert_eq!((&event["request_id"], &event["result"]), (&"req_1".into(), &"success".into()));
}

#[test]
fn lock_released_after_a_failure_has_the_step() {
    let tower = Tower::new();
    tower.hold(&["--failure-step", "deploy_manifests"], "exit 3").expect(3, &[]);
    let event = tower.event("lock_released");
    assert_eq!(keys(&event)[5..], ["result", "failure_step"]);
    assert_eq!((&event["result"], &event["failure_step"]), (&"failure".into(), &"deploy_manifests".into()));
}

#[test]
fn lock_release_failed_is_the_documents_event() {
    let tower = Tower::new();
    let Some(ended) = crate::release::stuck(&tower) else { return };
    assert_eq!(ended.code, 3, "{ended:?}");
    let event = tower.event("lock_release_failed");
    assert_eq!(keys(&event), ["event", "request_id", "timestamp", "lock_name", "lock_path", "error", "action"]);
    assert_eq!(event["error"], "EACCES: permission denied");
    assert_eq!(
        (&event["action"], &event["lock_path"]),
        (&"manual_cleanup_required".into(), &tower.lock().to_str().unwrap().into())
    );
}

#[test]
fn the_file_that_is_named_has_them_and_one_that_cannot_be_written_stops_nothing() {
    let tower = Tower::new();
    tower.hold(&["--audit", "other.jsonl"], "true").expect(0, &[]);
    assert_eq!(tower.scene.read("other.jsonl").lines().count(), 2);
    assert!(!tower.scene.file("audit.jsonl").exists());
    tower.hold(&["--audit", "/nowhere/x.jsonl"], "true").expect(0, &["/nowhere/x.jsonl cannot be opened"]);
}
