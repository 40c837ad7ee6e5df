//! The log (DESIGN 8): what goes to `DIR/daemon.log`, and how.
//!
//! A tracing event becomes one line ([`layer`]), which goes to the one non-blocking worker of the process, and
//! there to the files it belongs to ([`router`], [`file`]). Nothing is dropped: who logs faster than the disk
//! writes, waits.

mod file;
mod layer;
mod router;

use std::fmt::Display;
use std::io;
use std::path::Path;

use beadlock_checker::database::Database;
use beadlock_checker::escape::{escaped, escaped_path};
use beadlock_checker::facts;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::layer::SubscriberExt;

/// Lines on their way to the disk before who logs has to wait. Small, so that all are written within the second
/// that the worker gets at the end.
const IN_FLIGHT: usize = 4096;

/// The log of this process, until it is closed.
#[must_use = "dropped, it is closed"]
pub(crate) struct Log {
    worker: WorkerGuard,
}

impl Log {
    /// Starts the worker. Files are opened when there is a first line for them.
    ///
    /// # Errors
    /// When this process has a log already.
    pub(crate) fn open(databases: &[Database], shared: Option<&Path>) -> io::Result<Self> {
        let router = router::Router::new(databases, shared);
        let builder = NonBlockingBuilder::default().lossy(false).buffered_lines_limit(IN_FLIGHT);
        let (out, worker) = builder.thread_name("log").finish(router);
        let subscriber = tracing_subscriber::registry().with(layer::Lines::new(out));
        tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
        Ok(Self { worker })
    }

    /// Writes what is still in flight.
    pub(crate) fn close(self) {
        drop(self.worker);
    }
}

/// One line in the log of a database, by its number in the settings.
pub(crate) fn line(database: usize, text: impl Display) {
    tracing::info!(db = database, "{text}");
}

/// One line in every log.
pub(crate) fn line_to_all(text: impl Display) {
    tracing::info!("{text}");
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

/// What cannot go to a log: one line on stderr, if anybody reads it.
pub(crate) fn complain(text: impl Display) {
    use io::Write;
    let _ = writeln!(io::stderr(), "beadlock-agent: {text}");
}

/// A path for a line.
pub(crate) fn shown(path: &Path) -> String {
    escaped_path(path)
}
