//! `beadlock log`: what a daemon's log says, for people and in JSON; whatever the log is.

mod html;
mod input;
pub mod many;
mod original;
mod state;
mod week;

use std::fs;

use beadlock_testkit::Ended;
use serde_json::{Value, json};

const ME: &str = "beadlock-agent 0.1.0, PID 77, host ci-3";

/// The one database of the one log.
#[track_caller]
fn database(ended: &Ended) -> Value {
    let json = ended.json();
    assert_eq!(
        (&json["ok"], &json["error"]),
        (&json!(true), &Value::Null),
        "{json}"
    );
    assert_eq!(json["data"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(
        json["data"][0]["databases"].as_array().map(Vec::len),
        Some(1),
        "{json}"
    );
    json["data"][0]["databases"][0].clone()
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    let scene = crate::a_scene();
    fs::write(scene.beads().join("daemon.log"), "").unwrap();
    let forms = ["02:00", "yesterday", "today", "2h, '2h ago', 3d"];
    scene.run(&["log", "--since", "tomorrow"]).expect(
        2,
        &[&["tomorrow", "neither a time nor a duration"], &forms[..]].concat(),
    );
    let help = scene.run(&["log", "--help"]).expect(0, &[]).out;
    for form in ["02:00", "yesterday", "today", "2h, 3d"] {
        assert!(help.contains(form), "{form}: {help}");
    }
    scene
        .run(&["log", "--until", ""])
        .expect(2, &["neither a time nor a duration"]);
    scene
        .run(&["log", "--since", "2026-02-02", "--until", "2026-02-01"])
        .expect(2, &["is after --until"]);
    let ended = scene
        .run(&["log", "--json", "--since", "1h", "--until", "2h"])
        .expect(2, &[]);
    assert_eq!(ended.json()["error"]["code"], "USAGE");
}

/// The lines of one agent, all of the first of February.
fn agents(lines: &[&str]) -> String {
    let header = format!("{ME}, times in UTC");
    let start = format!("Agent started: {ME}");
    let all = [header.as_str(), &start]
        .into_iter()
        .chain(lines.iter().copied());
    all.map(|line| format!("[2026-02-01 10:00:00] {line}\n"))
        .collect()
}

#[test]
fn what_a_cycles_command_prints_is_no_word_of_the_daemon() {
    let scene = crate::a_scene();
    let log = agents(&[
        "Starting sync cycle...",
        "Sync cycle failed: exit code 3 after 1s",
        "Starting sync cycle...",
        "| Sync cycle complete",
        "| Skipping database (locked by alice)",
        "| Held since 2026-01-01T00:00:00Z by PID 1 on evil.example (other_host)",
        "| /srv/other/.beads: Skipping database (locked by bob)",
        "| Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3",
        "/srv/other/.beads: Skipping database (locked by carol)",
        "Export complete",
        "Daemon stopped",
        "Sync cycle failed: exit code 3 after 1s",
    ]);
    fs::write(scene.beads().join("daemon.log"), &log).unwrap();
    let ended = scene
        .run(&["log", "--until", "2026-02-01 10:00:03", "--json"])
        .expect(0, &[]);
    let database = database(&ended);
    assert_eq!(
        (&database["answer"]["state"], &database["cycles"]["failed"]),
        (&json!("failing"), &json!(2))
    );
    assert_eq!(
        (&database["cycles"]["complete"], &database["holders"]),
        (&json!(0), &json!([]))
    );
    assert_eq!(ended.json()["data"][0]["lines"]["other"], 8);
    // In the log of several databases the mark comes after the name.
    let shared = log
        .replace("] ", "] /a/.beads: ")
        .replace("/a/.beads: beadlock-agent", "beadlock-agent");
    fs::write(
        scene.file("all.log"),
        shared.replace("/srv/other/.beads: Skipping database (locked by c", "x"),
    )
    .unwrap();
    let until = ["log", "all.log", "--until", "2026-02-01 10:00:03", "--json"];
    let database = self::database(&scene.run(&until).expect(0, &[]));
    assert_eq!(
        (&database["database"], &database["holders"]),
        (&json!("/a/.beads"), &json!([]))
    );
    let marked = "[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 7, host h, times in UTC\n\
                  [2026-02-01 10:00:00] /a/.beads: | /b/.beads: Skipping database (locked by bob)\n";
    fs::write(scene.file("all.log"), marked).unwrap();
    let database = self::database(&scene.run(&until).expect(0, &[]));
    assert_eq!(
        (&database["database"], &database["skips"]),
        (&Value::Null, &json!(0))
    );
}

#[test]
fn a_line_without_a_time_is_no_word_of_the_agent() {
    let scene = crate::a_scene();
    let log = agents(&["Starting sync cycle...", "Sync cycle complete"]);
    let torn =
        "Skipping database (locked by x)\n{\"msg\":\"Daemon stopped\"}\nAgent stopped: make\n";
    fs::write(scene.file("x.log"), log + torn).unwrap();
    let ended = scene
        .run(&["log", "x.log", "--until", "2026-02-01 10:00:03", "--json"])
        .expect(0, &[]);
    assert_eq!(database(&ended)["answer"]["state"], "syncing", "{ended:?}");
    assert_eq!(ended.json()["data"][0]["lines"]["other"], 3);
}

#[test]
fn a_log_that_ends_where_cycles_go_on_does_not_say_that_nothing_syncs() {
    let scene = crate::a_scene();
    let log = agents(&[
        "Skipping database (locked by make)",
        "Resumed after 1 skips in 2s",
    ]);
    fs::write(scene.file("x.log"), log).unwrap();
    let text = scene
        .run(&["log", "x.log", "--until", "2026-02-01 10:00:03"])
        .expect(0, &[])
        .out;
    let first = "x.log: Syncing: the cycles run again since 2026-02-01 10:00:00 UTC (3s ago), and none is complete yet\n";
    assert!(text.starts_with(first), "{text}");
}

#[test]
fn a_name_that_is_cut_off_is_not_to_be_typed() {
    let scene = crate::a_scene();
    fs::write(
        scene.beads().join("daemon.log"),
        agents(&["Skipping database (locked by a), proceeding"]),
    )
    .unwrap();
    let text = scene
        .run(&["log", "--until", "2026-02-01 10:00:03"])
        .expect(0, &[])
        .out;
    assert!(
        text.contains("beadlock status .beads") && !text.contains("beadlock break"),
        "{text}"
    );
}

#[test]
fn a_last_line_of_the_future_is_no_answer() {
    let scene = crate::a_scene();
    fs::write(
        scene.file("x.log"),
        "[2999-01-01 00:00:00] Sync cycle complete\n",
    )
    .unwrap();
    let text = scene.run(&["log", "x.log"]).expect(0, &[]).out;
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("x.log: The last line is of 2999-01-01 00:00:00 UTC, "),
        "{text}"
    );
    assert!(
        first.contains(" in the future: a clock or $TZ is wrong, "),
        "{text}"
    );
    let json = scene.run(&["log", "x.log", "--json"]).expect(0, &[]);
    let answer = database(&json)["answer"].clone();
    assert_eq!(
        (&answer["state"], &answer["syncing"]),
        (&json!("unknown"), &Value::Null)
    );
    // A user that says up to when knows the question.
    let json = scene
        .run(&["log", "x.log", "--json", "--until", "2999-01-01 00:00:05"])
        .expect(0, &[]);
    assert_eq!(database(&json)["answer"]["state"], "syncing");
}

#[test]
fn a_day_is_meant_to_its_end_and_a_time_without_a_line_is_called_so() {
    let scene = crate::a_scene();
    let log =
        "[2026-02-01 23:59:59] Starting sync cycle...\n[2026-02-01 23:59:59] Sync cycle complete\n";
    fs::write(scene.file("x.log"), log).unwrap();
    for since in [&[][..], &["--since", "2026-02-01"]] {
        let ended =
            scene.run(&[&["log", "x.log", "--json", "--until", "2026-02-01"], since].concat());
        assert_eq!(database(&ended.expect(0, &[]))["cycles"]["complete"], 1);
    }
    for window in [["--until", "2026-01-31"], ["--until", "2026-02-01 00:00"]] {
        let text = scene
            .run(&[&["log", "x.log"][..], &window].concat())
            .expect(0, &[])
            .out;
        assert!(text.starts_with("x.log: No line in that time: "), "{text}");
    }
    fs::write(scene.file("y.log"), "[2026-02-01 00:00:00] hello\n").unwrap();
    let text = scene
        .run(&["log", "y.log", "--since", "2026-02-02"])
        .expect(0, &[])
        .out;
    assert!(text.starts_with("y.log: No line in that time: "), "{text}");
    let text = scene.run(&["log", "y.log"]).expect(0, &[]).out;
    assert!(text.starts_with("y.log: No cycle in this log: "), "{text}");
}

#[test]
fn several_logs_and_several_databases_are_told_apart() {
    let scene = crate::a_scene();
    let shared = "\
[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 77, host ci-3, times in UTC
[2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 77, host ci-3
[2026-02-01 10:00:00] /a/.beads: Starting sync cycle...
[2026-02-01 10:00:00] /b/.beads: Skipping database (locked by make)
[2026-02-01 10:00:01] /a/.beads: Sync cycle complete
";
    fs::write(scene.file("all.log"), shared).unwrap();
    fs::write(
        scene.file("one.log"),
        "[2026-02-01 10:00:00] Skipping database (locked by vc)\n",
    )
    .unwrap();
    let until = ["--until", "2026-02-01 10:00:03"];
    let text = scene
        .run(&[&["log", "all.log", "one.log"][..], &until].concat())
        .expect(0, &[])
        .out;
    for words in [
        "database   state     since     for  why\n",
        "/a/.beads  Syncing                  the last cycle was complete at 2026-02-01 10:00:01 UTC (2s ago)\n",
        "/b/.beads: Not syncing since 2026-02-01 10:00:00 UTC",
        "beadlock status /b/.beads ",
        "one.log: Not syncing since 2026-02-01 10:00:00 UTC or earlier (3s): held by vc, 1 cycle skipped\n",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let json = scene
        .run(&[&["log", "--json", "all.log", "one.log"][..], &until].concat())
        .expect(0, &[])
        .json();
    let names: Vec<&Value> = json["data"][0]["databases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["database"])
        .collect();
    assert_eq!(names, [&json!("/a/.beads"), &json!("/b/.beads")]);
    assert_eq!(json["data"][1]["databases"][0]["database"], Value::Null);
}

#[test]
fn lines_without_any_time_are_summed_up_too() {
    let scene = crate::a_scene();
    let lines = "Skipping database (locked by vc-executor)\nSkipping database (locked by vc-executor)\n\
                 Removed stale lock (vc-executor), proceeding with sync\n";
    fs::write(scene.file("seed.log"), lines).unwrap();
    let ended = scene.run(&["log", "seed.log"]).expect(0, &[]);
    assert!(ended.out.contains("vc-executor"), "{ended:?}");
    let malformed = "Skipping database (lock check failed: malformed lock file: unexpected EOF)\n";
    fs::write(scene.file("seed.log"), format!("{lines}{malformed}")).unwrap();
    let ended = scene.run(&["log", "seed.log"]).expect(0, &[]);
    assert!(
        ended
            .out
            .contains("Not syncing: the lock cannot be checked, 1 cycle skipped"),
        "{ended:?}"
    );
    assert!(
        ended.out.contains("malformed lock file: unexpected EOF"),
        "{ended:?}"
    );
    assert!(ended.out.contains("no line says when"), "{ended:?}");
}
