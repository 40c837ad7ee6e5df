//! The log (docs/design.md#the-log): what goes to `DIR/daemon.log`, and how.
//!
//! What is to be said is a [`Line`], pure data, made in [`own`]. It goes with its time, and whose it is ([`message`]),
//! through a bounded queue to one thread, and there to the files it belongs to ([`router`], [`file`], [`rotate`]).
//! Nothing is dropped: a caller that logs faster than the disk writes has to wait. What a command prints is told from
//! the agent's own words ([`own`]).
//!
//! The agent's own diagnostics are apart from it ([`crate::diagnostics`]). The worker of tracing-appender is theirs: it
//! takes bytes, and here the thread needs to know whose a line is.
//!
//! Databases come and go ([`serve`], [`unserve`]), and so do settings ([`configure`]); the worker is told of both in
//! the same order as of the lines, so that a line goes where it belonged when it was said.

mod beside;
mod file;
mod line;
mod message;
pub(crate) mod own;
mod rotate;
mod router;
mod served;
mod settings;
mod terminal;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::facts;

use beside::{Ground, Out};
use file::{LogFile, inode, must_have_one_name};
use message::{Message, To};
use rotate::{Full, Limits, Stuck};
use served::Served;
use terminal::Terminal;

pub(crate) use line::{Format, Line, Whose};
pub(crate) use settings::{Settings, parse_keep, parse_size};

/// Lines on their way to the disk before who logs has to wait.
const IN_FLIGHT: usize = 4096;

/// How long the disk may take over them at the end.
const LAST_LINES: Duration = Duration::from_secs(10);

/// The log of this process, once it is open.
static LOG: OnceLock<Desk> = OnceLock::new();

/// What whoever logs needs of it.
#[derive(Clone)]
struct Desk {
    out: SyncSender<Message>,
    served: Arc<Served>,
}

/// The log of this process, until it is closed.
#[must_use = "dropped, it is closed"]
pub(crate) struct Log {
    desk: Desk,
    ended: Receiver<()>,
}

impl Log {
    /// Starts the thread. Files are opened when there is a first line for them; so far no database is served.
    ///
    /// # Errors
    /// When the shared log cannot be written; when there is no thread to be had; when this process has a log already.
    pub(crate) fn open(settings: Settings) -> io::Result<Self> {
        let log = Self::start(settings)?;
        let is_first = LOG.set(log.desk.clone()).is_ok();
        is_first.then_some(log).ok_or_else(|| io::Error::other("this process has a log already"))
    }

    fn start(settings: Settings) -> io::Result<Self> {
        settings.check()?;
        let (ending, ended) = mpsc::channel();
        let served = Arc::new(Served::new(settings));
        let router = router::Router::new(Arc::clone(&served), ending);
        let (out, messages) = sync_channel(IN_FLIGHT);
        let thread = thread::Builder::new().name("log".to_owned());
        thread.spawn(move || router.run(&messages)).map_err(crate::limits::no_events)?;
        Ok(Self { desk: Desk { out, served }, ended })
    }

    /// Writes what is still in flight.
    pub(crate) fn close(self) {
        let desk = self.desk;
        // Beside, for it waits for its place.
        let ending = thread::Builder::new().spawn(move || desk.send(Message::End));
        if ending.is_ok() && self.ended.recv_timeout(LAST_LINES).is_err() {
            complain("the end of the log is not written: the disk is too slow");
        }
    }
}

impl Desk {
    fn serve(&self, number: u32, dir: &Path) {
        self.served.serve(number, dir);
        self.send(Message::Turned(number));
    }

    fn unserve(&self, number: u32) {
        self.served.unserve(number);
        self.send(Message::Turned(number));
    }

    fn configure(&self, settings: Settings) -> io::Result<()> {
        settings.check()?;
        self.served.configure(settings);
        self.send(Message::Configured);
        Ok(())
    }

    /// What is said to all is in some file.
    fn has_a_log(&self) -> bool {
        self.served.settings().shared.is_some() || !self.served.now().is_empty()
    }

    /// Lines of the database with this number, or everyone's, on their way.
    fn put(&self, database: Option<usize>, lines: Vec<Line>) {
        let to = match database.map(u32::try_from) {
            Some(Ok(number)) => To::One(number),
            Some(Err(_)) => return,
            None => To::All(self.served.now()),
        };
        self.send(Message::Lines { to, seconds: facts::now().0.as_secs(), lines });
    }

    fn send(&self, message: Message) {
        // It fails when the thread is gone, and with it the log.
        let _ = self.out.send(message);
    }
}

/// From now on the database with this number has a log, in this directory. A number is one database's for ever; it may
/// be served again.
pub(crate) fn serve(number: usize, dir: &Path) {
    if let (Some(desk), Ok(number)) = (LOG.get(), u32::try_from(number)) {
        desk.serve(number, dir);
    }
}

/// The database with this number has gone: lines for everyone are no longer for it, and its file is closed. A line of
/// its own that comes late is still written.
pub(crate) fn unserve(number: usize) {
    if let (Some(desk), Ok(number)) = (LOG.get(), u32::try_from(number)) {
        desk.unserve(number);
    }
}

/// Lines are written in this way from now on.
///
/// # Errors
/// When the shared log cannot be written, and what to do; all stays as it was.
pub(crate) fn configure(settings: Settings) -> io::Result<()> {
    LOG.get().map_or(Ok(()), |desk| desk.configure(settings))
}

fn put(database: Option<usize>, lines: Vec<Line>) {
    if let Some(desk) = LOG.get() {
        desk.put(database, lines);
    }
}

/// One line of the agent's own in the log of a database, by its number.
pub(crate) fn line(database: usize, line: impl Into<Line>) {
    put(Some(database), vec![line.into()]);
}

/// Lines of the agent's own in the log of a database, of one moment and in this order: written at once.
pub(crate) fn lines(database: usize, lines: Vec<Line>) {
    if !lines.is_empty() {
        put(Some(database), lines);
    }
}

/// One line of the agent's own in the log of every database that is served.
pub(crate) fn line_to_all(line: impl Into<Line>) {
    put(None, vec![line.into()]);
}

/// One line of the agent's own for whoever is there to read it: in every log, and on stderr, where a terminal sees the
/// logs anyway.
pub(crate) fn announce(line: Line) {
    use io::IsTerminal;
    // Without a log it goes there by itself.
    let is_in_a_log = LOG.get().is_some_and(Desk::has_a_log);
    if is_in_a_log && !io::stderr().is_terminal() {
        complain(&line.message);
    }
    line_to_all(line);
}

/// One line of what a cycle's command prints, in the log of a database; never to be taken for the agent's.
pub(crate) fn output(database: usize, text: &str) {
    put(Some(database), vec![own::output(text)]);
}

/// Version, PID and host.
pub(crate) fn this_agent() -> String {
    let host = facts::hostname().unwrap_or_else(|| "unknown".into());
    format!(
        "beadlock-agent {}, PID {}, host {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        escaped(&host)
    )
}

/// What cannot go to a log: one line on stderr, if there is room for it.
pub(crate) fn complain(text: impl Display) {
    use io::Write;
    if terminal::has_room(io::stderr()) {
        let _ = writeln!(io::stderr(), "beadlock-agent: {text}");
    }
}

/// A path for a line.
pub(crate) fn shown(path: &Path) -> String {
    escaped_path(path)
}

/// How a database is called in a text that several share. Its first `: ` is the one behind it: a directory may have
/// one in its name, and what stands behind that is no message.
pub(crate) fn named(dir: &Path) -> String {
    shown(dir).replace(": ", r":\u{20}")
}

#[cfg(test)]
mod tests;
