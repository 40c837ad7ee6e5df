//! The logs of many databases: one line each, the worst first, and the details of those that are in trouble.

use std::fs;
use std::io::{ErrorKind, Read};

use beadlock_testkit::Scene;
use serde_json::json;

use super::agents;
use crate::terminal::{BEADLOCK, end, on_terminal};

/// Databases in each state, and a name that does not fit.
fn write(scene: &Scene) -> Vec<String> {
    let synced: &[&str] = &[
        "Starting sync cycle...",
        "Sync cycle complete",
        "State: synced since 2026-02-01 10:00:00",
    ];
    let long = "a-very/long/path/to/a/database/of/somebody";
    let logs: [(&str, &[&str]); 8] = [
        ("well", synced),
        (
            "fails",
            &[
                "State: failed since 2026-02-01 09:00:00: conflict with origin/main; nothing was changed; type: git -C /r pull",
            ],
        ),
        (
            "local",
            &[
                "State: local_only since 2026-01-30 09:00:00: origin cannot be reached: Connection refused; 3 commits wait, the oldest since 2026-01-30 08:00:00",
            ],
        ),
        (
            "behind",
            &["State: behind since 2026-02-01 09:00:00: cannot fetch: origin: Connection refused"],
        ),
        (
            "held",
            &[
                "Skipping database (locked by make)",
                "Held since 2026-02-01T09:59:00Z by PID 99 on build-server-3.example.org (other_host)",
            ],
        ),
        ("idle", &["State: idle since 2026-02-01 10:00:00"]),
        (
            "stops",
            &["Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3"],
        ),
        (long, synced),
    ];
    let written = logs.iter().map(|(name, lines)| {
        fs::create_dir_all(scene.file(&format!("{name}/.beads"))).unwrap();
        let log = format!("{name}/.beads/daemon.log");
        fs::write(scene.file(&log), agents(lines)).unwrap();
        log
    });
    written.collect()
}

fn words<'a>(logs: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let logs = logs.iter().map(String::as_str);
    ["log", "--until", "2026-02-01 10:00:10"]
        .into_iter()
        .chain(more.iter().copied())
        .chain(logs)
        .collect()
}

#[test]
fn one_line_each_the_worst_first_and_details_of_those_in_trouble() {
    let scene = crate::a_scene();
    let logs = write(&scene);
    let text = scene.run(&words(&logs, &[])).expect(0, &[]).out;
    let (table, details) = text.split_once("\n\n").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let names: Vec<&str> = rows
        .iter()
        .map(|row| row[0].split('/').next().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "stops", "fails", "held", "local", "behind", "well", "idle", "a-very"
        ],
        "{table}"
    );
    let words_of = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = |name: &str| words_of(table.lines().find(|line| line.starts_with(name)).unwrap());
    for (name, words) in [
        (
            "fails",
            "daemon.log Failing 09:00:00 1h conflict with origin/main; nothing was changed",
        ),
        (
            "local",
            "daemon.log Not pushing 2026-01-30 2d 1h origin cannot be reached; 3 commits wait",
        ),
        (
            "held",
            "daemon.log Skipping 10:00:00 10s held by make (PID 99 on build-server-3.example.org), 1 cycle skipped",
        ),
        ("idle", "daemon.log Syncing nothing is missing since"),
    ] {
        assert!(line(name).contains(words), "{words:?} in {table}");
    }
    for name in ["fails", "local", "behind", "held", "stops"] {
        assert!(
            details.contains(&format!("{name}/.beads/daemon.log: ")),
            "{name}: {details}"
        );
    }
    for name in ["well", "idle", "a-very"] {
        assert!(!details.contains(name), "{name}: {details}");
    }
    let json = scene.run(&words(&logs, &["--json"])).expect(0, &[]).json();
    let states: Vec<_> = json["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|log| &log["databases"][0]["answer"]["state"])
        .collect();
    let all = [
        "syncing",
        "failing",
        "local_only",
        "behind",
        "held",
        "syncing",
        "stopped",
        "syncing",
    ];
    assert_eq!(
        states,
        all.map(|state| json!(state)).iter().collect::<Vec<_>>(),
        "in the order of the command line"
    );
    // One log alone has its details, well as it is.
    let one = scene.run(&words(&logs[..1], &[])).expect(0, &[]).out;
    assert!(
        one.starts_with("well/.beads/daemon.log: Syncing: ") && one.contains("cycles: 1 complete"),
        "{one}"
    );
}

/// The lines that the command prints on a terminal of 80 columns.
fn on_80_columns(scene: &Scene, words: &[&str]) -> Vec<String> {
    on_columns(80, scene, words)
}

/// The lines that a terminal of so many columns gets, without colours.
pub fn on_columns(columns: usize, scene: &Scene, words: &[&str]) -> Vec<String> {
    let script = format!("stty cols {columns} rows 24 && \"{BEADLOCK}\" \"$@\"");
    let (child, mut master) = on_terminal(scene, &[&["sh", "-c", &script, "sh"], words].concat());
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match master.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => seen.extend_from_slice(&buffer[..length]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // The last process on the terminal has ended.
            Err(_) => break,
        }
    }
    end(child).expect(0, &[]);
    let text = String::from_utf8(seen).unwrap().replace("\u{1b}[0m", "");
    let plain = ["31", "32", "33", "36"].iter().fold(text, |text, color| {
        text.replace(&format!("\u{1b}[{color}m"), "")
    });
    plain
        .lines()
        .map(|line| line.trim_end_matches('\r').to_owned())
        .collect()
}

#[test]
fn on_a_terminal_lines_fit_and_end_between_words() {
    let scene = crate::a_scene();
    let logs = write(&scene);
    let (all, one) = (words(&logs, &[]), words(&logs[1..2], &[]));
    let colored = words(&logs[4..5], &["--color", "always"]);
    for columns in [60, 80, 120] {
        for words in [&all, &one, &colored] {
            let lines = on_columns(columns, &scene, words);
            let plain = scene.run(words).expect(0, &[]).out;
            let known: Vec<&str> = plain.split_whitespace().collect();
            assert!(lines.len() > 5, "{lines:#?}");
            for line in lines {
                let is_command = line.trim_start().starts_with("beadlock ");
                assert!(
                    is_command || line.chars().count() <= columns,
                    "{columns}: {line}"
                );
                // A name that does not fit, and words that are left out.
                for word in line
                    .split_whitespace()
                    .filter(|word| !word.starts_with('…'))
                {
                    assert!(
                        known.iter().any(|known| known.ends_with(word)),
                        "{word:?} is torn: {line}"
                    );
                }
            }
        }
    }
    let table = on_80_columns(&scene, &words(&logs, &["--color", "never"]));
    let row = |front: &str| {
        table
            .iter()
            .find(|line| line.starts_with(front))
            .unwrap_or_else(|| panic!("{table:#?}"))
    };
    assert!(
        row("…").starts_with("…/.beads/daemon.log ")
            || row("…").starts_with("…/somebody/.beads/daemon.log "),
        "{table:#?}"
    );
    assert!(row("held/").ends_with(" …"), "one line each: {table:#?}");
}
