//! The log (DESIGN 8): what goes to `DIR/daemon.log`, and how.
//!
//! A tracing event becomes one line ([`layer`]), which goes to the one non-blocking worker of the process, and
//! there to the files it belongs to ([`router`], [`file`]). Nothing is dropped: who logs faster than the disk
//! writes, waits. What a command prints is told from the agent's own words ([`own`]).

mod file;
mod layer;
pub(crate) mod own;
mod router;
mod terminal;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use beadlock_checker::database::Database;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::facts;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;

/// Lines on their way to the disk before who logs has to wait.
const IN_FLIGHT: usize = 4096;

/// How long the disk may take over them at the end.
const LAST_LINES: Duration = Duration::from_secs(10);

/// The log of this process, until it is closed.
#[must_use = "dropped, it is closed"]
pub(crate) struct Log {
    out: NonBlocking,
    worker: WorkerGuard,
    ended: Receiver<()>,
}

impl Log {
    /// Starts the worker. Files are opened when there is a first line for them.
    ///
    /// # Errors
    /// When the shared log cannot be written; when this process has a log already.
    pub(crate) fn open(databases: &[Database], shared: Option<&Path>) -> io::Result<Self> {
        let (ending, ended) = mpsc::channel();
        let router = router::Router::new(databases, shared, ending)?;
        let builder = NonBlockingBuilder::default().lossy(false).buffered_lines_limit(IN_FLIGHT);
        let (out, worker) = builder.thread_name("log").finish(router);
        let subscriber = tracing_subscriber::registry().with(layer::Lines::new(out.clone()));
        tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
        Ok(Self { out, worker, ended })
    }

    /// Writes what is still in flight.
    pub(crate) fn close(self) {
        use io::Write;
        let mut out = self.out;
        // Beside, for it waits for its place; and the worker itself would be waited for a second only.
        let ending = thread::Builder::new().spawn(move || out.write_all(router::END));
        if ending.is_ok() && self.ended.recv_timeout(LAST_LINES).is_err() {
            complain("the end of the log is not written: the disk is too slow");
        }
        drop(self.worker);
    }
}

/// One line of the agent's own in the log of a database, by its number in the settings.
pub(crate) fn line(database: usize, text: impl Display) {
    debug_assert!(own::is_own(&text.to_string()), "not in the list of own::BEGINNINGS: {text}");
    tracing::info!(db = database, "{text}");
}

/// One line of the agent's own in every log.
pub(crate) fn line_to_all(text: impl Display) {
    debug_assert!(own::is_own(&text.to_string()), "not in the list of own::BEGINNINGS: {text}");
    tracing::info!("{text}");
}

/// One line of what a cycle's command prints, in the log of a database; never to be taken for the agent's.
pub(crate) fn output(database: usize, text: &str) {
    tracing::info!(db = database, "{}", own::of_command(text));
}

/// Version, PID and host.
pub(crate) fn this_agent() -> String {
    let host = facts::hostname().unwrap_or_else(|| "unknown".to_owned());
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
