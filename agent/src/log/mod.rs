//! The log (docs/design.md#the-log): what goes to `DIR/daemon.log`, and how.
//!
//! A [`AgentLine`] is pure data, made in [`agent_lines`]. With its time and its database it goes through a bounded
//! queue to one thread ([`router`]), and there to the files it belongs to ([`file`](mod@file), [`rotate`]). Nothing is
//! dropped: a caller that logs faster than the disk writes has to wait. A command's output is told from the agent's own
//! lines ([`agent_lines`]).
//!
//! The agent's own diagnostics are apart from it ([`crate::diagnostics`]): the worker of tracing-appender takes bytes,
//! and this thread needs to know whose a line is.
//!
//! The queue also tells the thread when databases ([`serve`], [`unserve`]) or settings ([`configure`]) change, so that
//! a line goes where it belonged when it was logged.

pub(crate) mod agent_lines;
mod file;
mod line;
mod others;
mod remote_writer;
mod rotate;
mod router;
mod served;
mod settings;
pub(crate) mod terminal;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::pin::pin;
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::agent_process::AgentProcess;
use beadlock_core::{Decision, facts};

use file::{LogFile, inode, must_have_one_name};
use remote_writer::{LogMounts, LogOutput};
use rotate::{FullLog, LogLimits};
use router::{LogMessage, Recipients, Router};
use served::Served;

use crate::command::read_lines;
use crate::cycle_end::CycleEnd;

pub(crate) use line::{AgentLine, LogFormat, Whose, escaped_unless};
pub(crate) use settings::{LogSettings, parse_keep, parse_size};

/// How many messages the queue holds before a caller has to wait.
const IN_FLIGHT: usize = 4096;
/// How long the disk may take over them at the end.
const LAST_LINES: Duration = Duration::from_secs(10);

/// The log of this process, once it is open.
static LOG: OnceLock<LogSender> = OnceLock::new();

#[derive(Clone)]
struct LogSender {
    out: SyncSender<LogMessage>,
    served: Arc<Served>,
}

/// The log of this process, until it is closed.
#[must_use = "dropped, it is closed"]
pub(crate) struct Log {
    desk: LogSender,
    ended: Receiver<()>,
}

impl Log {
    /// Starts the thread. Files are opened when there is a first line for them; so far no database is served. The head
    /// of each says where the agent listens.
    pub(crate) fn open(settings: LogSettings, listening_at: Option<Address>) -> io::Result<Self> {
        let log = Self::start(settings, listening_at)?;
        let is_first = LOG.set(log.desk.clone()).is_ok();
        is_first
            .then_some(log)
            .ok_or_else(|| io::Error::other("this process has a log already"))
    }

    fn start(settings: LogSettings, listening_at: Option<Address>) -> io::Result<Self> {
        settings.check()?;
        let (ending, ended) = mpsc::channel();
        let served = Arc::new(Served::new(settings, listening_at));
        let router = Router::new(Arc::clone(&served), ending);
        let (out, messages) = sync_channel(IN_FLIGHT);
        let thread = thread::Builder::new().name("log".to_owned());
        thread
            .spawn(move || router.run(&messages))
            .map_err(crate::limits::no_events)?;
        Ok(Self {
            desk: LogSender { out, served },
            ended,
        })
    }

    pub(crate) fn close(self) {
        let desk = self.desk;
        // In a thread, because it may wait for its place in the queue.
        let ending = thread::Builder::new().spawn(move || desk.send(LogMessage::End));
        if ending.is_ok() && self.ended.recv_timeout(LAST_LINES).is_err() {
            complain("the end of the log is not written: the disk is too slow");
        }
    }
}

impl LogSender {
    fn serve(&self, number: usize, dir: &Path) {
        self.served.serve(number, dir);
        self.send(LogMessage::Turned(number));
    }

    fn unserve(&self, number: usize) {
        self.served.unserve(number);
        self.send(LogMessage::Turned(number));
    }

    fn configure(&self, settings: LogSettings) -> io::Result<()> {
        settings.check()?;
        self.served.configure(settings);
        self.send(LogMessage::Configured);
        Ok(())
    }

    /// Some file takes the lines for everyone.
    fn has_a_log(&self) -> bool {
        self.served.settings().shared.is_some() || !self.served.now().is_empty()
    }

    /// Sends lines for the database with this number, or for everyone.
    fn put(&self, database: Option<usize>, lines: Vec<AgentLine>) {
        let to = database.map_or_else(|| Recipients::All(self.served.now()), Recipients::One);
        self.send(LogMessage::Lines {
            to,
            seconds: facts::now().0.as_secs(),
            lines,
        });
    }

    fn send(&self, message: LogMessage) {
        // It fails when the thread is gone, and with it the log.
        let _ = self.out.send(message);
    }
}

/// From now on the database with this number has a log, in this directory. A number is never another database's.
pub(crate) fn serve(number: usize, dir: &Path) {
    LOG.get().into_iter().for_each(|log| log.serve(number, dir));
}

/// The database with this number has gone: it gets no more lines for everyone, and its file is closed. A late line of
/// its own is still written.
pub(crate) fn unserve(number: usize) {
    LOG.get().into_iter().for_each(|log| log.unserve(number));
}

pub(crate) fn configure(settings: LogSettings) -> io::Result<()> {
    LOG.get().map_or(Ok(()), |log| log.configure(settings))
}

fn put(database: Option<usize>, lines: Vec<AgentLine>) {
    if let Some(log) = LOG.get() {
        log.put(database, lines);
    }
}

/// Logs one line of the agent's own for a database, by its number.
pub(crate) fn line(database: usize, line: impl Into<AgentLine>) {
    put(Some(database), vec![line.into()]);
}

/// Logs lines of one moment for a database, in this order; they are written together.
pub(crate) fn lines(database: usize, lines: Vec<AgentLine>) {
    if !lines.is_empty() {
        put(Some(database), lines);
    }
}

/// Logs one line of the agent's own for every database that is served.
pub(crate) fn line_to_all(line: impl Into<AgentLine>) {
    put(None, vec![line.into()]);
}

/// Logs one line for every database, and shows it on stderr. A terminal sees the logs anyway, and without a log the
/// line goes to stderr by itself.
pub(crate) fn announce(line: AgentLine) {
    let is_in_a_log = LOG.get().is_some_and(LogSender::has_a_log);
    if is_in_a_log && !io::stderr().is_terminal() {
        complain(&line.message);
    }
    line_to_all(line);
}

/// Logs one line for a database, and shows it on stderr, as [`announce`] does.
fn announce_for(database: usize, line: AgentLine) {
    if !io::stderr().is_terminal() {
        complain(&line.message);
    }
    put(Some(database), vec![line]);
}

/// Says which other agent serves the database in this directory already. It reads the log there, which may block.
pub(crate) fn say_others(database: usize, dir: &Path) {
    if let Some(other) = others::that_serves(&dir.join("daemon.log")) {
        announce_for(database, agent_lines::served_by(&other));
    }
}

/// Logs one line of a command's output for a database.
pub(crate) fn output(database: usize, text: &str) {
    put(Some(database), vec![agent_lines::output(text)]);
}

/// The log, in text and in JSON, of an agent that has started, skipped its cycles for these reasons, and run one more
/// cycle, whose command printed `output`. Each line is a second after the one before it, from 2026 on. `name` is what a
/// log that several databases share calls this one.
pub fn log_of_skips(skips: &[Decision], output: &[u8], name: Option<&str>) -> (String, String) {
    let mut lines = vec![agent_lines::header(), agent_lines::started()];
    for decision in skips {
        lines.push(agent_lines::skipped(decision));
        let record = decision.record();
        lines.extend(record.map(|record| agent_lines::held(record, decision.reason(), None)));
    }
    lines.push(agent_lines::begun());
    {
        // Bytes in memory are always ready: one poll reads them all.
        let reading = pin!(read_lines(output, |text| lines.push(agent_lines::output(text))));
        let read = reading.poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(read.is_ready(), "some output is not in the log");
    }
    lines.push(agent_lines::ended(&CycleEnd::Complete));
    let shown = name.map(|name| named(Path::new(name)));
    let whose = Whose {
        name: shown.as_deref(),
        dir: name,
    };
    let written = |format| {
        let seconds = 1_767_225_600..;
        let lines = seconds.zip(&lines);
        lines
            .map(|(second, line)| line.in_format(format, second, whose))
            .collect()
    };
    (written(LogFormat::Text), written(LogFormat::Json))
}

/// This agent, with which process it is, for a reader who wants to know whether it lives.
pub(crate) fn this_agent() -> AgentProcess {
    let host = facts::hostname().unwrap_or_else(|| "unknown".into());
    let program = concat!("beadlock-agent ", env!("CARGO_PKG_VERSION"));
    AgentProcess::current(program, &escaped(&host).to_string())
}

/// Writes what cannot go to a log: one line on stderr, if there is room for it.
pub(crate) fn complain(text: impl Display) {
    if terminal::has_room(io::stderr()) {
        let _ = writeln!(io::stderr(), "beadlock-agent: {text}");
    }
}

pub(crate) fn shown(path: &Path) -> String {
    escaped_path(path)
}

/// The name of a database in a shared stream. The first `: ` of a line must be the one after the name, so one in the
/// path is escaped.
pub(crate) fn named(dir: &Path) -> String {
    shown(dir).replace(": ", r":\u{20}")
}

#[cfg(test)]
mod tests;
