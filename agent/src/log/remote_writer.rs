//! A log on a mount that may not answer, written by a thread of its own: the worker has the lines of all databases, and
//! must not hang with it.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::mounts::Mounts;

use super::{LogFile, LogLimits, complain, shown};

/// How many texts may wait for one such log; further ones are lost, which is complained of.
const IN_FLIGHT: usize = 1024;
/// For how long a table of the mounts is believed.
const BELIEVED: Duration = Duration::from_secs(1);
/// How long all of these logs together may take over their last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

pub(super) enum LogOutput {
    Here(LogFile),
    Beside(DetachedLog),
}

pub(super) struct DetachedLog {
    path: PathBuf,
    lines: SyncSender<Task>,
    /// Lines are being lost, and that was complained of.
    is_losing: bool,
}

/// Text, and what a new file has before it, and a file that is there.
type Task = (String, [String; 2]);

/// Knows which logs need a thread of their own.
pub(super) struct LogMounts {
    mounts: Mounts,
    read: Option<Instant>,
    /// Each thread has a copy, which it drops as it ends.
    running: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl LogMounts {
    pub(super) fn new() -> Self {
        let (running, ended) = channel();
        Self {
            mounts: Mounts::default(),
            read: None,
            running: Some(running),
            ended,
        }
    }

    pub(super) fn open(&mut self, path: &Path, limits: LogLimits) -> LogOutput {
        if self.read.is_none_or(|read| read.elapsed() >= BELIEVED) {
            (self.mounts, self.read) = (Mounts::now(), Some(Instant::now()));
        }
        let file = LogFile::at(path, limits);
        if self.mounts.on_the_way(path).is_none() {
            return LogOutput::Here(file);
        }
        let (lines, tasks) = sync_channel(IN_FLIGHT);
        let running = self.running.clone();
        let write = move || {
            write(file, &tasks);
            drop(running);
        };
        match thread::Builder::new()
            .name("log beside".to_owned())
            .spawn(write)
        {
            Ok(_) => LogOutput::Beside(DetachedLog {
                path: path.to_owned(),
                lines,
                is_losing: false,
            }),
            // Without a thread it may hang.
            Err(_) => LogOutput::Here(LogFile::at(path, limits)),
        }
    }

    /// Waits for the last lines of the threads, whose logs are dropped by now.
    pub(super) fn end(&mut self) {
        self.running = None;
        // Nothing is ever sent: it is disconnected when the last thread has ended.
        let _ = self.ended.recv_timeout(LAST_LINES);
    }
}

fn write(mut file: LogFile, tasks: &Receiver<Task>) {
    for (text, [new, known]) in tasks {
        file.write(&text, |is_new| if is_new { new } else { known })
            .into_iter()
            .for_each(complain);
        // Closing a file on FUSE waits for its server without end, and would keep a killed agent from its end.
        file.close();
    }
}

impl LogOutput {
    pub(super) fn write(&mut self, text: &str, head: impl Fn(bool) -> String) -> Vec<String> {
        match self {
            Self::Here(file) => file.write(text, head),
            Self::Beside(beside) => beside.write(text, [true, false].map(head)),
        }
    }

    pub(super) fn close(&mut self) {
        if let Self::Here(file) = self {
            file.close();
        }
    }

    #[cfg(test)]
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Here(file) if file.is_open())
    }
}

impl DetachedLog {
    fn write(&mut self, text: &str, heads: [String; 2]) -> Vec<String> {
        let is_lost = self.lines.try_send((text.to_owned(), heads)).is_err();
        let is_news = !std::mem::replace(&mut self.is_losing, is_lost) && is_lost;
        let complaint = || {
            let path = shown(&self.path);
            format!("cannot write the log {path}: its mount does not answer; lines are lost")
        };
        is_news.then(complaint).into_iter().collect()
    }
}
