//! One program from its start to its end: it is fed, both its streams are read, and it is ended when its time is over.
//! Who else may have the streams is not waited for.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::descendants::Descendants;
use super::message::{SyncMessage, say};
use super::shortened::Shortened;
use super::stop::Stop;

/// How long what is still coming is read after the end of a program: what it left behind may have the pipe for ever.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long a git that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// What is kept of the beginning and of the end of what a program says to people.
const KEPT: usize = 64 * 1024;

/// What is kept of a program's stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    All,
    /// Of `git cat-file --batch`: how each blob begins.
    Beginnings,
}

/// What one call has come to.
pub(super) struct GitOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// It was ended, for its time was over.
    pub(super) timed_out: bool,
}

impl GitOutput {
    /// The first line of stdout, when it succeeded and there is one.
    pub(super) fn ok_text(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.stdout);
        text.lines().next().filter(|line| self.status.success() && !line.is_empty()).map(str::to_owned)
    }

    /// What it printed for people goes to the log.
    pub(super) fn show(&self) {
        for line in String::from_utf8_lossy(&self.stderr).split(['\n', '\r']) {
            if !line.trim().is_empty() {
                say(&SyncMessage::Output(line.trim_end().to_owned()));
            }
        }
    }

    /// The end of a sync that cannot do without this call. What git printed goes to the log.
    pub(super) fn refused(&self, what: &str) -> Stop {
        self.show();
        Stop::Refused(format!("{what}: {}", self.last_line()))
    }

    /// Why it failed, in one line.
    pub(super) fn last_line(&self) -> String {
        if self.timed_out {
            return "it took too long".to_owned();
        }
        let text = String::from_utf8_lossy(&self.stderr);
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        let begins = |word: &'static str| lines().find(|line| line.starts_with(word));
        let line = begins("fatal: ").or_else(|| begins("error: ")).or_else(|| lines().next_back());
        match line {
            Some(line) => line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned(),
            None => self.status.to_string(),
        }
    }
}

/// Feeds a child, reads both its streams, and waits for its end; not for who else may have the streams.
pub(super) fn converse(
    child: &mut Child,
    stdin: Vec<u8>,
    bound: Option<Duration>,
    kept: Kept,
) -> io::Result<GitOutput> {
    if let Some(mut pipe) = child.stdin.take() {
        // Beside: what is longer than the pipe would wait for a child that waits for us to read.
        thread::Builder::new().spawn(move || pipe.write_all(&stdin))?;
    }
    let content = match kept {
        Kept::All => Content::Data,
        Kept::Beginnings => Content::Blobs(Shortened::default()),
    };
    let mut streams = [
        child.stdout.take().map(|stream| Stream::new(stream.into(), content)).transpose()?,
        child.stderr.take().map(|stream| Stream::new(stream.into(), Content::ForPeople)).transpose()?,
    ];
    let pidfd = sys::pidfd_open(child.id().cast_signed()).ok();
    let begun = Instant::now();
    let (mut told, mut ended) = (None::<(Instant, Descendants)>, None::<Instant>);
    let status = loop {
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        for stream in streams.iter_mut().flatten() {
            stream.read_what_is_there();
        }
        let is_silent = streams.iter().flatten().all(|stream| stream.is_at_end);
        if let Some(ended) = ended
            && (is_silent || ended.elapsed() >= LAST_WORDS)
        {
            break child.wait()?;
        }
        if ended.is_none() && bound.is_some_and(|bound| begun.elapsed() >= bound) {
            match &told {
                None => {
                    let all = Descendants::of(child.id().cast_signed());
                    all.signal(Signal::SIGTERM);
                    told = Some((Instant::now(), all));
                }
                Some((told, _)) if told.elapsed() >= GRACE => child.kill()?,
                Some(_) => {}
            }
        }
        let mut open: Vec<PollFd<'_>> = Vec::with_capacity(3);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        open.extend(
            streams
                .iter()
                .flatten()
                .filter(|stream| !stream.is_at_end)
                .map(|stream| readable(stream.file.as_fd())),
        );
        if let (None, Some(pidfd)) = (ended, &pidfd) {
            open.push(readable(pidfd.as_fd()));
        }
        // The streams and the end wake it; the clock is for bounds, and for systems without a pidfd.
        let pause: u16 = if pidfd.is_some() && ended.is_none() && bound.is_none() { 1000 } else { 20 };
        let _ = poll(&mut open, PollTimeout::from(pause));
    };
    // Who did not end with it has nobody to work for.
    if let Some((_, all)) = &told {
        all.signal(Signal::SIGKILL);
    }
    let [stdout, stderr] = streams.map(|stream| stream.map(|stream| stream.bytes).unwrap_or_default());
    Ok(GitOutput { status, stdout, stderr, timed_out: told.is_some() })
}

struct Stream {
    file: File,
    bytes: Vec<u8>,
    is_at_end: bool,
    content: Content,
}

/// What a stream has, and so what is kept of it.
enum Content {
    Data,
    /// Of many words the middle is left out.
    ForPeople,
    Blobs(Shortened),
}

impl Stream {
    fn new(stream: OwnedFd, content: Content) -> io::Result<Self> {
        fcntl(&stream, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self { file: File::from(stream), bytes: Vec::new(), is_at_end: false, content })
    }

    fn read_what_is_there(&mut self) {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.file.read(&mut buffer) {
                Ok(0) => self.is_at_end = true,
                Ok(read) => {
                    self.keep(&buffer[..read]);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.is_at_end = true,
            }
            return;
        }
    }

    fn keep(&mut self, read: &[u8]) {
        match &mut self.content {
            Content::Blobs(shortened) => return shortened.take(read, &mut self.bytes),
            Content::Data | Content::ForPeople => self.bytes.extend_from_slice(read),
        }
        if matches!(self.content, Content::ForPeople) && self.bytes.len() > 4 * KEPT {
            self.bytes.splice(KEPT..self.bytes.len() - KEPT, *b"\n(much left out)\n");
        }
    }
}
