//! Sections 4.4, 6.3 and 12.2: a blocked claim does not run, and is told why.

use std::fs;

use beadlock_testkit::{Ended, Running, until};

use crate::scene::{INTENT, TARGET, Tower, keys, parsed, record, seconds_ago};

/// Asserts that the claim is blocked: no command ran, the lock did not change, and there is no audit event.
#[track_caller]
fn is_blocked(tower: &Tower, options: &[&str], code: i32, words: &[&str]) -> Ended {
    let before = fs::read(tower.lock()).unwrap();
    let ended = tower.hold(options, "echo ran >>ran").expect(code, words);
    assert!(!tower.scene.file("ran").exists());
    assert_eq!(
        (fs::read(tower.lock()).unwrap(), tower.names()),
        (before, vec!["app-prod.lock".to_owned()])
    );
    assert!(tower.events().is_empty(), "{:?}", tower.events());
    ended
}

#[test]
fn an_active_lock_blocks() {
    let tower = Tower::new();
    tower.write(30);
    let since = seconds_ago(90);
    let words = [
        "held by claude-code",
        "on tower-01",
        &since[..16],
        "last heartbeat 3",
        "did not wait",
        "beadlock status tower:app-prod",
    ];
    is_blocked(&tower, &[], 4, &words);
    is_blocked(&tower, &["--force-lock"], 4, &["held by claude-code"]);
    is_blocked(&tower, &["--conflict-exit-code", "75"], 75, &[]);
}

#[test]
fn a_stale_lock_blocks_and_suggests_force_lock() {
    let tower = Tower::new();
    tower.write(1000);
    let words = [
        "stale lock of claude-code, no heartbeat for 100",
        "--force-lock takes it",
    ];
    is_blocked(&tower, &[], 4, &words);
    is_blocked(&tower, &["--wait", "30"], 4, &words);
}

#[test]
fn a_heartbeat_in_the_future_blocks_and_is_reported() {
    let tower = Tower::new();
    tower.write(-3600);
    let words = [
        "held by claude-code",
        &seconds_ago(-3600)[..13],
        "lies in the future: a clock is wrong",
    ];
    is_blocked(&tower, &["--force-lock"], 4, &words);
}

#[test]
fn raw_is_for_named_locks_alone() {
    let tower = Tower::new();
    let (lock, words) = (tower.scene.file("x.lock"), ["--raw is for named locks"]);
    let lock = format!("lock:{}", lock.display());
    tower
        .run(&["hold", &lock, "--raw", "--", "true"])
        .expect(2, &words);
    tower.run(&["acquire", &lock, "--raw"]).expect(2, &words);
}

#[test]
fn raw_is_the_documents_lock_blocked() {
    let tower = Tower::new();
    tower.write(30);
    let there = tower.record();
    let ended = is_blocked(&tower, &["--raw"], 4, &["held by"]);
    let answer = parsed(&ended.out);
    assert_eq!(
        keys(&answer),
        ["error", "lock_name", "held_by", "suggestion"]
    );
    assert_eq!(
        (&answer["error"], &answer["lock_name"]),
        (&"lock_blocked".into(), &"app-prod".into())
    );
    assert_eq!(
        answer["suggestion"],
        "Wait for completion or use --force-lock if stale"
    );
    let wanted = [
        "request_id",
        "actor",
        "intent",
        "created_at",
        "last_heartbeat_at",
    ];
    assert_eq!(keys(&answer["held_by"]), wanted);
    for key in wanted {
        assert_eq!(answer["held_by"][key], there[key]);
    }
    // As it is printed there: two spaces a level, a final newline.
    assert_eq!(ended.out, format!("{answer:#}\n"));
    assert!(
        ended.out.starts_with("{\n  \"error\": \"lock_blocked\",\n"),
        "{}",
        ended.out
    );
}

#[test]
fn json_has_the_object_in_error_lock() {
    let tower = Tower::new();
    tower.write(30);
    let raw = is_blocked(&tower, &["--raw"], 4, &[]).out;
    let json = is_blocked(&tower, &["--json"], 4, &[]).json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"LOCK_HELD".into())
    );
    assert_eq!(json["error"]["lock"], parsed(&raw));
    tower.write(1000);
    let json = is_blocked(&tower, &["--json"], 4, &[]).json();
    assert_eq!(json["error"]["code"], "LOCK_STALE");
    assert_eq!(json["error"]["lock"]["error"], "lock_stale");
}

#[test]
fn raw_is_the_documents_lock_stale() {
    let tower = Tower::new();
    tower.write(1000);
    let there = tower.record();
    let answer = parsed(&is_blocked(&tower, &["--raw"], 4, &["stale"]).out);
    assert_eq!(
        keys(&answer),
        [
            "error",
            "lock_name",
            "stale_since",
            "age_seconds",
            "ttl_seconds",
            "held_by",
            "suggestion"
        ]
    );
    assert_eq!(
        (&answer["error"], &answer["ttl_seconds"]),
        (&"lock_stale".into(), &900.into())
    );
    assert_eq!(answer["stale_since"], there["last_heartbeat_at"]);
    assert!(
        answer["age_seconds"]
            .as_u64()
            .is_some_and(|age| (1000..1060).contains(&age)),
        "{answer}"
    );
    assert_eq!(
        keys(&answer["held_by"]),
        ["request_id", "actor", "host_id", "pid"]
    );
    for key in ["request_id", "actor", "host_id", "pid"] {
        assert_eq!(answer["held_by"][key], there[key]);
    }
    assert_eq!(
        answer["suggestion"],
        "Use --force-lock to acquire (stale lock will be logged)"
    );
    // acquire as hold.
    let acquire = [&["acquire", TARGET, "--raw"][..], &INTENT].concat();
    assert_eq!(
        keys(&parsed(&tower.run(&acquire).expect(4, &[]).out)),
        keys(&answer)
    );
}

#[test]
fn a_record_of_another_name_blocks() {
    let tower = Tower::new();
    for silent in [30, 1000] {
        fs::write(tower.lock(), record("other", silent)).unwrap();
        is_blocked(
            &tower,
            &["--force-lock"],
            5,
            &["lock_name must be app-prod (got other)", "was not touched"],
        );
    }
}

#[test]
fn what_is_no_record_blocks_and_is_never_stolen() {
    let tower = Tower::new();
    let whole = record("app-prod", 1000);
    for (text, words) in [
        (String::new(), "unexpected EOF"),
        ("{".to_owned(), "malformed"),
        (whole.replace("\"v1\"", "\"v2\""), "lock_version"),
        (whole.replace("\"req_abc\"", "\"a b\""), "request_id"),
        (
            whole.replace("\"ttl_seconds\":900", "\"ttl_seconds\":0"),
            "ttl_seconds",
        ),
    ] {
        fs::write(tower.lock(), text).unwrap();
        is_blocked(&tower, &["--force-lock"], 5, &[words]);
    }
}

#[test]
fn an_unreadable_timestamp_blocks_even_with_force_lock() {
    let tower = Tower::new();
    let text =
        record("app-prod", 1000).replace("\"last_heartbeat_at\":\"", "\"last_heartbeat_at\":\"x");
    fs::write(tower.lock(), text).unwrap();
    is_blocked(&tower, &["--force-lock"], 5, &["last_heartbeat_at"]);
}

#[test]
fn a_wait_ends_when_the_lock_does() {
    let tower = Tower::new();
    let first = tower.holding(&[], "while test ! -e go; do sleep 0.05; done");
    let second = Running::apart(tower.hold_command(&["--wait", "30"], "echo second"));
    until("it waits", || second.err().contains("waiting"));
    fs::write(tower.scene.file("go"), "").unwrap();
    first.end().expect(0, &[]);
    assert_eq!(second.end().expect(0, &[]).out, "second\n");
}

#[test]
fn with_force_lock_a_wait_ends_when_the_lock_is_stale() {
    let tower = Tower::new();
    let text = record("app-prod", 0).replace("\"ttl_seconds\":900", "\"ttl_seconds\":2");
    fs::write(tower.lock(), text).unwrap();
    tower
        .hold(&["--wait", "30", "--force-lock"], "true")
        .expect(0, &["heartbeat_expired"]);
    assert_eq!(tower.event_names()[0], "lock_stolen");
}
