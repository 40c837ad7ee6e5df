//! The list for people: a line for each lock, in columns.

use beadlock_base::escape::escaped;
use beadlock_core::Verdict;

use beadlock_base::words::counted;
use beadlock_claim::words::{self, shown_age};
use beadlock_console::table::{Alignment, Table, common_directory, terminal_width};
use beadlock_console::talk::Talk;
use beadlock_explain::seen::SeenTarget;

/// The row of one lock in the list.
#[derive(Debug)]
pub struct Row {
    /// Target, verdict, holder, age, reason.
    cells: [String; 5],
    /// The verdict in its colour.
    word: String,
    verdict: Verdict,
    /// The lines after the row, with `-v`; else empty.
    below: String,
}

impl Row {
    /// The row of the lock `seen`; `below` makes the lines that `-v` adds after it.
    pub fn of(seen: &SeenTarget, talk: &Talk, below: impl FnOnce() -> String) -> Self {
        let below = if talk.is_verbose() {
            below()
        } else {
            String::new()
        };
        Self {
            cells: cells(seen),
            word: seen.word(talk),
            verdict: seen.look.verdict,
            below,
        }
    }
}

/// The lines, in columns. On a terminal the directory that all targets have in common is named once.
pub fn of(rows: &[Row]) -> String {
    let room = terminal_width();
    let common = room.and_then(|_| common_directory(rows.iter().map(|row| row.cells[0].as_str())));
    let left = Alignment::Left;
    let mut table = Table::headless([
        ("", left, 0),
        ("", left, 0),
        ("", left, 1),
        ("", left, 2),
        ("", left, 3),
    ]);
    for row in rows {
        let mut cells = row.cells.clone();
        if let Some(short) = common.and_then(|common| cells[0].strip_prefix(common)) {
            cells[0] = short.to_owned();
        }
        table.painted_row(cells, (1, row.word.clone()), row.below.clone());
    }
    common
        .map(|common| format!("below {common}\n"))
        .unwrap_or_default()
        + &table.text(room)
}

fn cells(seen: &SeenTarget) -> [String; 5] {
    let record = seen.look.record.as_ref();
    let since = record.and_then(|record| record.started_at());
    let age = match (since, words::known_age(&seen.look)) {
        (None, _) => "-".to_owned(),
        (_, Some(age)) => shown_age(age),
        (Some(_), None) => "in the future".to_owned(),
    };
    [
        seen.target.given.clone(),
        seen.look.verdict.as_str().to_owned(),
        record.map_or("-".to_owned(), |record| {
            escaped(record.holder()).to_string()
        }),
        age,
        seen.look.verdict.reason().to_string(),
    ]
}

/// The line that counts the locks: `3 locks in 120 directories: 2 held, 1 stale`.
pub fn counts(rows: &[Row], directories: u64) -> String {
    let of = |is: fn(Verdict) -> bool| rows.iter().filter(|row| is(row.verdict)).count();
    let kinds = [
        (of(|verdict| matches!(verdict, Verdict::Held(_))), "held"),
        (of(|verdict| matches!(verdict, Verdict::Stale(_))), "stale"),
        (
            of(|verdict| matches!(verdict, Verdict::Unreadable(_))),
            "unreadable",
        ),
        (of(|verdict| verdict == Verdict::Free), "set aside"),
    ];
    let kinds = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let found = counted(rows.len(), "lock", "locks");
    let colon = if kinds.is_empty() { "" } else { ": " };
    format!(
        "{found} in {}{colon}{kinds}",
        counted(directories, "directory", "directories")
    )
}
