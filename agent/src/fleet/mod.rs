//! The rights of the databases that have joined a fleet (docs/design.md#the-fleet).
//!
//! A cycle of such a database has a permit before it takes the gate, and gives it back after it has let the gate go.
//! The library keeps one session for the whole process in threads of its own; a thread here hears of it, tells every
//! running cycle its new deadline, and the scheduler which databases are due. So neither waits for the other.

#[cfg(feature = "fleet")]
mod listener;
#[cfg(feature = "fleet")]
mod rights;

use std::ffi::OsString;
use std::fmt::Debug;
use std::future::pending;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use beadlock_base::open_directory::OpenDirectory;
use beadlock_core::Decision;
use beadlock_supervise::runner::RunnerDeadline;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The rights of the cycles of databases that have joined a fleet.
pub(crate) trait Rights: Send + Sync {
    /// There is one look at each database, which has to wait for its right.
    fn is_one_look(&self) -> bool;

    /// The right for one cycle of the database in this directory; `None`: it has not joined a fleet. Makes no request
    /// of etcd.
    fn enter(
        &self,
        number: usize,
        dir: &OpenDirectory,
    ) -> Result<Option<Box<dyn Right>>, NotEntered>;

    /// The agent's status in its fleet; `None`: no database has joined one.
    fn status(&self) -> Option<FleetStatus>;

    /// Ends the session, after the last cycle. Blocks, for as long as etcd does not answer.
    fn end(&self);
}

/// The right to run one cycle. Dropped, it is given back.
pub(crate) trait Right: Debug + Send + Sync {
    /// The mark of the directory whose gate is held is still the one that the right is for.
    fn is_of(&self, gate: Option<BorrowedFd<'_>>) -> bool;

    /// For the runner of the cycle's command: its deadline, and where it hears of the later ones until the watch is
    /// dropped.
    fn runner(&self) -> io::Result<(RunnerDeadline, RunnerWatch)>;
}

/// A running cycle hears of deadlines until this is dropped.
pub(crate) struct RunnerWatch {
    /// Notified when the runner should have killed its work, and has not: it may have been stopped.
    pub(crate) overdue: Arc<Notify>,
    /// Dropped with this.
    _running: Box<dyn Send + Sync>,
}

/// The receiver of the fleet's updates, for the scheduler.
pub(crate) struct FleetUpdates(UnboundedReceiver<FleetUpdate>);

impl FleetUpdates {
    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> FleetUpdate {
        match self.0.recv().await {
            Some(update) => update,
            None => pending().await,
        }
    }
}

/// Who gives the rights, and what is heard of the fleet. Nobody gives any in a program without the feature: there the
/// check skips the databases that have joined.
#[cfg_attr(
    not(feature = "fleet"),
    expect(unused_variables, reason = "there is no fleet to ask")
)]
pub(crate) fn begin(
    variables: FleetVariables,
    is_one_look: bool,
) -> (Option<Box<dyn Rights>>, FleetUpdates) {
    let (updates, heard) = unbounded_channel();
    #[cfg(feature = "fleet")]
    let rights: Option<Box<dyn Rights>> = Some(Box::new(rights::FleetRights::new(
        variables,
        is_one_look,
        updates,
    )));
    #[cfg(not(feature = "fleet"))]
    let rights = None;
    (rights, FleetUpdates(heard))
}

/// The environment that leads to the fleet's configuration, and so to its etcd.
#[cfg_attr(
    not(feature = "fleet"),
    expect(dead_code, reason = "nothing happens in a fleet then")
)]
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetVariables {
    /// `$BEADLOCK_FLEET_CONFIG`.
    pub(crate) named: Option<OsString>,
    /// `$XDG_CONFIG_HOME`.
    pub(crate) config_home: Option<OsString>,
    /// `$HOME`.
    pub(crate) home: Option<OsString>,
    pub(crate) cwd: PathBuf,
}

/// Why a cycle does not begin.
#[derive(Debug)]
pub(crate) enum NotEntered {
    /// The check skips the cycle, and the log says why.
    Skip(Decision),
    /// The right was asked for, and comes soon.
    Asking,
}

/// A change in the fleet that the scheduler has to know.
#[cfg_attr(
    not(feature = "fleet"),
    expect(dead_code, reason = "nothing happens in a fleet then")
)]
#[derive(Debug)]
pub(crate) enum FleetUpdate {
    /// A session has begun, in the fleet at this url.
    Joined(String),
    /// The session has ended, for this reason.
    Lost(String),
    /// The databases with these numbers are due.
    Due(Vec<usize>),
}

/// How the agent fares in its fleet, for metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetStatus {
    /// The state of the session: one of [`SESSIONS`].
    pub(crate) session: &'static str,
    /// For how many seconds its work may go on without a renewal; negative when that is over.
    pub(crate) deadline: Option<f64>,
    /// How many rights there are, by [`RIGHTS`].
    pub(crate) rights: [usize; 3],
    /// How many seconds the last claim has waited for this agent.
    pub(crate) last_yield: Option<f64>,
}

/// The states of the agent's session, as labels of a metric.
pub(crate) const SESSIONS: [&str; 4] = ["live", "broken", "lost", "none"];

/// The states of a right, in the order of [`FleetStatus::rights`].
pub(crate) const RIGHTS: [&str; 3] = ["held", "claimed", "asked"];
