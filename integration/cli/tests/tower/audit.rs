//! The events, as the document has them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_testkit::Running;

use crate::scene::{TARGET, Tower, keys, parsed};

fn is_of_now(time: &serde_json::Value) {
    let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
    let age = beadlock_core::facts::now().0.as_secs() - time.as_second();
    assert!((0..60).contains(&age), "{age}");
}

#[test]
fn lock_acquired_is_the_documents_event() {
    let tower = Tower::new();
    tower
        .hold(&["--request-id", "req_1", "--ttl", "77"], "true")
        .expect(0, &[]);
    let event = tower.event("lock_acquired");
    assert_eq!(
        keys(&event),
        [
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "lock_path",
            "ttl_seconds"
        ]
    );
    assert_eq!(
        (&event["request_id"], &event["lock_name"]),
        (&"req_1".into(), &"app-prod".into())
    );
    assert_eq!(
        (&event["lock_path"], &event["ttl_seconds"]),
        (&tower.lock().to_str().unwrap().into(), &77.into())
    );
    is_of_now(&event["timestamp"]);
    let file = tower.scene.file("audit.jsonl");
    assert_eq!(
        fs::metadata(file).unwrap().permissions().mode() & 0o7777,
        0o600
    );
}

#[test]
fn lock_stolen_is_the_documents_event() {
    let tower = Tower::new();
    tower.write(1000);
    tower
        .hold(&["--request-id", "req_new", "--force-lock"], "true")
        .expect(0, &[]);
    assert_eq!(
        tower.event_names(),
        ["lock_stolen", "lock_acquired", "lock_released"]
    );
    let event = tower.event("lock_stolen");
    assert_eq!(
        keys(&event),
        [
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "previous_lock",
            "previous_lock_hash",
            "reason"
        ]
    );
    assert_eq!(
        (&event["request_id"], &event["reason"]),
        (&"req_new".into(), &"stale_lock_forced".into())
    );
    is_of_now(&event["timestamp"]);
}

#[test]
fn lock_released_is_the_documents_event() {
    let tower = Tower::new();
    tower
        .hold(&["--request-id", "req_1"], "sleep 1")
        .expect(0, &[]);
    let event = tower.event("lock_released");
    assert_eq!(
        keys(&event),
        [
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "held_duration_seconds",
            "result"
        ]
    );
    assert!(
        event["held_duration_seconds"]
            .as_u64()
            .is_some_and(|held| (1..60).contains(&held)),
        "{event}"
    );
    assert_eq!(
        (&event["request_id"], &event["result"]),
        (&"req_1".into(), &"success".into())
    );
}

#[test]
fn lock_released_after_a_failure_has_the_step() {
    let tower = Tower::new();
    tower
        .hold(&["--failure-step", "deploy_manifests"], "exit 3")
        .expect(3, &[]);
    let event = tower.event("lock_released");
    assert_eq!(keys(&event)[5..], ["result", "failure_step"]);
    assert_eq!(
        (&event["result"], &event["failure_step"]),
        (&"failure".into(), &"deploy_manifests".into())
    );
}

#[test]
fn lock_release_failed_is_the_documents_event() {
    let tower = Tower::new();
    let Some(ended) = crate::release::stuck(&tower) else {
        return;
    };
    assert_eq!(ended.code, 3, "{ended:?}");
    let event = tower.event("lock_release_failed");
    assert_eq!(
        keys(&event),
        [
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "lock_path",
            "error",
            "action"
        ]
    );
    assert_eq!(event["error"], "EACCES: permission denied");
    assert_eq!(
        (&event["action"], &event["lock_path"]),
        (
            &"manual_cleanup_required".into(),
            &tower.lock().to_str().unwrap().into()
        )
    );
}

/// A forced release (11.3), and what its holder writes of it.
#[test]
fn a_lock_that_is_broken_is_written_with_its_record_and_reason() {
    let tower = Tower::new();
    let holder = tower.holding(
        &["--request-id", "req_1", "--actor", "ann"],
        "exec sleep 60",
    );
    let record = tower.record();
    let words = [
        "break",
        TARGET,
        "--id",
        "req_1",
        "--even-if-live",
        "--reason",
        "ann has left",
        "--json",
    ];
    let ended = tower.run(&words).expect(0, &[]).json();
    holder.end().expect(9, &["was broken by somebody"]);
    assert_eq!(
        tower.event_names(),
        ["lock_acquired", "lock_broken", "lock_lost"]
    );
    let event = tower.event("lock_broken");
    assert_eq!(keys(&event), BROKEN);
    is_of_now(&event["timestamp"]);
    assert_eq!(
        (&event["request_id"], &event["lock_name"]),
        (&ended["meta"]["request_id"], &"app-prod".into())
    );
    assert_eq!(
        (&event["reason"], &event["detail"]),
        (&"broken_by_id".into(), &"ann has left".into())
    );
    assert_eq!(
        (&event["lock_path"], &event["kept"]),
        (
            &tower.lock().to_str().unwrap().into(),
            &ended["data"]["kept"]
        )
    );
    let previous = &event["previous_lock"];
    assert_eq!(
        keys(previous),
        [
            "request_id",
            "actor",
            "intent",
            "created_at",
            "last_heartbeat_at",
            "host_id",
            "pid"
        ]
    );
    for field in [
        "request_id",
        "actor",
        "intent",
        "created_at",
        "host_id",
        "pid",
    ] {
        assert_eq!(previous[field], record[field], "{field}");
    }
    let lost = tower.event("lock_lost");
    assert!(
        lost["error"]
            .as_str()
            .unwrap()
            .contains(event["kept"].as_str().unwrap()),
        "{lost}"
    );
}

const BROKEN: [&str; 10] = [
    "event",
    "request_id",
    "timestamp",
    "lock_name",
    "lock_path",
    "actor",
    "previous_lock",
    "kept",
    "reason",
    "detail",
];

#[test]
fn audit_and_its_variable_change_the_place_of_a_broken_lock_and_not_the_line() {
    let tower = Tower::new();
    let broken = |audit: Option<&str>, which: &[&str]| {
        let mut command = tower.command(&[&["break", TARGET][..], which].concat());
        command.envs(audit.map(|file| ("BEADLOCK_AUDIT", file)));
        Running::apart(command).end().expect(0, &[]);
    };
    tower.write(1000);
    broken(None, &["--holder", "claude-code", "--audit", "typed"]);
    fs::write(tower.lock(), "{").unwrap();
    broken(Some("variable"), &["--malformed"]);
    assert!(!tower.scene.file("audit.jsonl").exists());
    let [typed, variable] = ["typed", "variable"].map(|file| parsed(&tower.scene.read(file)));
    assert_eq!(
        (keys(&typed), keys(&variable)),
        (BROKEN.to_vec(), BROKEN.to_vec())
    );
    assert_eq!(
        (&typed["reason"], &typed["detail"]),
        (&"broken_by_holder".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&typed["previous_lock"]["actor"], &variable["previous_lock"]),
        (&"claude-code".into(), &().into())
    );
    assert!(
        variable["detail"]
            .as_str()
            .unwrap()
            .starts_with("malformed lock file"),
        "{variable}"
    );
}

#[test]
fn the_file_that_is_named_has_them_and_one_that_cannot_be_written_stops_nothing() {
    let tower = Tower::new();
    tower
        .hold(&["--audit", "other.jsonl"], "true")
        .expect(0, &[]);
    assert_eq!(tower.scene.read("other.jsonl").lines().count(), 2);
    assert!(!tower.scene.file("audit.jsonl").exists());
    tower
        .hold(&["--audit", "/nowhere/x.jsonl"], "true")
        .expect(0, &["/nowhere/x.jsonl cannot be opened"]);
}
