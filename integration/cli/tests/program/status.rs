//! `beadlock status`: for people and in JSON; it never changes anything.

use std::fs;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, children, dead_pid, runs, shell_lock_text, this_host, until};
use serde_json::Value;

use crate::log::many::on_columns;

#[test]
fn says_who_since_when_why_and_what_next() {
    let scene = crate::a_scene();
    let running =
        Running::apart(scene.beadlock(&["hold", "--holder", "nightly", "--", "sleep", "300"]));
    until("it works", || {
        children(running.pid())
            .into_iter()
            .any(|pid| runs(pid, &["sleep", "300"]))
    });
    let brief = scene.run(&["status"]).expect(0, &[]).out;
    let starts = [
        ".beads: held by nightly (PID ",
        "  why: ",
        "  acquired: ",
        "  next: beadlock wait --wait 10m .beads",
    ];
    assert_eq!(brief.lines().count(), starts.len(), "{brief}");
    for (line, start) in brief.lines().zip(starts) {
        assert!(line.starts_with(start), "{start}: {brief}");
    }
    let text = scene.run(&["status", "-v"]).expect(0, &[]).out;
    let host = this_host();
    let words = [
        ".beads: held by nightly (PID ",
        ": sleep 300, on ",
        &host,
        "(pid_alive)",
        "acquired: ",
        "ago",
        "succeeds: it lives",
    ];
    for word in words.iter().chain(&[
        "machine: ",
        "boot: same",
        "PID namespace: ",
        "start: ",
        "gate: open",
        "id: ",
        "--wait 10m .beads",
    ]) {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    let json = scene
        .run(&["status", "--json", ".beads"])
        .expect(0, &[])
        .json();
    assert_eq!((&json["ok"], &json["error"]), (&true.into(), &Value::Null));
    let data = &json["data"][0];
    let mut keys: Vec<&str> = data
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    let expected = [
        "age_ms",
        "holder",
        "id",
        "message",
        "next",
        "path",
        "reason",
        "record",
        "target",
        "verdict",
        "witnesses",
    ];
    assert_eq!(keys, expected);
    assert_eq!(
        (&data["verdict"], &data["holder"]),
        (&"held".into(), &"nightly".into())
    );
    assert_eq!(data["message"], "Skipping database (locked by nightly)");
    assert_eq!(
        (&data["record"]["holder"], &data["witnesses"]["kill"]),
        (&"nightly".into(), &"ok".into())
    );
    assert!(
        data["age_ms"].is_u64() && data["next"].is_string() && data["record"]["pid"].is_u64(),
        "{data}"
    );
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.end().expect(143, &[]);
}

/// At each width the lines of `status` and `list` fit, and no word is torn; a command stays whole.
#[test]
fn on_a_terminal_lines_end_between_words() {
    let scene = crate::a_scene();
    let _running = Running::apart(scene.beadlock(&[
        "hold",
        "--holder",
        "nightly-import",
        "--",
        "sleep",
        "300",
    ]));
    until("it is claimed", || scene.lock().exists());
    for dir in ["teams/one/.beads", "teams/two/.beads"] {
        fs::create_dir_all(scene.file(dir)).unwrap();
        let record = shell_lock_text("a-holder", i64::from(dead_pid()), &this_host());
        fs::write(scene.file(dir).join(".exclusive-lock"), record).unwrap();
    }
    for columns in [60, 80, 120] {
        for words in [&["status", ".beads"][..], &["list", "teams"]] {
            let lines = on_columns(columns, &scene, words);
            let whole = scene.run(words).expect(0, &[]).out;
            assert!(lines.len() > 1, "{lines:#?}");
            for line in &lines {
                let is_command = line.trim_start().starts_with("next: ");
                assert!(
                    is_command || line.chars().count() <= columns,
                    "{columns}: {line}"
                );
                let is_age = |word: &str| {
                    word.chars()
                        .next()
                        .is_some_and(|first| first.is_ascii_digit())
                };
                for word in line
                    .split_whitespace()
                    .filter(|word| !is_age(word) && !["below", "beadlock:"].contains(word))
                {
                    let is_part_of_a_path = word.starts_with("teams/") || word.ends_with("/.beads");
                    assert!(
                        is_part_of_a_path || whole.contains(word) || line.contains("locks in "),
                        "{word} is torn: {line}"
                    );
                }
            }
        }
    }
    assert_eq!(
        on_columns(80, &scene, &["list", "teams"])[0],
        "below teams/",
        "the common directory is named once"
    );
}

#[test]
fn changes_nothing_whatever_it_sees() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    let text = scene.run(&["status"]).expect(0, &[]).out;
    assert!(
        text.contains(".beads: stale, left by vc (PID ")
            && text.contains("next: beadlock check .beads"),
        "{text}"
    );
    assert!(scene.lock().exists());
    fs::write(scene.lock(), "[1").unwrap();
    let text = scene.run(&["status"]).expect(0, &[]).out;
    assert!(
        text.contains(".beads: unreadable: malformed lock file: ")
            && text.contains("somebody may be writing it"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(scene.lock()).unwrap(), "[1");
}

#[test]
fn names_who_has_the_gate() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let me = std::process::id();
    let text = scene.run(&["status"]).expect(0, &[]).out;
    // Not always alone: what another test has forked has it too until it is executed.
    let gate_of = text
        .lines()
        .find(|line| line.contains("gate: shut by "))
        .unwrap_or_default();
    assert!(gate_of.contains(&format!("PID {me} (")), "{text}");
    let json = scene.run(&["status", "--json"]).expect(0, &[]).json();
    let who = json["data"][0]["witnesses"]["gate"].as_array().unwrap();
    assert!(who.iter().any(|one| one["pid"] == me), "{json}");
    drop(gate);
}

#[test]
fn alone_it_is_the_status_and_a_line_of_help() {
    let scene = crate::a_scene();
    let ended = scene
        .run(&[])
        .expect(0, &["beadlock hold -- CMD", "beadlock --help"]);
    assert!(
        ended.out.starts_with(".beads: free (no_lock)\n"),
        "{ended:?}"
    );
    assert_eq!(ended.err.lines().count(), 1);
}

#[test]
fn colours_come_when_asked_for() {
    let scene = crate::a_scene();
    assert!(!scene.run(&["status"]).out.contains('\u{1b}'));
    assert!(
        scene
            .run(&["status", "--color", "always"])
            .out
            .contains("\u{1b}[32mfree\u{1b}[0m")
    );
    let mut command = scene.beadlock(&["status"]);
    command.env("BEADLOCK_COLOR", "always").env("NO_COLOR", "1");
    assert!(
        Running::apart(command).end().out.contains('\u{1b}'),
        "what was asked for by name beats NO_COLOR"
    );
}

#[test]
fn names_who_waits_for_the_gate() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let waiting = Running::apart(scene.beadlock(&["hold", "--", "true"]));
    until("it waits", || waiting.err().contains("waiting"));
    let text = scene.run(&["status"]).expect(0, &[]).out;
    let line = format!("waiting for the gate: PID {} (", waiting.pid());
    assert!(text.contains(&line), "{line} in {text}");
    let json = scene.run(&["status", "--json"]).expect(0, &[]).json();
    let waiters = &json["data"][0]["witnesses"]["gate_waiters"];
    assert_eq!(waiters[0]["pid"], waiting.pid());
    assert!(
        waiters[0]["command"]
            .as_str()
            .unwrap()
            .ends_with("hold -- true"),
        "{waiters}"
    );
    drop(gate);
    waiting.end().expect(0, &["released"]);
}

#[test]
fn raw_is_the_files_own_bytes() {
    let scene = crate::a_scene();
    assert_eq!(
        scene.run(&["status", "--raw"]).expect(0, &[]).out,
        "",
        "absent: nothing"
    );
    let other = scene.file("other/.beads");
    fs::create_dir_all(&other).unwrap();
    fs::write(scene.lock(), b"{ \"a\":\t1}\x1b[2J").unwrap();
    fs::write(other.join(".exclusive-lock"), b"\xff\0no newline").unwrap();
    let mut command = scene.beadlock(&[
        "status",
        "--raw",
        ".beads",
        "other/.beads",
        "lock:.beads/.exclusive-lock",
    ]);
    let output = command.output().unwrap();
    assert_eq!(
        output.stdout,
        b"{ \"a\":\t1}\x1b[2J\xff\0no newline{ \"a\":\t1}\x1b[2J"
    );
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
    let mut command = scene.beadlock(&["status", "--raw"]);
    command.env("BEADLOCK_JSON", "1");
    assert_eq!(
        command.output().unwrap().stdout,
        b"{ \"a\":\t1}\x1b[2J",
        "what was typed beats the environment"
    );
    scene
        .run(&["status", "--raw", "--json"])
        .expect(2, &["--raw"]);
    fs::remove_dir_all(scene.beads()).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scene.lock()).unwrap();
    let ended = scene
        .run(&["status", "--raw"])
        .expect(1, &[".exclusive-lock was not read: it is a symbolic link"]);
    assert_eq!(ended.out, "");
    scene
        .run(&["status", "--raw", "nowhere", ".beads"])
        .expect(1, &["nowhere does not exist", "symbolic link"]);
}
