//! The table of the log's lines, as the agent writes by it and `beadlock log` reads by it.

use std::fmt::Write as _;

use beadlock_core::log_line::{Event, MARK, ORIGINAL_START};

use crate::book::Book;

#[test]
fn table() {
    let mut text = String::new();
    for event in Event::all() {
        let level = serde_json::to_string(&event.level()).expect("a level");
        let _ = writeln!(
            text,
            "{:<26} {:<5}  {:?}",
            event.word(),
            level.trim_matches('"'),
            event.beginning()
        );
    }
    let _ = writeln!(
        text,
        "\nin front of output that begins like a line of the agent: {MARK:?}"
    );
    let _ = writeln!(
        text,
        "by which the original daemon begins a log: {ORIGINAL_START:?}"
    );
    let mut book = Book::open("agent/log-lines");
    book.pin("contract-table", &text);
    book.close();
}
