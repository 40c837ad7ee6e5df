//! beadlock-agent: one run of it, a day of it, the states of its git action, and how it is seen from outside.

mod argv;
mod audit;
mod config;
mod day;
mod environment;
mod git;
mod log_lines;
mod moves;
mod once;
mod outside;
mod running;
mod states;

use std::fmt::Write as _;
use std::sync::LazyLock;

use beadlock_core::log_line::Event;
use beadlock_tests::Scene;
use regex::{Captures, Regex};

use crate::answer::{visible, whole};
use crate::book::Book;
use crate::hide::{Known, hidden};
use crate::setting::{Line, Setting, at_once};

/// The logs that the agent may have written.
const LOGS: [&str; 3] = [".beads/daemon.log", "other/.beads/daemon.log", "all.log"];

/// Plays each line in a setting of its own, and pins the answer with the logs.
#[track_caller]
fn play_with_logs(room: &str, setting: impl Fn() -> Setting + Sync, lines: &[Line]) {
    play_with(&LOGS, room, setting, lines);
}

/// The same with these files.
#[track_caller]
fn play_with(files: &[&str], room: &str, setting: impl Fn() -> Setting + Sync, lines: &[Line]) {
    let one = |(_, line): &Line| {
        let setting = setting().given(*line);
        let mut text = whole(line, &setting.run(line));
        sections(&mut text, &setting.scene, files);
        shown(&text, &setting.known)
    };
    pin_all(
        room,
        lines.iter().map(|(name, _)| *name),
        &at_once(lines, one),
    );
}

#[track_caller]
fn pin_all<'a>(room: &str, names: impl IntoIterator<Item = &'a str>, texts: &[String]) {
    let mut book = Book::open(room);
    names
        .into_iter()
        .zip(texts)
        .for_each(|(name, text)| book.pin(name, text));
    book.close();
}

/// What only the agent says of times: each with the word that stands for its second group.
static VALUES: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let values = [
        ("AGE", r"(\bwithin )(\d+(?:\.\d+)?(?:ms|[smh]))\b"),
        ("AGE", r"(\btook=)(\d+(?:\.\d+)?(?:ns|µs|ms|s))\b"),
        ("PID", r"(\bpid=)(\d+)\b"),
        ("VERSION", r#"(\bversion=")([0-9.]+)"#),
        // By which means a lock is watched while it is removed depends on the file system.
        ("MEANS", r#"("watched": ?")(lease|comparison)"#),
        (
            "MS",
            r#"("(?:next_due_ms|oldest_age_ms|as_of_age_ms)": ?)(\d+)"#,
        ),
    ];
    values
        .map(|(word, expression)| (word, Regex::new(expression).expect("an expression")))
        .into()
});

/// The text as a snapshot has it.
fn shown(text: &str, known: &Known) -> String {
    let hide = |text: String, (word, value): &(&str, Regex)| {
        value
            .replace_all(&text, |groups: &Captures<'_>| {
                format!("{}[{word}]", &groups[1])
            })
            .into_owned()
    };
    hidden(&VALUES.iter().fold(text.to_owned(), hide), known)
}

/// Adds what is in these files of the scene, each with a heading; nothing for one that is absent or empty.
fn sections(text: &mut String, scene: &Scene, files: &[&str]) {
    for name in files {
        section(text, name, &scene.read(name));
    }
}

fn section(text: &mut String, name: &str, content: &str) {
    if !content.is_empty() {
        let _ = write!(text, "\n[{name}]\n{}", visible(content));
    }
}

/// What a log says, one word a line, as JSON has it: what scripts rely on, without the sentences.
fn events(log: &str) -> Vec<String> {
    let message = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(line) => line["message"].as_str().expect("a message").to_owned(),
        Err(_) => line
            .split_once("] ")
            .map_or(line, |(_, message)| message)
            .to_owned(),
    };
    let word = |line: &str| {
        let message = message(line);
        match Event::parse(&message) {
            (event, _) if event.word() == "state" => event.beginning().replace("State: ", ""),
            (event, _) => event.word().to_owned(),
        }
    };
    log.lines().map(word).collect()
}
