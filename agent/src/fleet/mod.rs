//! The rights of the databases that have joined a fleet (docs/design.md#the-fleet).
//!
//! A cycle of such a database has a permit before it takes the gate, and gives it back after it has let the gate go.
//! The library keeps one session for the whole process in threads of its own; a thread here hears of it, tells every
//! running cycle its new deadline, and the scheduler which databases are due. So neither waits for the other.

#[cfg(not(feature = "fleet"))]
mod absent;
#[cfg(feature = "fleet")]
mod listener;
#[cfg(feature = "fleet")]
mod rights;

use std::ffi::OsString;
use std::path::PathBuf;

use beadlock_core::Decision;

#[cfg(not(feature = "fleet"))]
pub(crate) use absent::{Fleet, FleetUpdates, Right};
#[cfg(feature = "fleet")]
pub(crate) use rights::{Fleet, FleetUpdates, Right};

/// What says where the fleet's etcd is.
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
    /// It is skipped, and the log says why.
    Skip(Decision),
    /// Its right was asked for, and comes soon.
    Asking,
}

/// What has happened in the fleet.
#[cfg_attr(
    not(feature = "fleet"),
    expect(dead_code, reason = "nothing happens in a fleet then")
)]
#[derive(Debug)]
pub(crate) enum FleetUpdate {
    /// A session has begun; where.
    Joined(String),
    /// It has ended; how.
    Lost(String),
    /// These databases are due.
    Due(Vec<usize>),
}

/// How the agent fares in its fleet, for metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetStatus {
    /// One of [`SESSIONS`].
    pub(crate) session: &'static str,
    /// For how many seconds its work may go on without a renewal; negative when that is over.
    pub(crate) deadline: Option<f64>,
    /// How many rights there are, by [`RIGHTS`].
    pub(crate) rights: [usize; 3],
    /// How many seconds the last claim has waited for this agent.
    pub(crate) last_yield: Option<f64>,
}

/// How a session may stand.
pub(crate) const SESSIONS: [&str; 4] = ["live", "broken", "lost", "none"];

/// What may become of a right.
pub(crate) const RIGHTS: [&str; 3] = ["held", "claimed", "asked"];
