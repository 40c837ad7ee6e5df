//! `beadlock append`: whole lines, never into each other.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use beadlock_tests::{Dice, Running, Scene};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::Files;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn lines_are_added_whole() {
    let scene = Scene::new();
    let ended = scene.given("{\"a\":1}\n{\"a\":2}", &["append", "file:log.jsonl"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.err.starts_with("beadlock: added 2 lines to "),
        "{ended:?}"
    );
    assert_eq!(
        scene
            .given("{\"a\":3}\r\n", &["append", "-q", "file:log.jsonl"])
            .code,
        0
    );
    assert_eq!(
        scene.text("log.jsonl"),
        "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\r\n"
    );
    let nothing = scene.given("", &["append", "file:log.jsonl"]);
    assert_eq!(
        (nothing.code, scene.text("log.jsonl").len()),
        (0, 25),
        "{nothing:?}"
    );
    assert_eq!(scene.files(), ["log.jsonl", "log.jsonl.lock"], "no backup");
}

#[test]
fn what_is_no_line_of_json_is_refused_as_a_whole() {
    let scene = Scene::new();
    for (lines, words) in [
        ("{}\nx\n", "line 2: expected value"),
        ("\n", "line 1: it is empty"),
        ("{\n}\n", "line 1"),
    ] {
        let ended = scene.given(lines, &["append", "file:log.jsonl"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    assert_eq!(scene.files(), [""; 0]);
    assert_eq!(
        scene
            .given(
                "any\n\nline",
                &["append", "-q", "file:x.txt", "--format", "any"]
            )
            .code,
        0
    );
    assert_eq!(scene.text("x.txt"), "any\n\nline\n");
}

#[test]
fn a_torn_line_is_reported_and_kept_apart() {
    let scene = Scene::new();
    scene.put("log.jsonl", "{\"a\":1}\n{\"a\":");
    let ended = scene.given("{\"a\":2}\n", &["append", "file:log.jsonl"]);
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .err
            .contains("the last line, 5 bytes from offset 8, had no end"),
        "{ended:?}"
    );
    assert_eq!(scene.text("log.jsonl"), "{\"a\":1}\n{\"a\":\n{\"a\":2}\n");
    scene.put("log.jsonl", "half");
    let ended = scene.given("{\"a\":2}\n", &["append", "--json", "-q", "file:log.jsonl"]);
    let envelope: Value = serde_json::from_str(&ended.out).expect("an envelope");
    assert_eq!(
        envelope["data"]["torn"],
        serde_json::json!({ "offset": 0, "length": 4 })
    );
    assert_eq!(
        envelope["warnings"].as_array().map(Vec::len),
        Some(1),
        "{envelope}"
    );
}

#[test]
fn fifty_at_once_never_into_each_other() {
    let scene = Scene::new();
    let started: Vec<Running> = (0..50)
        .map(|writer| {
            let line = |number| {
                format!(
                    "{{\"writer\":{writer},\"number\":{number},\"x\":\"{}\"}}\n",
                    "x".repeat(writer * 200)
                )
            };
            scene.put(
                &format!("new-{writer}"),
                (0..4).map(line).collect::<String>(),
            );
            let mut command = scene.beadlock(&["append", "-q", "file:log.jsonl", "--wait", "60s"]);
            command
                .stdin(fs::File::open(scene.path().join(format!("new-{writer}"))).expect("there"));
            Running::start(command)
        })
        .collect();
    for mut writer in started {
        assert!(writer.wait(PATIENCE).success());
    }
    let mut next: HashMap<u64, u64> = HashMap::new();
    let mut last = None;
    for line in scene.text("log.jsonl").lines() {
        let value: Value = serde_json::from_str(line).expect("a whole line");
        let (writer, number) = (
            value["writer"].as_u64().expect("a writer"),
            value["number"].as_u64().expect("a number"),
        );
        let expected = next.entry(writer).or_default();
        assert_eq!(number, *expected, "lines of one append stand together");
        assert!(number == 0 || last == Some(writer));
        *expected += 1;
        last = Some(writer);
    }
    assert!(next.len() == 50 && next.values().all(|count| *count == 4));
}

/// The kernel may stop in the middle of a write when a kill comes. The next append keeps the rest of the line apart,
/// and no line is lost or merged with another.
#[test]
fn killed_in_the_middle_of_a_large_write() {
    let scene = Scene::new();
    let mut dice = Dice::new(Dice::seed("APPEND_SEED"), "kills");
    let long = format!("{{\"long\":\"{}\"}}\n", "x".repeat(24_000_000));
    scene.put("long", &long);
    for round in 0..12 {
        let mut command = scene.beadlock(&["append", "-q", "file:log.jsonl"]);
        command.stdin(fs::File::open(scene.path().join("long")).expect("there"));
        let victim = Running::start(command);
        std::thread::sleep(Duration::from_micros(dice.below(60_000)));
        victim.signal(Signal::SIGKILL);
        drop(victim);
        let next = scene.given(
            format!("{{\"round\":{round}}}\n"),
            &["append", "file:log.jsonl"],
        );
        assert_eq!(next.code, 0, "{next:?}");
        let text = scene.text("log.jsonl");
        let mut rounds = 0;
        let mut torn = 0;
        for line in text.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(value) if value["round"].is_u64() => rounds += 1,
                Ok(_) => assert_eq!(line.len() + 1, long.len(), "whole"),
                Err(_) => {
                    torn += 1;
                    assert!(
                        long.starts_with(line),
                        "the beginning of one line, and nothing of another"
                    );
                }
            }
        }
        assert_eq!(rounds, 1, "round {round}, {torn} torn");
        assert_eq!(next.err.contains("had no end"), torn > 0, "{next:?}");
        fs::remove_file(scene.path().join("log.jsonl")).expect("begin anew");
    }
}
