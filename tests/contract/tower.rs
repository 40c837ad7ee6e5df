//! Named locks: `tower:NAME`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::setting::{Line, Setting, play};

/// An empty lock directory, for an actor named `ann`.
fn free() -> Setting {
    let setting = Setting::free();
    let locks = setting.scene.file("locks");
    fs::create_dir(&locks).expect("make the lock directory");
    fs::set_permissions(&locks, fs::Permissions::from_mode(0o700)).expect("its mode");
    setting
        .variable("BEADLOCK_LOCK_DIR", locks.display().to_string())
        .variable("ACTOR", "ann")
}

/// With a lock of this content.
fn of(lock: impl AsRef<[u8]>) -> Setting {
    free().with("locks/app-prod.lock", lock)
}

/// Whose last heartbeat is so many seconds ago.
fn silent(seconds: i64) -> Setting {
    let now = jiff::Timestamp::now();
    let ago = |seconds: i64| {
        (now - jiff::SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    };
    of(format!(
        r#"{{"lock_version":"v1","lock_name":"app-prod","request_id":"run-7","actor":"claude-code","intent":"deploy-app",
        "intent_version":"1.2.0","host_id":"tower-01","pid":4711000,"created_at":"{}","last_heartbeat_at":"{}",
        "ttl_seconds":900,"metadata":{{"ticket":7}}}}"#,
        ago(seconds + 60),
        ago(seconds)
    ))
    .given("4711000")
}

const LINES: &[Line] = &[
    ("contract-check", "beadlock check tower:app-prod"),
    ("check-explain", "beadlock check --explain tower:app-prod"),
    ("status", "beadlock status tower:app-prod"),
    ("status-verbose", "beadlock status -v tower:app-prod"),
    ("wait-once", "beadlock wait --wait 0 tower:app-prod"),
    (
        "hold",
        "beadlock hold tower:app-prod --intent-name deploy --intent-version 1 -- echo work",
    ),
    (
        "contract-hold-raw",
        "beadlock hold --raw tower:app-prod --intent-name deploy --intent-version 1 -- echo work",
    ),
    (
        "hold-force-lock",
        "beadlock hold --force-lock tower:app-prod --intent-name deploy --intent-version 1 -- echo work",
    ),
    (
        "acquire-wait",
        "beadlock acquire --wait 0 tower:app-prod --intent-name deploy --intent-version 1; beadlock -q release tower:app-prod --id run-7",
    ),
    ("release", "beadlock release tower:app-prod --id run-8"),
    (
        "break-holder",
        "beadlock break tower:app-prod --holder claude-code",
    ),
    (
        "break-even-if-live",
        "beadlock break tower:app-prod --holder claude-code --even-if-live",
    ),
];

#[test]
fn nobody_has_it() {
    let more: &[Line] = &[
        (
            "hold-without-intent",
            "beadlock hold tower:app-prod -- true",
        ),
        (
            "contract-audit",
            "beadlock -q hold tower:app-prod --intent-name deploy --intent-version 1 -- true; cat audit.jsonl",
        ),
        (
            "contract-lock-file",
            "beadlock -q hold tower:app-prod --intent-name deploy --intent-version 1 -- cat locks/app-prod.lock",
        ),
        (
            "contract-environment",
            "beadlock -q hold tower:app-prod --intent-name deploy --intent-version 1 -- env | grep ^BEADLOCK_ | grep -v SCENE | sort",
        ),
        (
            "hold-rollback",
            "beadlock hold tower:app-prod --intent-name deploy --intent-version 1 --rollback 'echo undone' -- false",
        ),
        (
            "hold-observe",
            "beadlock hold tower:app-prod --intent-name look --intent-version 1 --mode observe -- echo seen",
        ),
    ];
    let lines: Vec<Line> = LINES
        .iter()
        .filter(|(name, _)| *name != "acquire-wait")
        .chain(more)
        .copied()
        .collect();
    play("tower/free", free, &lines);
}

#[test]
fn its_heart_beats() {
    play("tower/held", || silent(3), LINES);
}

#[test]
fn its_heartbeats_have_stopped() {
    let lines = LINES.iter().filter(|(name, _)| *name != "acquire-wait");
    let lines: Vec<Line> = lines
        .chain(&[("list", "beadlock list tower:")])
        .copied()
        .collect();
    // An age in words that is the same for a minute.
    play("tower/stale", || silent(4020), &lines);
}

#[test]
fn malformed() {
    play(
        "tower/malformed",
        || of("{\"lock_version\":\"v1\""),
        &[
            ("contract-check", "beadlock check tower:app-prod"),
            ("status", "beadlock status tower:app-prod"),
            (
                "hold",
                "beadlock hold tower:app-prod --intent-name deploy --intent-version 1 -- echo work",
            ),
            (
                "break-holder",
                "beadlock break tower:app-prod --holder claude-code",
            ),
        ],
    );
}
