use super::*;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Capacity of the pipe, in bytes.
const PIPE: i32 = 16 * 1024;

/// A small pipe: its reader, and diagnostics that write into it without ever blocking.
fn piped() -> (File, NonBlocking, Diagnostics) {
    let (reader, writer) = nix::unistd::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(PIPE)).unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let (out, diagnostics) = Diagnostics::start(Stderr::new(File::from(writer))).unwrap();
    (File::from(reader), out, diagnostics)
}

fn numbered(out: &mut NonBlocking, numbers: std::ops::Range<usize>) {
    for number in numbers {
        out.write_all(format!("line {number:05}\n").as_bytes())
            .unwrap();
    }
}

/// All that is read until the writer is gone.
fn rest(mut reader: File) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_last_lines_are_written_by_the_end_and_by_a_panic() {
    for panics in [false, true] {
        let (reader, mut out, diagnostics) = piped();
        let reading = thread::spawn(move || rest(reader));
        let run = move || {
            let _diagnostics = diagnostics;
            numbered(&mut out, 0..1_000);
            assert!(!panics, "the fault that this test wants");
        };
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        assert_eq!(ended.is_err(), panics);
        let text = reading.join().unwrap();
        assert_eq!(text.lines().count(), 1_000);
        assert!(text.ends_with("line 00999\n"), "{text}");
    }
}

#[test]
fn a_pipe_that_is_not_read_keeps_no_caller_and_no_end() {
    let (reader, mut out, diagnostics) = piped();
    let begun = Instant::now();
    numbered(&mut out, 0..100_000);
    let wrote = begun.elapsed();
    let begun = Instant::now();
    drop(diagnostics);
    let ended = begun.elapsed();
    assert!(
        wrote < Duration::from_secs(10) && ended < Duration::from_secs(10),
        "{wrote:?} {ended:?}"
    );
    drop(out);
    let text = rest(reader);
    assert!(
        text.starts_with("line 00000\nline 00001\n") && text.len() <= PIPE as usize,
        "{text}"
    );
}

#[test]
fn lost_lines_are_counted_where_they_are_missing() {
    let (reader, mut out, diagnostics) = piped();
    let counter = out.error_counter();
    numbered(&mut out, 0..20_000);
    let lost = counter.dropped_lines();
    assert!(lost > 10_000, "{lost}");
    let seen = Arc::new(AtomicUsize::new(0));
    let reading = {
        let seen = Arc::clone(&seen);
        thread::spawn(move || {
            let (mut reader, mut text, mut piece) = (reader, String::new(), [0; 4096]);
            while let Ok(length @ 1..) = reader.read(&mut piece) {
                text.push_str(std::str::from_utf8(&piece[..length]).unwrap());
                seen.store(text.matches(" lost").count(), Ordering::Release);
            }
            text
        })
    };
    let begun = Instant::now();
    while seen.load(Ordering::Acquire) == 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the lost lines are never named"
        );
        thread::sleep(Duration::from_millis(2));
    }
    numbered(&mut out, 20_000..20_010);
    drop(diagnostics);
    drop(out);
    let text = reading.join().unwrap();
    let numbers: Vec<usize> = text
        .lines()
        .filter_map(|line| line.strip_prefix("line ")?.parse().ok())
        .collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert_eq!(
        numbers.len(),
        20_010 - lost,
        "each line is written or counted"
    );
    let words = format!(
        "  WARN standard error was not read in time: {lost} lines of diagnostics are lost\n"
    );
    let (before, after) = text.split_once(&words).unwrap_or_else(|| panic!("{text}"));
    assert!(
        before.rsplit_once('\n').unwrap().1.ends_with('Z'),
        "with its time"
    );
    assert_eq!(after.lines().count(), 10, "{after}");
}
