//! How a database is served, and what its cycles do.

use std::ffi::OsString;
use std::time::Duration;

use beadlock_checker::Options;

/// How a database is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The time between two cycles.
    pub(crate) interval: Duration,
    /// How long nothing more must change before a change starts a cycle.
    pub(crate) debounce: Duration,
    pub(crate) action: Action,
    /// How long the work of a cycle may take.
    pub(crate) cycle_timeout: Duration,
    /// For how long it may be skipped before that is worth a warning.
    pub(crate) skip_warn: Duration,
    /// Whether locks whose holder is proved dead in other ways than by its PID are removed.
    pub(crate) reap_proven_dead: bool,
    /// Whether a linked worktree of git is synced.
    pub(crate) allow_worktree: bool,
}

impl Policy {
    /// How the check before a cycle is made.
    pub(crate) fn check(&self) -> Options {
        Options { reap_proven_dead: self.reap_proven_dead, ..Options::default() }
    }
}

/// What a cycle does when it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sync through git.
    Git,
    /// Check, log, let go.
    None,
    /// A command for `sh -c`.
    Exec(OsString),
}

impl Action {
    /// Its word for who looks for a fault.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::None => "none",
            Self::Exec(_) => "exec",
        }
    }

    /// A command; `None` when it is empty.
    pub(crate) fn exec(command: OsString) -> Option<Self> {
        (!command.is_empty()).then_some(Self::Exec(command))
    }
}
