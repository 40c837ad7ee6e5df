//! The lock of a directory: `memory:DIR`.

use std::fs;

use beadlock_tests::{dead_pid, this_host};
use serde_json::json;

use crate::setting::{Line, Setting, play};

fn free() -> Setting {
    let setting = Setting::free();
    fs::create_dir(setting.scene.file("memory")).expect("make the directory");
    setting
}

/// With the lock of a process, so many seconds old.
fn locked(mut setting: Setting, pid: Option<i64>, age: i64, host: &str) -> Setting {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(age);
    let pid = pid.unwrap_or_else(|| setting.holder());
    let record = json!({
        "pid": pid, "session_id": "main", "acquired_at": then.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00").to_string(),
        "hostname": host, "operation": "write:tasks.json",
    });
    setting
        .with("memory/.lock", format!("{record:#}"))
        .given("4711000")
}

const LINES: &[Line] = &[
    ("contract-check", "beadlock check memory:memory"),
    ("check-explain", "beadlock check --explain memory:memory"),
    ("status", "beadlock status memory:memory"),
    ("status-verbose", "beadlock status -v memory:memory"),
    ("wait-once", "beadlock wait --wait 0 memory:memory"),
    (
        "hold-no-wait",
        "beadlock hold --no-wait memory:memory --session-id s1 --operation compact -- echo work",
    ),
    (
        "hold-no-break",
        "beadlock hold --no-wait --no-break-stale memory:memory --session-id s1 -- echo work",
    ),
    ("break-holder", "beadlock break memory:memory --holder main"),
    ("release", "beadlock release memory:memory --id x"),
];

/// What is asked of a lock that may be stale.
const DOUBTED: &[Line] = &[
    ("contract-check", "beadlock check memory:memory"),
    ("status", "beadlock status memory:memory"),
    (
        "hold-no-break",
        "beadlock hold --no-wait --no-break-stale memory:memory --session-id s1 -- echo work",
    ),
    ("break-holder", "beadlock break memory:memory --holder main"),
];

#[test]
fn nobody_has_it() {
    let more: &[Line] = &[
        (
            "contract-lock-file",
            "beadlock -q hold memory:memory --session-id s1 --operation compact -- cat memory/.lock",
        ),
        (
            "contract-environment",
            "beadlock -q hold memory:memory -- env | grep ^BEADLOCK_ | grep -v SCENE | sort",
        ),
        ("hold-missing", "beadlock hold memory:new -- true"),
        ("hold-create", "beadlock hold memory:new --create -- true"),
    ];
    play("memory/free", free, &[LINES, more].concat());
}

#[test]
fn fresh() {
    play(
        "memory/held",
        || locked(free(), None, 3, &this_host()),
        LINES,
    );
}

#[test]
fn too_old() {
    play(
        "memory/stale",
        || locked(free(), None, 100, &this_host()),
        LINES,
    );
}

#[test]
fn its_process_is_gone() {
    play(
        "memory/gone",
        || locked(free(), Some(dead_pid().into()), 3, &this_host()),
        DOUBTED,
    );
}

#[test]
fn of_another_host() {
    play(
        "memory/elsewhere",
        || locked(free(), Some(4711000), 3, "build-7"),
        DOUBTED,
    );
}

#[test]
fn malformed() {
    play(
        "memory/malformed",
        || free().with("memory/.lock", "{\"pid\":"),
        DOUBTED,
    );
}
