//! How long a merge takes, and how much memory: `cargo run --release -p beadlock-records --example merge_time [RECORDS]`.
//!
//! Both sides change some records each, spread over the file, a few of them the same, and append others. It prints the time
//! of the merge and of one file's questions, and what the process has had in memory at most, the three files with it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use beadlock_records::{ConflictLabels, RecordFile, Undecided, blemishes, differing, merge};

/// A file of records of some 280 bytes. `changed` says of a record what else is in its title, and at which second it changed.
fn file(records: usize, changed: impl Fn(usize) -> Option<(&'static str, usize)>) -> String {
    let mut file = String::new();
    for number in 0..records {
        let (title, second) = changed(number).unwrap_or(("", 0));
        let line = writeln!(
            file,
            "{{\"id\":\"bd-{number}\",\"title\":\"what somebody has to do in place {number}{title}\",\"description\":\"a few \
             words on why it has to be done, and on how to see that it is done: nobody asks again\",\"status\":\"open\",\
             \"priority\":2,\"labels\":[\"a\",\"b\"],\"created_at\":\"2026-03-01T00:00:00Z\",\
             \"updated_at\":\"2026-03-01T00:00:{second:02}Z\"}}"
        );
        if line.is_err() {
            break;
        }
    }
    file
}

fn timed<T>(what: &str, work: impl Fn() -> T) -> T {
    let mut best = Duration::MAX;
    let mut result = None;
    for _ in 0..5 {
        let begun = Instant::now();
        result = Some(work());
        best = best.min(begun.elapsed());
    }
    println!("{what}: {:.3} s (best of 5)", best.as_secs_f64());
    result.unwrap_or_else(&work)
}

/// The process's peak, in MiB, as Linux tells it.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}

fn main() {
    let records = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let records = records.unwrap_or(50_000);
    let base = file(records, |_| None);
    let ours = file(records + 20, |number| {
        (number % 50 == 0).then_some((" here", 5))
    });
    let theirs = file(records + 30, |number| {
        (number % 70 == 0).then_some((" there", 9))
    });
    let stamped = file(records, |_| Some(("", 30)));
    let size = base.len() as f64 / 1e6;
    println!(
        "{records} records, {size:.1} MB a version; {} MiB in memory",
        peak()
    );

    let labels = ConflictLabels::default();
    let merged = |ours: &str, theirs: &str| {
        let (base, ours, theirs) = (base.as_bytes(), ours.as_bytes(), theirs.as_bytes());
        merge(base, ours, theirs, &Undecided::Mark(labels))
    };
    let result = timed("merge, both sides changed some", || merged(&ours, &theirs));
    if let Ok(result) = result {
        println!(
            "  {} merged, {} conflicts",
            result.merged,
            result.conflicts.len()
        );
    }
    let rewritten = file(records, |_| Some((" here", 5)));
    let _ = timed("merge, both sides changed every record", || {
        merged(&rewritten, &stamped)
    });
    let (before, now) = timed("both files parsed for questions", || {
        (
            RecordFile::read(ours.as_bytes()),
            RecordFile::read(theirs.as_bytes()),
        )
    });
    let count = timed("differing", || differing(&before, &now));
    println!("  {count} differ");
    timed("blemishes", || blemishes(ours.as_bytes()).len());
    println!("{} MiB in memory at most", peak());
}
