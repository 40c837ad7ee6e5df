//! The same for a lock at a path (`lock:`), by `beadlock` and by a tool that embeds it (`beadlock::framework`). A
//! killed holder leaves a stale lock at most, and the next one has it at once.
//!
//! The code is that of a database's lock, so `make test` tries few calls of each.

use std::fs;
use std::path::PathBuf;

use beadlock_tests::process::{dead_pid, this_host};
use beadlock_tests::{Ended, Kind, Running, Scene, run};
use serde_json::Value;

use crate::{ACQUIRE, COMMAND, Case, HOLD, acquired_of, release_of, words};

const PATH: Kind = Kind::Path;

fn write(scene: &Scene, holder: &str, pid: i32, hostname: &str) -> Vec<Running> {
    fs::write(PATH.lock(scene), PATH.record(holder, pid.into(), hostname)).expect("write a lock");
    Vec::new()
}

fn stale(scene: &Scene) -> Vec<Running> {
    write(scene, "long gone", dead_pid(), &this_host())
}

fn of_path(rest: &[&str]) -> Vec<String> {
    words(&PATH.words(rest))
}

fn break_it(_: &Scene) -> Vec<String> {
    of_path(&["break", "-q", "--holder", "elsewhere", "--even-if-live"])
}

const PATH_HOLD: Case = Case {
    words: |_, _| of_path(&["hold", "-q", "--", COMMAND, "0.1"]),
    kind: PATH,
    few: 2,
    ..HOLD
};
const PATH_STALE: Case = Case {
    before: stale,
    ..PATH_HOLD
};
const PATH_REFUSED: Case = Case {
    before: |scene| acquired_of(PATH, scene),
    words: |_, _| of_path(&["hold", "-q", "--no-wait", "--", COMMAND, "0.1"]),
    code: 4,
    claims: false,
    ..PATH_HOLD
};
const PATH_ACQUIRE: Case = Case {
    before: ACQUIRE.before,
    words: |_, script| of_path(&["acquire", "-q", "--for", &script[0].pid().to_string()]),
    ..PATH_HOLD
};
const PATH_CHECK: Case = Case {
    words: |_, _| of_path(&["check", "-q"]),
    claims: false,
    ..PATH_STALE
};
const PATH_RELEASE: Case = Case {
    before: |scene| acquired_of(PATH, scene),
    words: |scene, _| release_of(PATH, scene),
    again: Some(|scene| release_of(PATH, scene)),
    ..PATH_CHECK
};
const PATH_BREAK: Case = Case {
    before: |scene| write(scene, "elsewhere", 4711, "another-host"),
    words: |scene, _| break_it(scene),
    again: Some(break_it),
    ..PATH_CHECK
};

/// Its lock is `work.lock` in the directory that it is told (`tests/src/bin/embedded.rs`).
fn tool() -> PathBuf {
    env!("CARGO_BIN_EXE_embedded").into()
}

/// The next tool does not wait.
fn next_tool(_: &Case, scene: &Scene) -> Ended {
    let mut command = scene.command(tool());
    command.args([".beads", "--timeout", "0s", "return"]);
    let ended = Ended::from(run(command));
    let answer: Value = serde_json::from_str(&ended.out).unwrap_or_default();
    assert_eq!(
        (ended.code, &answer["ok"]),
        (0, &Value::Bool(true)),
        "{ended:?}, beside {:?}",
        scene.names()
    );
    ended
}

const TOOL: Case = Case {
    program: tool,
    words: |_, _| words(&[".beads", "--timeout", "0s", "return"]),
    next: next_tool,
    is_tool: true,
    ..PATH_HOLD
};
const TOOL_STALE: Case = Case {
    before: stale,
    ..TOOL
};
const TOOL_REFUSED: Case = Case {
    before: PATH_REFUSED.before,
    code: 4,
    claims: false,
    ..TOOL
};
const TOOL_ASYNC: Case = Case {
    before: stale,
    words: |_, _| words(&[".beads", "--timeout", "0s", "--async", "one", "spawned"]),
    ..TOOL
};
const TOOL_ENDED: Case = Case {
    words: |_, _| words(&[".beads", "--timeout", "0s", "raise"]),
    code: 143,
    ..TOOL
};

#[test]
fn hold() {
    PATH_HOLD.holds("path::hold");
}

#[test]
fn stale_hold() {
    PATH_STALE.holds("path::stale_hold");
}

#[test]
fn refused() {
    PATH_REFUSED.holds("path::refused");
}

#[test]
fn acquire() {
    PATH_ACQUIRE.holds("path::acquire");
}

#[test]
fn release() {
    PATH_RELEASE.holds("path::release");
}

#[test]
fn break_elsewhere() {
    PATH_BREAK.holds("path::break_elsewhere");
}

#[test]
fn check() {
    PATH_CHECK.holds("path::check");
}

#[test]
fn tool_returns() {
    TOOL.holds("path::tool_returns");
}

#[test]
fn tool_stale() {
    TOOL_STALE.holds("path::tool_stale");
}

#[test]
fn tool_refused() {
    TOOL_REFUSED.holds("path::tool_refused");
}

#[test]
fn tool_async() {
    TOOL_ASYNC.holds("path::tool_async");
}

#[test]
fn tool_ended() {
    TOOL_ENDED.holds("path::tool_ended");
}
