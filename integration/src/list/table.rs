//! The list for people: a line for each lock, in columns.

use std::time::Duration;

use beadlock_checker::duration::shown;
use beadlock_checker::escape::escaped;
use beadlock_checker::{Verdict, facts};

use crate::status::Seen;
use crate::talk::Talk;
use crate::witnesses::counted;

/// No column makes room for more than so many characters: one that is longer pushes only its own line.
const WIDEST: usize = 60;

/// Target, verdict, holder, age, reason; with `-v` what is `below` each of them.
pub fn of(seen: &[Seen], talk: &Talk, below: impl Fn(&Seen) -> String) -> String {
    let rows: Vec<[String; 5]> = seen.iter().map(row).collect();
    let width = |column: usize| {
        let wide = rows.iter().map(|row| row[column].chars().count());
        wide.filter(|wide| *wide <= WIDEST).max().unwrap_or_default()
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for (row, seen) in rows.iter().zip(seen) {
        let last = row.len() - 1;
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let room = width.saturating_sub(cell.chars().count());
            text.push_str(&if column == 1 { seen.word(talk) } else { cell.clone() });
            if column < last {
                text.push_str(&" ".repeat(room + 2));
            }
        }
        text.push('\n');
        if talk.is_verbose() {
            text.push_str(&below(seen));
        }
    }
    text
}

fn row(seen: &Seen) -> [String; 5] {
    let record = seen.look.record.as_ref();
    let age = record.map(|record| Duration::try_from(record.started_at().age(facts::now())));
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
pub fn counts(seen: &[Seen], directories: u64) -> String {
    let of = |is: fn(Verdict) -> bool| seen.iter().filter(|seen| is(seen.look.verdict)).count();
    let kinds = [
        (of(|verdict| matches!(verdict, Verdict::Held(_))), "held"),
        (of(|verdict| matches!(verdict, Verdict::Stale(_))), "stale"),
        (of(|verdict| matches!(verdict, Verdict::Unreadable(_))), "unreadable"),
        (of(|verdict| verdict == Verdict::Free), "set aside"),
    ];
    let kinds = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let found = counted(seen.len(), "lock", "locks");
    let colon = if kinds.is_empty() { "" } else { ": " };
    format!("{found} in {}{colon}{kinds}", counted(directories, "directory", "directories"))
}
