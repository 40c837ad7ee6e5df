//! The agent's own diagnostics (`--log-level`): what it does and why, for people who look for a fault.
//!
//! They are apart from the log of the databases ([`crate::log`]), which is a contract and loses nothing. Diagnostics go
//! to standard error through the worker of tracing-appender ([`stderr`]). When that is not read, new lines are dropped
//! and counted, and no cycle waits.
//!
//! ```text
//! 2026-01-01T10:00:00.123456Z DEBUG cycle{db="/srv/a/.beads" action="git" n=3}: checked decision="skip" …
//! ```

pub(crate) mod events;
mod stderr;

use std::io;
use std::sync::{Arc, OnceLock};
use std::thread;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Registry, fmt, reload};

use self::stderr::{Stderr, StderrEnd};

/// How many lines the queue holds before new ones are lost.
const IN_FLIGHT: usize = 4096;

/// Events of this level and all above it are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing
    Off,
    /// Faults of the agent itself
    Error,
    /// And diagnostics that were lost
    #[default]
    Warn,
    /// And start, end, reload, databases that come and go, slow cycles
    Info,
    /// And every decision, its reason and holder, and each step of git with its duration
    Debug,
    /// And every change that the watcher has seen
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        [
            Self::OFF,
            Self::ERROR,
            Self::WARN,
            Self::INFO,
            Self::DEBUG,
            Self::TRACE,
        ][level as usize]
    }
}

/// Changes the level of this process.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// The diagnostics of this process. The queue is written out when this is dropped, also by a panic.
#[must_use = "dropped, its worker ends"]
pub(crate) struct Diagnostics {
    ending: Arc<StderrEnd>,
    worker: Option<WorkerGuard>,
}

impl Diagnostics {
    /// Starts the worker. From here on events of this level are written.
    pub(crate) fn open(level: LogLevel) -> io::Result<Self> {
        let (filter, handle) = reload::Layer::new(LevelFilter::from(level));
        let (out, diagnostics) = Self::start(Stderr::open()?)?;
        let lines = fmt::layer()
            .with_writer(out)
            .with_ansi(false)
            .with_target(false)
            .log_internal_errors(false);
        let subscriber = tracing_subscriber::registry().with(filter).with(lines);
        let set = tracing::subscriber::set_global_default(subscriber);
        set.map_err(|_| io::Error::other("this process has diagnostics already"))?;
        let _ = LEVEL.set(handle);
        Ok(diagnostics)
    }

    fn start(stderr: Stderr) -> io::Result<(NonBlocking, Self)> {
        // Tried first, since the worker panics where there is no thread to be had.
        let _ = thread::Builder::new()
            .spawn(|| {})
            .map_err(crate::limits::no_events)?
            .join();
        let ending = stderr.ending();
        let builder = NonBlockingBuilder::default()
            .lossy(true)
            .buffered_lines_limit(IN_FLIGHT);
        let (out, worker) = builder.thread_name("diagnostics").finish(stderr);
        ending.count(out.error_counter());
        Ok((
            out,
            Self {
                ending,
                worker: Some(worker),
            },
        ))
    }
}

impl Drop for Diagnostics {
    fn drop(&mut self) {
        // Without a reader the writer gives up after a second, and then the queue empties at once. So the worker
        // always takes the order to end within the time that its guard gives it.
        self.ending.begin();
        drop(self.worker.take());
    }
}

pub(crate) fn set_level(level: LogLevel) {
    if let Some(handle) = LEVEL.get() {
        // It fails only when the subscriber is gone, and with it all diagnostics.
        let _ = handle.reload(LevelFilter::from(level));
    }
}

#[cfg(test)]
mod tests;
