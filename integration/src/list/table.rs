//! The list for people: a line for each lock, in columns.

use std::time::Duration;

use beadlock_checker::Verdict;
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts;

use crate::explain::observed::Observed;
use crate::explain::seen::{Seen, color};
use crate::output::talk::Talk;
use crate::words::counted;

/// No column makes room for more than so many characters: one that is longer pushes only its own line.
const WIDEST: usize = 60;

/// What is said of one lock.
#[derive(Debug)]
pub struct Row {
    /// Target, verdict, holder, age, reason.
    cells: [String; 5],
    /// The verdict in its colour.
    word: String,
    verdict: Verdict,
    /// With `-v`.
    below: String,
}

impl Row {
    /// Of a lock with a record; `below` is more of it.
    pub fn of(seen: &Seen, talk: &Talk, below: impl FnOnce() -> String) -> Self {
        let below = if talk.is_verbose() { below() } else { String::new() };
        Self { cells: cells(seen), word: seen.word(talk), verdict: seen.look.verdict, below }
    }

    /// Of a lock without a record that a process has.
    pub fn of_observed(observed: &Observed, talk: &Talk) -> Self {
        let seen = &observed.seen;
        let word = seen.verdict.as_str().to_owned();
        let pids: Vec<String> = seen.holders.iter().map(|holder| format!("PID {}", holder.pid)).collect();
        let (given, reason) = (observed.target.given.clone(), seen.verdict.reason().to_string());
        Self {
            cells: [given, word.clone(), pids.join(", "), "-".to_owned(), reason],
            word: talk.painted_data(&word, color(seen.verdict)),
            verdict: seen.verdict,
            below: if talk.is_verbose() { observed.below() } else { String::new() },
        }
    }
}

/// The lines, in columns.
pub fn of(rows: &[Row]) -> String {
    let width = |column: usize| {
        let wide = rows.iter().map(|row| row.cells[column].chars().count());
        wide.filter(|wide| *wide <= WIDEST).max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let last = row.cells.len() - 1;
        for (column, (cell, width)) in row.cells.iter().zip(widths).enumerate() {
            let room = width.saturating_sub(cell.chars().count());
            text.push_str(if column == 1 { &row.word } else { cell });
            if column < last {
                text.push_str(&" ".repeat(room + 2));
            }
        }
        text.push('\n');
        text.push_str(&row.below);
    }
    text
}

fn cells(seen: &Seen) -> [String; 5] {
    let record = seen.look.record.as_ref();
    let since = record.and_then(|record| record.started_at());
    let age = since.map(|since| Duration::try_from(since.age(facts::now())));
    let age = match age {
        Some(Ok(age)) => shown(age),
        Some(Err(_)) => "in the future".to_owned(),
        None => "-".to_owned(),
    };
    [
        seen.target.given.clone(),
        seen.look.verdict.as_str().to_owned(),
        record.map_or("-".to_owned(), |record| escaped(record.holder()).to_string()),
        age,
        seen.look.verdict.reason().to_string(),
    ]
}

/// `3 locks in 120 directories: 2 held, 1 stale`.
pub fn counts(rows: &[Row], directories: u64) -> String {
    let of = |is: fn(Verdict) -> bool| rows.iter().filter(|row| is(row.verdict)).count();
    let kinds = [
        (of(|verdict| matches!(verdict, Verdict::Held(_))), "held"),
        (of(|verdict| matches!(verdict, Verdict::Stale(_))), "stale"),
        (of(|verdict| matches!(verdict, Verdict::Unreadable(_))), "unreadable"),
        (of(|verdict| verdict == Verdict::Free), "set aside"),
    ];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let found = counted(rows.len(), "lock", "locks");
    let colon = if kinds.is_empty() { "" } else { ": " };
    format!("{found} in {}{colon}{kinds}", counted(directories, "directory", "directories"))
}
