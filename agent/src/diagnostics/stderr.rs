//! Standard error behind the worker. When it is a pipe that is not read, the worker waits for room, at the end for a
//! second at most, and lines that do not fit into its queue are counted.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::escape::is_harmless;
use beadlock_core::facts;
use nix::poll::PollTimeout;
use tracing_appender::non_blocking::ErrorCounter;

use crate::log::escaped_unless;
use crate::log::terminal::{gets_room, stderr_anew};

/// A pipe with room takes so many bytes at once.
const PIECE: usize = 4096;
/// How long the last lines may wait for room.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How often a writer that waits for room looks whether the agent ends, in milliseconds.
const SLICE: u16 = 20;

/// The writer behind the worker. It never fails: a line that cannot be written is counted.
pub(super) struct Stderr {
    file: File,
    ending: Arc<StderrEnd>,
    /// How many lines from the queue could not be written.
    discarded: usize,
    /// How many lost lines were named so far.
    named: usize,
}

/// Shared by the writer and the end of the agent.
#[derive(Default)]
pub(super) struct StderrEnd {
    /// Until when the writer waits for room.
    deadline: OnceLock<Instant>,
    is_waiting: AtomicBool,
    /// Lines that found no place in the queue.
    lost: OnceLock<ErrorCounter>,
}

impl StderrEnd {
    /// Names the counter of the worker, which is there after the writer.
    pub(super) fn count(&self, lost: ErrorCounter) {
        let _ = self.lost.set(lost);
    }

    pub(super) fn begin(&self) {
        let deadline = *self.deadline.get_or_init(|| Instant::now() + LAST_LINES);
        let given_up = deadline + Duration::from_millis(u64::from(SLICE));
        while self.is_waiting.load(Ordering::Acquire) && Instant::now() < given_up {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_over(&self) -> bool {
        self.deadline
            .get()
            .is_some_and(|deadline| *deadline <= Instant::now())
    }
}

impl Stderr {
    pub(super) fn open() -> io::Result<Self> {
        let stderr = io::stderr();
        let shared = File::from(
            stderr
                .as_fd()
                .try_clone_to_owned()
                .map_err(crate::limits::no_events)?,
        );
        let is_pipe = shared
            .metadata()
            .is_ok_and(|meta| meta.file_type().is_fifo());
        if !(is_pipe || stderr.is_terminal()) {
            // A file always has room. A socket cannot be opened anew, but polls for a piece.
            return Ok(Self::new(shared));
        }
        Ok(Self::new(stderr_anew().unwrap_or(shared)))
    }

    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            ending: Arc::default(),
            discarded: 0,
            named: 0,
        }
    }

    pub(super) fn ending(&self) -> Arc<StderrEnd> {
        Arc::clone(&self.ending)
    }

    /// Writes a whole line. Returns false when there was no room until the end.
    fn put(&mut self, line: &str) -> bool {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            if !self.has_room() {
                return false;
            }
            match self.file.write(&rest[..rest.len().min(PIECE)]) {
                Ok(0) => return false,
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Another writer was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(u64::from(SLICE)));
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits for room. Returns false when the agent ends and there is none.
    fn has_room(&self) -> bool {
        let mut has_room = gets_room(&self.file, PollTimeout::ZERO);
        if !has_room {
            self.ending.is_waiting.store(true, Ordering::Release);
            while !has_room && !self.ending.is_over() {
                has_room = gets_room(&self.file, PollTimeout::from(SLICE));
            }
            self.ending.is_waiting.store(false, Ordering::Release);
        }
        has_room
    }

    /// Writes how many lines were lost, in their place, because the queue is empty.
    fn name_lost(&mut self) {
        let dropped = || {
            self.ending
                .lost
                .get()
                .map_or(0, ErrorCounter::dropped_lines)
        };
        if dropped() + self.discarded == self.named || !self.has_room() {
            return;
        }
        let lost = dropped() + self.discarded;
        let time =
            jiff::Timestamp::from_duration(facts::now().0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let news = lost - self.named;
        let words =
            format!("standard error was not read in time: {news} lines of diagnostics are lost");
        if self.put(&format!("{time:.6}  WARN {words}\n")) {
            self.named = lost;
        }
    }
}

impl Write for Stderr {
    /// One event: one line, whatever is in its names.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        if !self.put(&one_line(&String::from_utf8_lossy(event))) {
            self.discarded += 1;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.name_lost();
        Ok(())
    }
}

/// The line of an event with its newline. Control characters and the like in it are escaped.
fn one_line(event: &str) -> String {
    escaped_unless(is_harmless, event.strip_suffix('\n').unwrap_or(event)) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_moves_no_cursor() {
        let line = one_line("x\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[2J\u{202e}\u{9b}\n");
        assert_eq!(
            line,
            "x\\n2026-01-01T00:00:00Z ERROR forged\\r\\u{1b}[2J\\u{202e}\\u{9b}\n"
        );
    }
}
