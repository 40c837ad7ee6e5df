//! The end of a daemon's log as it grows: the timeline of its database so far, as a strip of cells.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};
use beadlock_core::agent_process::AgentProcess;
use beadlock_core::log_line::Event as Line;

use super::parse::event::listening_at;
use super::parse::time::LogTime;
use super::timeline::LogTimeline;
use super::timeline::spans::CycleResult;
use super::timeline::streak::{SkipCause, SkipStreak};
use super::window::LogWindow;

/// Bytes at the end of a log that are read at first.
const FIRST: u64 = 4 * 1024 * 1024;

/// Bytes at the end of a log that are read for one look.
const LOOK: u64 = 1024 * 1024;

/// Bytes at the beginning of a long log that are read for the names of its daemon and its address.
const HEAD: usize = 1024;

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;

/// Bytes of the longest line; a longer one is cut.
const LONGEST_LINE: usize = 64 * 1024;

/// State of a database in a span of time: of all that happened, the worst. The variants are in the order of how bad
/// they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HistoryCell {
    /// Nothing is known.
    #[default]
    Unknown,
    /// Cycles were complete.
    Complete,
    /// Cycles were skipped for a claim.
    Held,
    /// Not everything was at the remote.
    NotPushed,
    /// The lock could not be checked.
    Unreadable,
    /// A cycle failed or took too long, or the database was not served.
    Failed,
}

/// A daemon's log that is read on as it grows. No file stays open in between.
#[derive(Debug)]
pub struct LogTail {
    path: PathBuf,
    /// The file that was read last, and up to where.
    reached: Option<Reached>,
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    log: LogTimeline,
    has_begun: bool,
    /// Bytes that are read at first: the end of the log, after the head.
    first: u64,
}

#[derive(Debug, Clone, Copy)]
struct Reached {
    inode: (u64, u64),
    offset: u64,
    /// True while the reader is in a line whose beginning was left out.
    is_in_line: bool,
}

impl LogTail {
    /// A tail of the log at `path`, which need not be there yet; nothing is read.
    pub fn new(path: &Path) -> Self {
        let log = LogTimeline::new(LogWindow::default(), LogTime::now()).of_one_database();
        Self {
            path: path.to_owned(),
            reached: None,
            partial: Vec::new(),
            log,
            has_begun: false,
            first: FIRST,
        }
    }

    /// A tail for one look: of a long log less is read, and the processes of its daemons are asked for.
    pub fn looking(path: &Path) -> Self {
        let mut tail = Self::new(path);
        tail.first = LOOK;
        tail.log = tail.log.asking(AgentProcess::state);
        tail
    }

    /// Gives what was read, and the path of the log.
    pub(crate) fn into_timeline(self) -> (PathBuf, LogTimeline) {
        (self.path, self.log)
    }

    /// Reads what has come since. Returns whether there is a log that can be read.
    pub fn read_on(&mut self) -> bool {
        let Some((mut file, inode, length)) = opened(&self.path) else {
            return false;
        };
        let mut head = vec![0; HEAD];
        if !self.has_begun
            && length > self.first
            && let Ok(count) = file.read(&mut head)
        {
            self.take_head(&head[..count]);
        }
        let before = self.reached;
        let same = before.filter(|before| before.inode == inode && before.offset <= length);
        let mut reached = same.unwrap_or_else(|| {
            let offset = if self.has_begun && before.is_some() {
                0
            } else {
                length.saturating_sub(self.first)
            };
            Reached {
                inode,
                offset,
                is_in_line: offset > 0,
            }
        });
        if let Some(mut before) = before.filter(|_| same.is_none()) {
            // The rest of the file that was rotated away.
            let older = opened(&self.path.with_extension("log.1"))
                .filter(|(_, inode, _)| *inode == before.inode);
            if let Some((mut older, ..)) = older {
                self.take_in(&mut older, &mut before);
            }
            self.partial.clear();
        }
        self.take_in(&mut file, &mut reached);
        self.reached = Some(reached);
        true
    }

    /// The header of a long log, and where its daemon listens; of the lines below nothing is known.
    fn take_head(&mut self, head: &[u8]) {
        self.log.begin(head);
        self.has_begun = true;
        for line in head.split(|byte| *byte == b'\n').take(2) {
            self.log.add_line(line, false);
        }
    }

    fn take_in(&mut self, file: &mut File, reached: &mut Reached) {
        if file.seek(SeekFrom::Start(reached.offset)).is_err() {
            return;
        }
        let mut chunk = vec![0; CHUNK];
        while let Ok(count @ 1..) = file.read(&mut chunk) {
            reached.offset += count as u64;
            let bytes = &chunk[..count];
            if !self.has_begun {
                self.log.begin(bytes);
                self.has_begun = true;
            }
            for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                let room = LONGEST_LINE.saturating_sub(self.partial.len());
                let is_cut = part.len() > room + 1;
                self.partial
                    .extend_from_slice(&part[..part.len().min(room)]);
                if part.ends_with(b"\n") {
                    if self.partial.ends_with(b"\n") {
                        self.partial.pop();
                    }
                    if !std::mem::take(&mut reached.is_in_line) {
                        self.log.add_line(&self.partial, is_cut);
                    }
                    self.partial.clear();
                }
            }
        }
    }

    /// The address at which the daemon has said last that it listens.
    pub fn listens_at(&self) -> Option<&str> {
        let marks = self.log.databases.first()?.spans.marks.iter().rev();
        marks.filter_map(|mark| listening_at(&mark.words)).next()
    }

    /// When the part of the log that was read begins.
    pub fn first(&self) -> Option<LogTime> {
        self.log.databases.first()?.first
    }

    /// Cells of the same length from one time to the other, `count` of them, the oldest first.
    pub fn cells(&self, from: LogTime, to: LogTime, count: usize) -> Vec<HistoryCell> {
        let mut strip = HistoryStrip::new(from, to, count);
        let Some(timeline) = self.log.databases.first() else {
            return strip.cells;
        };
        let spans = &timeline.spans;
        for run in &spans.cycles {
            strip.put(run.from, run.to, of_cycle(run.end));
        }
        for past in &spans.streaks {
            strip.put(past.streak.since, past.until, of_streak(&past.streak));
        }
        let last = timeline.last.unwrap_or(to);
        if let Some(streak) = &timeline.streak {
            strip.put(streak.since, last, of_streak(streak));
        }
        for span in &spans.states {
            strip.put(span.from, span.to.unwrap_or(last), of_state(span.state));
        }
        strip.cells
    }
}

/// The open file, its device and inode, and its length. Neither a link nor a pipe is followed or waited for.
fn opened(path: &Path) -> Option<(File, (u64, u64), u64)> {
    let file = regular::open(path, Links::Refused).ok()?;
    let metadata = file.metadata().ok()?;
    Some((file, (metadata.dev(), metadata.ino()), metadata.len()))
}

fn of_cycle(end: CycleResult) -> HistoryCell {
    match end {
        CycleResult::Complete => HistoryCell::Complete,
        CycleResult::Incomplete => HistoryCell::NotPushed,
        CycleResult::Failed | CycleResult::TimedOut => HistoryCell::Failed,
        CycleResult::Unfinished => HistoryCell::Unknown,
    }
}

fn of_streak(streak: &SkipStreak) -> HistoryCell {
    match streak.cause {
        SkipCause::Held(_) | SkipCause::Busy => HistoryCell::Held,
        SkipCause::Unreadable(_) => HistoryCell::Unreadable,
    }
}

fn of_state(state: Line) -> HistoryCell {
    match state {
        Line::StateFailed | Line::StateNotServing => HistoryCell::Failed,
        Line::StateLocalOnly | Line::StateBehind => HistoryCell::NotPushed,
        Line::StateSynced => HistoryCell::Complete,
        _ => HistoryCell::Unknown,
    }
}

/// Cells of the same length over a span of time.
#[derive(Debug)]
pub struct HistoryStrip {
    from: i64,
    length: i64,
    /// The cells, the oldest first.
    pub cells: Vec<HistoryCell>,
}

impl HistoryStrip {
    /// A strip of `count` cells from one time to the other, of which nothing is known yet.
    pub fn new(from: LogTime, to: LogTime, count: usize) -> Self {
        let length = i64::try_from(count)
            .ok()
            .and_then(|count| (to.0 - from.0).checked_div(count))
            .unwrap_or(1);
        Self {
            from: from.0,
            length: length.max(1),
            cells: vec![HistoryCell::Unknown; count],
        }
    }

    /// Notes `what` for the time from `from` to `to`. A cell that is worse stays.
    pub fn put(&mut self, from: LogTime, to: LogTime, what: HistoryCell) {
        let place = |at: LogTime| (at.0 - self.from).div_euclid(self.length);
        let (first, last) = (place(from).max(0), place(to));
        let places = usize::try_from(first).ok().zip(usize::try_from(last).ok());
        let Some((first, last)) = places.filter(|_| last >= first) else {
            return;
        };
        for cell in self
            .cells
            .iter_mut()
            .take(last.saturating_add(1))
            .skip(first)
        {
            *cell = (*cell).max(what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    fn at(text: &str) -> LogTime {
        LogTime::parse(&format!("2026-02-01T{text}Z")).unwrap()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is moved is no lock")]
    fn a_log_is_read_on_over_its_rotation() {
        use HistoryCell::{Complete, Failed, Held, Unknown};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let mut tail = LogTail::new(&path);
        assert!(!tail.read_on());
        let mut file = File::create(&path).unwrap();
        write!(file, "[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 7, host h, times in UTC\n[2026-02-01 10:00:0")
            .unwrap();
        assert!(tail.read_on());
        writeln!(
            file,
            "1] Listening at 127.0.0.1:9\n[2026-02-01 10:00:02] Starting sync cycle..."
        )
        .unwrap();
        writeln!(file, "[2026-02-01 10:00:03] Sync cycle complete").unwrap();
        assert!(tail.read_on());
        assert_eq!(tail.listens_at(), Some("127.0.0.1:9"));
        let cells = |tail: &LogTail| tail.cells(at("09:50:00"), at("10:30:00"), 4);
        assert_eq!(cells(&tail), [Unknown, Complete, Unknown, Unknown]);
        writeln!(
            file,
            "[2026-02-01 10:11:00] Skipping database (locked by make)"
        )
        .unwrap();
        fs::rename(&path, dir.path().join("daemon.log.1")).unwrap();
        drop(file);
        fs::write(&path, "[2026-02-01 10:25:00] Starting sync cycle...\n[2026-02-01 10:25:01] Sync cycle failed: x\n")
            .unwrap();
        assert!(tail.read_on());
        assert_eq!(cells(&tail), [Unknown, Complete, Held, Failed]);
    }

    #[test]
    fn of_a_long_log_the_end_is_read_from_the_first_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let line = "[2026-02-01 10:00:00] Skipping database (locked by make)\n";
        let text = line.repeat(usize::try_from(FIRST).unwrap() / line.len() + 100);
        fs::write(
            &path,
            text + "[2026-02-01 10:20:00] Starting sync cycle...\n[2026-02-01 10:20:00] Sync cycle complete\n",
        )
        .unwrap();
        let mut tail = LogTail::new(&path);
        assert!(tail.read_on());
        assert_eq!(tail.log.lines.other, 0, "no line is torn");
        assert_eq!(
            tail.cells(at("10:00:00"), at("10:30:00"), 3),
            [HistoryCell::Held, HistoryCell::Held, HistoryCell::Held]
        );
    }

    #[test]
    fn a_strip_keeps_the_worst_and_nothing_falls_outside() {
        let mut strip = HistoryStrip::new(LogTime(0), LogTime(100), 10);
        strip.put(LogTime(-50), LogTime(15), HistoryCell::Complete);
        strip.put(LogTime(5), LogTime(5), HistoryCell::Failed);
        strip.put(LogTime(95), LogTime(i64::MAX / 2), HistoryCell::Held);
        strip.put(LogTime(-9), LogTime(-5), HistoryCell::Failed);
        strip.put(LogTime(40), LogTime(30), HistoryCell::Failed);
        let seen: Vec<usize> = strip.cells.iter().map(|cell| *cell as usize).collect();
        assert_eq!(seen, [5, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(HistoryStrip::new(LogTime(0), LogTime(0), 0).cells, []);
    }
}
