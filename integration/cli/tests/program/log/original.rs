//! The logs of bd's daemon, in the wordings of its versions.

use std::fs;

use beadlock_testkit::{Running, Scene};
use serde_json::{Value, json};

use super::database;

/// What the daemon of bd wrote over its versions: local time in brackets, then slog's text, and after a rotation of its
/// own kind.
#[test]
fn the_log_of_the_original_daemon() {
    let scene = crate::a_scene();
    let old = "\
[2026-02-01 12:00:00] Daemon started (interval: 5s, auto-commit: true, auto-push: true)
[2026-02-01 12:00:00] Using database: /r/.beads/beads.db
[2026-02-01 12:00:00] Starting sync cycle...
[2026-02-01 12:00:00] Exported to JSONL
[2026-02-01 12:00:01] Pulled from remote
[2026-02-01 12:00:01] Sync cycle complete
[2026-02-01 12:00:05] Starting sync cycle...
[2026-02-01 12:00:05] Skipping database (locked by vc-executor)
[2026-02-01 12:00:10] Starting sync cycle...
[2026-02-01 12:00:10] Skipping database (locked by vc-executor)
[2026-02-01 12:00:15] Starting sync cycle...
[2026-02-01 12:00:15] Removed stale lock (vc-executor), proceeding with sync
[2026-02-01 12:00:16] Sync cycle complete
[2026-02-01 12:00:17] Received signal terminated, shutting down gracefully...
";
    let new = "\
time=2026-02-01T12:10:00.044+03:00 level=INFO msg=\"Daemon started (interval: %v, auto-commit: %v, auto-push: %v)\" !BADKEY=5s !BADKEY=false !BADKEY=false
time=2026-02-01T12:10:00.063+03:00 level=WARN msg=\"failed to upgrade .gitignore\" error=\"open .beads/.gitignore: no such file or directory\"
time=2026-02-01T12:10:00.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"
time=2026-02-01T12:10:02.373+03:00 level=INFO msg=\"Pull failed: %v\" !BADKEY=\"git pull failed: exit status 128\\nfatal: no\"
time=2026-02-01T12:10:05.835+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=auto-import
time=2026-02-01T12:10:05.836+03:00 level=INFO msg=\"Skipping %s (lock check failed: %v)\" auto-import=\"malformed lock file: unexpected EOF\"
";
    fs::write(
        scene.beads().join("daemon-2026-02-01T09-05-00.000.log"),
        old,
    )
    .unwrap();
    fs::write(scene.beads().join("daemon.log"), new).unwrap();
    let mut command = scene.beadlock(&["log", "--json", "--until", "2026-02-01 09:10:07"]);
    command.env("TZ", "XXX-3");
    let ended = Running::apart(command).end().expect(0, &[]);
    let log = &ended.json()["data"][0];
    assert_eq!(
        (
            &log["writer"],
            &log["agents"]["starts"],
            &log["agents"]["stops"]
        ),
        (&json!("original"), &json!(2), &json!(1))
    );
    let database = database(&ended);
    assert_eq!(
        database["first"], "2026-02-01T09:00:00Z",
        "local time, three hours ahead"
    );
    let row = &database["holders"][0];
    assert_eq!(
        (
            &row["holder"],
            &row["claims"],
            &row["skips"],
            &row["median_ms"]
        ),
        (&json!("vc-executor"), &json!(1), &json!(2), &json!(10_000))
    );
    assert_eq!(row["ended"]["removed_stale"], 1);
    let cycles = &database["cycles"];
    assert_eq!(
        (
            &cycles["complete"],
            &cycles["failed"],
            &cycles["unfinished"]
        ),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(
        database["failures"][0]["message"],
        "Pull failed: git pull failed: exit status 128\nfatal: no"
    );
    let answer = &database["answer"];
    assert_eq!(
        (&answer["state"], &answer["since"]),
        (&json!("unreadable"), &json!("2026-02-01T09:00:17Z"))
    );
    assert_eq!(answer["detail"], "malformed lock file: unexpected EOF");
    let mut command = scene.beadlock(&["log", "--until", "2026-02-01 09:10:07"]);
    command.env("TZ", "XXX-3");
    let text = Running::apart(command).end().expect(0, &[]).out;
    assert!(
        text.contains("times without a zone, as bd's daemon writes them, were taken as "),
        "{text}"
    );
    assert!(text.contains(r"exit status 128\nfatal: no"), "{text}");
}

/// The report on these lines of 2026-02-01 in UTC as they were at `until`, as text and in JSON.
fn reported(scene: &Scene, lines: &[&str], until: &str) -> (String, Value) {
    let log: String = lines
        .iter()
        .map(|line| format!("[2026-02-01 {line}\n"))
        .collect();
    fs::write(scene.beads().join("daemon.log"), log).unwrap();
    let run = |words: &[&str]| {
        let until = format!("2026-02-01 {until}");
        let mut command = scene.beadlock(&[&["log", "--until", &until][..], words].concat());
        command.env("TZ", "UTC");
        Running::apart(command).end().expect(0, &[])
    };
    (run(&[]).out, database(&run(&["--json"])))
}

const START: [&str; 5] = [
    "12:00:00] Daemon started (interval: 5s, auto-commit: true, auto-push: true)",
    "12:00:00] Using database: /r/.beads/beads.db",
    "12:00:00] Starting sync cycle...",
    "12:00:01] Sync cycle complete",
    "12:00:01] Using event-driven mode",
];

#[test]
fn a_daemon_in_event_mode_looks_again_only_at_the_next_change() {
    let scene = crate::a_scene();
    let skip = [
        "12:10:00] Export triggered by mutation events",
        "12:10:00] Starting export...",
    ];
    let skip = [
        &START[..],
        &skip,
        &["12:10:00] Skipping export (locked by make)"],
    ]
    .concat();
    let (text, database) = reported(&scene, &skip, "15:10:00");
    let first = ".beads/daemon.log: Not syncing since 2026-02-01 12:10:00 UTC (3h): held by make, 1 cycle skipped\n";
    assert!(text.starts_with(first), "{text}");
    for words in [
        "  type: beadlock status .beads   (whether the lock is still there, and its holder alive)\n",
        "        bd sync   (once the lock is free: syncs at once, as any edit does)\n",
        "bd's daemon is in event mode: it looks again only at the next change",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let answer = &database["answer"];
    assert_eq!(
        (
            &database["event_mode"],
            &answer["state"],
            &answer["silent_ms"]
        ),
        (&json!(true), &json!("held"), &Value::Null)
    );
    assert_eq!(database["holders"][0]["ended"]["open"], 1);
    // The claim of an import is one too.
    let import = [
        &START[..],
        &[
            "12:10:00] Starting auto-import...",
            "12:10:00] Skipping import (locked by make)",
        ],
    ]
    .concat();
    assert_eq!(
        reported(&scene, &import, "12:10:01").1["answer"]["holder"],
        "make"
    );
    // By the clock it would have looked again.
    let polling = START.map(|line| {
        line.replace(
            "Using event-driven mode",
            "Using polling mode (interval: 5s)",
        )
    });
    let polling: Vec<&str> = polling
        .iter()
        .map(String::as_str)
        .chain(["12:10:00] Skipping database (locked by make)"])
        .collect();
    let (text, database) = reported(&scene, &polling, "15:10:00");
    assert_eq!(
        (&database["event_mode"], &database["answer"]["silent_ms"]),
        (&json!(false), &json!(10_800_000))
    );
    assert!(
        !text.contains("event mode") && !text.contains("bd sync"),
        "{text}"
    );
}

#[test]
fn silence_in_event_mode_is_neither_well_nor_a_gap() {
    let scene = crate::a_scene();
    let (text, database) = reported(&scene, &START, "12:05:00");
    assert_eq!(
        (&database["answer"]["state"], &database["answer"]["syncing"]),
        (&json!("syncing"), &json!(true)),
        "{text}"
    );
    let later = [
        "14:00:00] Mutation detected: create bd-1",
        "14:00:01] Starting export...",
        "14:00:01] Export complete",
    ];
    let (text, database) = reported(&scene, &[&START[..], &later].concat(), "16:00:01");
    let silent = "Silent since 2026-02-01 14:00:01 UTC (2h): bd's daemon writes only when something changes (event mode), so \
                  either nothing has, or it was killed\n  type: bd daemon --status   (whether the daemon lives)\n        \
                  bd daemon --start   (once it is gone: starts it again)\n";
    assert!(text.contains(silent), "{text}");
    assert_eq!(
        (&database["answer"]["syncing"], &database["gaps"]["list"]),
        (&Value::Null, &json!([]))
    );
    let (text, _) = reported(
        &scene,
        &[
            &START[..],
            &["12:00:05] Received signal terminated, shutting down..."],
        ]
        .concat(),
        "12:01:00",
    );
    assert!(
        text.contains("  type: bd daemon --start   (starts it again)\n"),
        "{text}"
    );
}

#[test]
fn sync_branch_mode_is_named_as_what_the_agent_does_not_do() {
    let scene = crate::a_scene();
    let lines = [
        "12:00:05] Starting sync cycle...",
        "12:00:05] Using sync branch: beads-sync",
        "12:00:06] Sync cycle complete",
    ];
    let (text, database) = reported(&scene, &[&START[..], &lines].concat(), "12:00:07");
    assert_eq!(database["sync_branch"], "beads-sync");
    let note = "sync-branch mode: bd commits to beads-sync in a worktree of its own; beadlock-agent --action git does not \
                support it, --exec 'bd sync' does\n";
    assert!(text.contains(note), "{text}");
    assert!(
        !reported(&scene, &START, "12:00:07")
            .0
            .contains("sync-branch")
    );
}

#[test]
fn daemons_that_share_a_log_are_told_apart_by_their_starts() {
    let scene = crate::a_scene();
    let other = START.map(|line| line.replace("/r/", "/s/").replace("12:00:0", "12:30:0"));
    let two: Vec<&str> = START
        .into_iter()
        .chain(other.iter().map(String::as_str))
        .collect();
    let (text, database) = reported(&scene, &two, "12:30:03");
    let said = "2 daemons write this log: bd daemon of /r/.beads/beads.db since 2026-02-01 12:00:00, bd daemon of \
                /s/.beads/beads.db since 2026-02-01 12:30:00";
    assert!(
        text.contains(said) && text.contains("agents: 2 starts, 0 stops\n"),
        "{text}"
    );
    assert_eq!(database["answer"]["next"], json!([]));
    // The same daemon again: the first one was killed.
    let again = START.map(|line| line.replace("12:00:0", "12:30:0"));
    let two: Vec<&str> = START
        .into_iter()
        .chain(again.iter().map(String::as_str))
        .collect();
    let (text, _) = reported(&scene, &two, "12:30:03");
    assert!(
        !text.contains("daemons write") && text.contains("1 without a stop: killed or crashed"),
        "{text}"
    );
    // An agent that is started beside it.
    let agent = [
        "12:30:00] beadlock-agent 0.1.0, PID 77, host ci-3, times in UTC",
        "12:30:00] Agent started: beadlock-agent 0.1.0, PID 77, host ci-3",
        "12:30:00] Starting sync cycle...",
        "12:30:01] Sync cycle complete",
    ];
    let (text, _) = reported(&scene, &[&START[..], &agent].concat(), "12:30:03");
    assert!(
        !text.contains("daemons write"),
        "bd's daemon may have been killed: {text}"
    );
    let (text, _) = reported(
        &scene,
        &[&START[..], &agent, &["12:30:02] Starting export..."]].concat(),
        "12:30:03",
    );
    let said = "2 daemons write this log: bd daemon of /r/.beads/beads.db since 2026-02-01 12:00:00, beadlock-agent 0.1.0 \
                (PID 77 on ci-3) since 2026-02-01 12:30:00\n";
    assert!(
        text.contains(said) && text.contains("bd daemon --stop   (so that one daemon syncs)\n"),
        "{text}"
    );
}
