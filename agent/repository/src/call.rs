//! One call of a program: it is fed, its streams are read, and it is ended when its time is over.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::deadline::Demand;
use beadlock_base::process::{self, Stat};
use beadlock_base::sys;
use beadlock_supervise::process_tree;
use beadlock_supervise::tree_ending::{Asks, Ending, Now, TreeLook};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::{Beginnings, GitReason, SyncMessage, SyncStop, say};

/// How long the streams are still read after the end of a program: a process that it left behind may keep them open.
const LAST_WORDS: Duration = Duration::from_millis(100);
const GRACE: Duration = Duration::from_secs(5);
/// How many bytes of stderr are kept, at the beginning and at the end.
const KEPT: usize = 64 * 1024;

/// Which part of an output stream is kept in memory.
#[derive(Debug)]
pub(crate) enum KeptOutput {
    All,
    /// How each blob begins in the output of `git cat-file --batch`.
    Beginnings(Beginnings),
    /// All but the middle of a long text for people.
    BothEnds,
}

/// The answer of one call of git.
pub struct GitOutput {
    /// How git ended.
    pub status: ExitStatus,
    /// The bytes of its stdout, or the parts of them that the call keeps.
    pub stdout: Vec<u8>,
    /// The bytes of its stderr, without the middle of a long text.
    pub stderr: Vec<u8>,
    /// Whether git was ended because the time of the call was over.
    pub timed_out: bool,
}

impl GitOutput {
    /// The first line of stdout, when it succeeded and there is one.
    pub fn ok_text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stdout);
        text.lines()
            .next()
            .filter(|line| self.status.success() && !line.is_empty())
            .map(str::to_owned)
    }

    /// Sends each line of stderr to the agent.
    pub fn show(&self) {
        for line in String::from_utf8_lossy(&self.stderr).split(['\n', '\r']) {
            if !line.trim().is_empty() {
                say(&SyncMessage::Output(line.trim_end().to_owned()));
            }
        }
    }

    /// Ends a sync that cannot do without this call.
    pub fn refused(&self, what: &str) -> SyncStop {
        self.show();
        let reason = if self.timed_out {
            GitReason::TimedOut
        } else {
            GitReason::GitFailed
        };
        SyncStop::failed(reason, format!("{what}: {}", self.last_line()))
            .doing(what)
            .with_words(self.said())
    }

    /// The text of stderr.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// The line of stderr that says why git failed, without its `fatal: `; without any line, how git ended.
    pub fn last_line(&self) -> String {
        if self.timed_out {
            return "it took too long".to_owned();
        }
        let text = String::from_utf8_lossy(&self.stderr);
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let begins = |word: &'static str| lines().find(|line| line.starts_with(word));
        let line = begins("fatal: ")
            .or_else(|| begins("error: "))
            .or_else(|| lines().next_back());
        match line {
            Some(line) => line
                .trim_start_matches("fatal: ")
                .trim_start_matches("error: ")
                .to_owned(),
            None => self.status.to_string(),
        }
    }
}

/// Feeds a child, reads its streams, and waits for its end, but not for others who have the streams.
pub(crate) fn converse(
    child: &mut Child,
    stdin: Vec<u8>,
    bound: Option<Duration>,
    kept: KeptOutput,
) -> io::Result<GitOutput> {
    if let Some(mut pipe) = child.stdin.take() {
        // In a thread: the child may read only after we have read its output.
        thread::Builder::new().spawn(move || pipe.write_all(&stdin))?;
    }
    let mut streams = [
        child
            .stdout
            .take()
            .map(|stream| OutputStream::new(stream.into(), kept))
            .transpose()?,
        child
            .stderr
            .take()
            .map(|stream| OutputStream::new(stream.into(), KeptOutput::BothEnds))
            .transpose()?,
    ];
    let pidfd = sys::pidfd_open(child.id().cast_signed()).ok();
    let begun = Instant::now();
    let (mut over, mut ended) = (None::<Overdue>, None::<Instant>);
    let status = loop {
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        streams
            .iter_mut()
            .flatten()
            .for_each(OutputStream::read_what_is_there);
        let is_silent = streams.iter().flatten().all(|stream| stream.is_at_end);
        if ended.is_some_and(|ended| is_silent || ended.elapsed() >= LAST_WORDS) {
            break child.wait()?;
        }
        if ended.is_none() && bound.is_some_and(|bound| begun.elapsed() >= bound) {
            let over = over.get_or_insert_with(|| Overdue::of(child.id().cast_signed()));
            over.end(Demand::Nothing);
            // Also where no `/proc` shows it.
            if over.since.elapsed() >= GRACE {
                child.kill()?;
            }
        }
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let open = streams.iter().flatten().filter(|stream| !stream.is_at_end);
        let mut open: Vec<_> = open.map(|stream| readable(stream.file.as_fd())).collect();
        if let (None, Some(pidfd)) = (ended, &pidfd) {
            open.push(readable(pidfd.as_fd()));
        }
        // The streams and the end wake it; the clock is for bounds, and for systems without a pidfd.
        let pause: u16 = if pidfd.is_some() && ended.is_none() && bound.is_none() {
            1000
        } else {
            20
        };
        let _ = poll(&mut open, PollTimeout::from(pause));
    };
    if let Some(over) = &mut over {
        over.end(Demand::Kill);
    }
    let [stdout, stderr] =
        streams.map(|stream| stream.map(|stream| stream.bytes).unwrap_or_default());
    Ok(GitOutput {
        status,
        stdout,
        stderr,
        timed_out: over.is_some(),
    })
}

/// A program whose time is over, and all that it had started by then, such as transports and hooks. They have no
/// process group of their own, because all of a sync is one.
struct Overdue {
    all: Vec<Stat>,
    since: Instant,
    ending: Ending,
}

impl Overdue {
    /// Of a child that is not reaped yet.
    fn of(pid: i32) -> Self {
        let all = process::all();
        let mut found: Vec<Stat> = all.iter().filter(|stat| stat.pid == pid).cloned().collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).map(|stat| stat.pid) {
            let is_new = |stat: &&Stat| stat.ppid == parent && !found.contains(stat);
            let new: Vec<Stat> = all.iter().filter(is_new).cloned().collect();
            found.extend(new);
            next += 1;
        }
        let since = Instant::now();
        Self {
            all: found,
            since,
            ending: Ending::new(Asks::Present, GRACE, since),
        }
    }

    /// Does what is due by now to end those who are still there.
    fn end(&mut self, demand: Demand) {
        let is_there = |stat: &&Stat| {
            Stat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks)
        };
        let there = self.all.iter().filter(is_there).cloned().collect();
        let step = (self.ending).next(&TreeLook::of_scan(there), Now::read(), demand);
        for (signal, to) in &step.send {
            process_tree::signal(to, *signal);
        }
    }
}

struct OutputStream {
    file: File,
    bytes: Vec<u8>,
    is_at_end: bool,
    kept: KeptOutput,
}

impl OutputStream {
    fn new(stream: OwnedFd, kept: KeptOutput) -> io::Result<Self> {
        fcntl(&stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            file: File::from(stream),
            bytes: Vec::new(),
            is_at_end: false,
            kept,
        })
    }

    fn read_what_is_there(&mut self) {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.file.read(&mut buffer) {
                Ok(read @ 1..) => self.keep(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => {
                    self.is_at_end = true;
                    return;
                }
            }
        }
    }

    fn keep(&mut self, read: &[u8]) {
        if let KeptOutput::Beginnings(beginnings) = &mut self.kept {
            return beginnings.take(read, &mut self.bytes);
        }
        self.bytes.extend_from_slice(read);
        if matches!(self.kept, KeptOutput::BothEnds) && self.bytes.len() > 4 * KEPT {
            self.bytes
                .splice(KEPT..self.bytes.len() - KEPT, *b"\n(much left out)\n");
        }
    }
}
