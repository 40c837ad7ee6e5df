//! The states that an agent reports, in each form of its log.

use std::fs;

use beadlock_testkit::Scene;
use serde_json::{Value, json};

use super::{ME, database};

/// The lines of one agent on 2026-02-02, and the report at `until`, as text and in JSON.
fn reported(scene: &Scene, lines: &[&str], until: &str) -> (String, Value) {
    let start = format!("15:00:00] Agent started: {ME}");
    let all = [start.as_str()].into_iter().chain(lines.iter().copied());
    let log: String = all.map(|line| format!("[2026-02-02 {line}\n")).collect();
    fs::write(scene.beads().join("daemon.log"), log).unwrap();
    let run = |words: &[&str]| {
        let until = format!("2026-02-02 {until}");
        scene
            .run(&[&["log", "--until", &until][..], words].concat())
            .expect(0, &[])
    };
    (run(&[]).out, database(&run(&["--json"])))
}

const INCOMPLETE: &str =
    "16:40:57] Sync cycle incomplete: origin cannot be reached: Connection refused; 3 commits wait";
const LOCAL_ONLY: &str = "16:40:57] State: local_only since 2026-02-02 15:55:57: origin cannot be reached: Connection refused; \
     3 commits wait, the oldest since 2026-02-02 15:10:00; type: git -C /r fetch";

#[test]
fn the_headline_is_the_state_that_was_reported_last() {
    let scene = crate::a_scene();
    let begun = "16:40:56] Starting sync cycle...";
    let (text, database) = reported(&scene, &[begun, INCOMPLETE, LOCAL_ONLY], "16:40:58");
    let head = ".beads/daemon.log: Not pushing since 15:55:57 (45m 1s): origin cannot be reached; 3 commits wait\n  \
                type: git -C /r fetch   (what the daemon says to type)\n  \
                origin cannot be reached: Connection refused; 3 commits wait, the oldest since 2026-02-02 15:10:00\n";
    assert!(text.starts_with(head), "{text}");
    assert!(
        text.contains("cycles: 0 complete, 1 incomplete; not syncing for "),
        "{text}"
    );
    let answer = &database["answer"];
    assert_eq!(
        (&answer["state"], &answer["syncing"]),
        (&json!("local_only"), &json!(false))
    );
    assert_eq!(
        (&answer["since"], &answer["for_ms"]),
        (&json!("2026-02-02T15:55:57Z"), &json!(2_701_000))
    );
    let said = json!({"state": "local_only", "since": "2026-02-02T15:55:57Z", "next": "git -C /r fetch",
        "why": "origin cannot be reached: Connection refused; 3 commits wait, the oldest since 2026-02-02 15:10:00"});
    assert_eq!(
        (&answer["reported"], &database["cycles"]["incomplete"]),
        (&said, &json!(1))
    );
    for (line, head, state) in [
        (
            "not_serving since 2026-02-02 16:00:00: it belongs to ann",
            "Not serving since 16:00:00 (40m): it belongs to ann",
            "not_serving",
        ),
        (
            "failed since 2026-02-01 16:00:00: conflict: x",
            "Failing since 2026-02-01 16:00:00 (1d): conflict: x",
            "failing",
        ),
        (
            "behind since 2026-02-02 16:00:00: cannot fetch: origin: x",
            "Not pulling since 16:00:00 (40m): cannot fetch: origin: x",
            "behind",
        ),
        (
            "skipped since 2026-02-02 16:00:00: locked by make",
            "Skipping since 16:00:00 (40m): held by make\n",
            "held",
        ),
        (
            "starting since 2026-02-02 16:39:58",
            "Starting since 16:39:58 (2s)\n",
            "started",
        ),
        (
            "idle since 2026-02-02 16:00:00",
            "Syncing: nothing is missing since 2026-02-02 16:00:00 UTC\n",
            "syncing",
        ),
        (
            "synced since 2026-02-02 16:00:00",
            "Syncing: nothing is missing since 2026-02-02 16:00:00 UTC\n",
            "syncing",
        ),
    ] {
        let (text, database) = reported(&scene, &[&format!("16:39:59] State: {line}")], "16:40:00");
        assert!(
            text.starts_with(&format!(".beads/daemon.log: {head}")),
            "{line}: {text}"
        );
        assert_eq!(database["answer"]["state"], state, "{line}");
    }
}

#[test]
fn a_skip_that_is_reported_has_the_holder_and_the_count_of_its_skips() {
    let scene = crate::a_scene();
    let lines = [
        "16:00:00] Skipping database (locked by make)",
        "16:00:00] Held since 2026-02-02T15:59:00Z by PID 99 on ci-3 (pid_alive)",
        "16:00:00] State: skipped since 2026-02-02 16:00:00: locked by make; type: rm -rf x",
    ];
    let (text, database) = reported(&scene, &lines, "16:00:04");
    assert!(
        text.contains(": Skipping since 16:00:00 (4s): held by make (PID 99 on ci-3), 1 skip\n"),
        "{text}"
    );
    assert!(
        !text.contains("rm -rf"),
        "a holder's name is never a command: {text}"
    );
    assert_eq!(
        (&database["answer"]["state"], &database["answer"]["pid"]),
        (&json!("held"), &json!(99))
    );
    let more = [
        &lines[..],
        &["16:00:05] Skipping database (locked by make)"],
    ]
    .concat();
    assert!(
        reported(&scene, &more, "16:00:06")
            .0
            .contains("(PID 99 on ci-3), 2 skips\n")
    );
}

#[test]
fn no_answer_is_green_that_is_not_true() {
    let scene = crate::a_scene();
    let synced = "16:00:01] State: synced since 2026-02-02 16:00:01";
    let state = |lines: &[&str], until: &str| {
        let (text, database) = reported(&scene, lines, until);
        (
            database["answer"]["state"].as_str().unwrap().to_owned(),
            text,
        )
    };
    // Stopped, silent, or hanging in a cycle: that comes before the state.
    let (word, text) = state(
        &[
            synced,
            "16:00:02] Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3",
        ],
        "16:00:03",
    );
    assert_eq!(word, "stopped", "{text}");
    let (word, text) = state(&[synced], "18:00:01");
    assert_eq!(word, "silent", "{text}");
    let (word, text) = state(&[LOCAL_ONLY], "18:40:57");
    assert_eq!(word, "silent", "{text}");
    assert!(
        text.contains(
            ": Silent since 2026-02-02 16:40:57 UTC (2h): the daemon (PID 77 on ci-3) was killed, "
        ),
        "{text}"
    );
    assert!(
        text.contains("  before that: Not pushing since 15:55:57 (45m): origin cannot be reached; 3 commits wait\n"),
        "{text}"
    );
    let (word, text) = state(&[synced, "16:00:05] Starting sync cycle..."], "18:00:01");
    assert_eq!(word, "in_cycle", "{text}");
    assert!(
        text.contains("A cycle began at 2026-02-02 16:00:05 UTC and has not ended"),
        "{text}"
    );
    // Killed and started again: what the killed one reported is over.
    let (word, text) = state(
        &[
            synced,
            "16:00:09] Agent started: beadlock-agent 0.1.0, PID 78, host ci-3",
        ],
        "16:00:10",
    );
    assert_eq!(word, "started", "{text}");
    // A later line that says otherwise.
    for (line, expected) in [
        ("16:00:06] Sync cycle failed: conflict", "failing"),
        ("16:00:06] Sync cycle incomplete: x", "incomplete"),
        ("16:00:06] Skipping database (locked by make)", "held"),
        ("16:00:06] Sync cycle complete", "syncing"),
    ] {
        let (word, text) = state(
            &[synced, "16:00:05] Starting sync cycle...", line],
            "16:00:07",
        );
        let held = expected == "held";
        assert!(word == expected || held, "{line}: {text}");
    }
    let (word, _) = state(
        &[synced, "16:00:06] Skipping database (locked by make)"],
        "16:00:07",
    );
    assert_eq!(word, "held");
    // A cycle that runs after a failure is not a success yet.
    let failed = "16:00:01] State: failed since 2026-02-02 16:00:01: conflict";
    let (word, text) = state(&[failed, "16:00:05] Starting sync cycle..."], "16:00:07");
    assert_eq!(word, "failing", "{text}");
    // A gate that was busy for a moment leaves the state as it was.
    let busy = "16:41:00] Skipping database (a sync cycle or a claim is in progress)";
    let again = [
        "16:41:01] Resumed after 1 skip in 1s",
        "16:41:01] Starting sync cycle...",
        "16:41:02] Sync cycle incomplete: x",
    ];
    let (word, text) = state(
        &[&[INCOMPLETE, LOCAL_ONLY, busy], &again[..]].concat(),
        "16:41:03",
    );
    assert_eq!(word, "local_only", "{text}");
}

#[test]
fn output_that_looks_like_a_state_is_none() {
    let scene = crate::a_scene();
    let lines = [
        "16:00:00] Starting sync cycle...",
        "16:00:00] | State: synced since 2026-02-02 16:00:00",
        "16:00:01] Sync cycle failed: exit code 3 after 1s",
    ];
    let (text, database) = reported(&scene, &lines, "16:00:02");
    assert_eq!(
        (
            &database["answer"]["state"],
            &database["answer"]["reported"]
        ),
        (&json!("failing"), &Value::Null),
        "{text}"
    );
}

#[test]
fn shared_logs_and_json_tell_the_same() {
    let scene = crate::a_scene();
    let shared = format!(
        "[2026-02-02 15:00:00] Agent started: {ME}\n[2026-02-02 16:40:57] /a/.beads: {}\n\
         [2026-02-02 16:40:57] /b/.beads: State: synced since 2026-02-02 16:40:57\n",
        &LOCAL_ONLY[10..]
    );
    fs::write(scene.file("all.log"), shared).unwrap();
    let message = LOCAL_ONLY[10..].replace('"', "\\\"");
    let line = |db: &str, event: &str, since: &str, message: &str| {
        format!(
            "{{\"time\":\"2026-02-02T16:40:57Z\",\"level\":\"warn\",\"db\":{db},\"event\":\"{event}\",\"message\":\"{message}\",\
             \"holder\":null,\"pid\":null,\"host\":null,\"since\":{since},\"reason\":null}}\n"
        )
    };
    let json = line(
        "null",
        "agent_started",
        "null",
        &format!("Agent started: {ME}"),
    ) + &line(
        "\"/a/.beads\"",
        "state",
        "\"2026-02-02T15:55:57Z\"",
        &message,
    ) + &line(
        "\"/b/.beads\"",
        "state",
        "\"2026-02-02T16:40:57Z\"",
        "State: synced since 2026-02-02 16:40:57",
    );
    fs::write(scene.file("json.log"), json).unwrap();
    let answers = |log: &str| {
        let ended = scene
            .run(&["log", log, "--until", "2026-02-02 16:40:58", "--json"])
            .expect(0, &[]);
        let databases = ended.json()["data"][0]["databases"]
            .as_array()
            .unwrap()
            .clone();
        databases
            .iter()
            .map(|one| (one["database"].clone(), one["answer"].clone()))
            .collect::<Vec<_>>()
    };
    let of_text = answers("all.log");
    assert_eq!(
        (
            of_text.len(),
            &of_text[0].1["state"],
            &of_text[1].1["state"]
        ),
        (2, &json!("local_only"), &json!("syncing"))
    );
    assert_eq!(of_text, answers("json.log"));
}

#[test]
fn a_holder_that_lives_here_is_waited_for_or_ended_and_not_broken() {
    let scene = crate::a_scene();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let held = format!(
        "16:00:00] Held since 2026-02-02T15:59:00Z by PID 99 on {} (pid_alive)",
        host.trim()
    );
    let skip = "16:00:00] Skipping database (locked by make)";
    let (text, _) = reported(&scene, &[skip, &held], "16:00:04");
    let next = "  type: beadlock status .beads   (whether the lock is still there, and its holder alive)\n        \
                beadlock wait .beads   (returns when it is free)\n        ps -fp 99   (what it is doing)\n        \
                kill 99   (ends it, and the lock goes with it)\n";
    assert!(
        text.contains(next) && !text.contains("--even-if-live"),
        "{text}"
    );
}
