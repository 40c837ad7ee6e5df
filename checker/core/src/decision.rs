//! Decisions of a daemon about a lock file (docs/design.md#the-beads-rule). The `Display` of a [`Decision`] is the log
//! line, to the letter.

mod not_checked;
mod words;

use std::time::Duration;

use crate::{
    record::Record,
    verdict::{Reason, Verdict},
};
use beadlock_base::escape::escaped;

pub use not_checked::{FailedCall, FleetDoubt, LoggedDoubt, NotChanged, NotChecked};

/// Decision of a daemon about a database at this moment. `Display` is the exact log line, empty where there is none.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a cycle that runs on Skip breaks somebody's claim"]
pub enum Decision {
    /// Run the cycle.
    Proceed(Proceed),
    /// Leave the database alone this time.
    Skip(Skip),
}

/// Why a cycle may run.
#[derive(Debug, Clone, PartialEq)]
pub enum Proceed {
    /// Nobody claims the database.
    NoLock,
    /// A stale lock was removed first.
    RemovedStale(Removed),
    /// A stale lock would have been removed, had this not been a dry run.
    WouldRemoveStale(Box<Record>, Reason),
}

/// A stale lock that was removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Removed {
    /// The record of the lock.
    pub record: Box<Record>,
    /// Why the lock counted as stale.
    pub reason: Reason,
    /// The reason in the words of the lock's document, untrusted, for a lock that is judged by its age; else empty.
    pub why: String,
    /// How it was made sure that nobody was just taking it over.
    pub watched: Watched,
    /// The file that was deleted, byte for byte.
    pub bytes: Vec<u8>,
}

/// How a lock is watched between its judgement and its deletion (docs/design.md#lease, docs/design.md#without-leases).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// By a lease: an open for writing is noticed.
    ByLease,
    /// By comparing it before and after, without a lease: two writers into one stale file at once can lose a claim.
    ByComparison,
}

/// Why a cycle must not run.
#[derive(Debug, Clone, PartialEq)]
pub enum Skip {
    /// Somebody claims the database.
    Locked(Box<Record>, Reason),
    /// The lock is stale, and by its rule goes only when somebody says so ([`Options::force_lock`](crate::Options)).
    Stale {
        /// The record of the lock.
        record: Box<Record>,
        /// Why the lock counts as stale.
        reason: Reason,
        /// For how long there has been no heartbeat.
        age: Duration,
    },
    /// Somebody has the gate, or was seen changing the lock just now.
    InProgress,
    /// The lock could not be checked, or a stale one could not be removed.
    CheckFailed {
        /// `malformed`, `invalid`, `unreadable` or `removal_failed`; of a database that has joined a fleet also
        /// `fleet_use_cycle`, `fleet_unreachable`, `fleet_new` or `fleet_lost`.
        reason: Reason,
        /// The fact behind the reason. Its `Display` is what the log line says after `lock check failed: `.
        why: NotChecked,
        /// The stale record that could not be removed.
        record: Option<Box<Record>>,
    },
}

impl Decision {
    /// True when the database must be left alone.
    pub fn is_skip(&self) -> bool {
        matches!(self, Self::Skip(_))
    }

    /// The reason of the decision, from the closed list of words.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Proceed(Proceed::NoLock) => Reason::NoLock,
            Self::Proceed(
                Proceed::RemovedStale(Removed { reason, .. })
                | Proceed::WouldRemoveStale(_, reason),
            ) => *reason,
            Self::Skip(
                Skip::Locked(_, reason)
                | Skip::Stale { reason, .. }
                | Skip::CheckFailed { reason, .. },
            ) => *reason,
            Self::Skip(Skip::InProgress) => Reason::GateBusy,
        }
    }

    /// The record that the decision is about, where one could be read.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Self::Proceed(_) if self.reason() == Reason::Malformed => None,
            Self::Proceed(
                Proceed::RemovedStale(Removed { record, .. })
                | Proceed::WouldRemoveStale(record, _),
            ) => Some(record),
            Self::Skip(Skip::Locked(record, _) | Skip::Stale { record, .. }) => Some(record),
            Self::Skip(Skip::CheckFailed { record, .. }) => record.as_deref(),
            Self::Proceed(Proceed::NoLock) | Self::Skip(Skip::InProgress) => None,
        }
    }

    /// The verdict on the lock behind the decision; a busy gate counts as held.
    pub fn verdict(&self) -> Verdict {
        let reason = self.reason();
        match self {
            Self::Proceed(Proceed::NoLock) => Verdict::Free,
            // The file was not a lock.
            Self::Proceed(_) if reason == Reason::Malformed => Verdict::Free,
            Self::Proceed(_) | Self::Skip(Skip::Stale { .. }) => Verdict::Stale(reason),
            Self::Skip(Skip::Locked(..) | Skip::InProgress) => Verdict::Held(reason),
            Self::Skip(Skip::CheckFailed {
                reason: Reason::RemovalFailed,
                record: Some(_),
                ..
            }) => Verdict::Stale(reason),
            Self::Skip(Skip::CheckFailed { .. }) => Verdict::Unreadable(reason),
        }
    }

    /// The stale lock that this check removed.
    pub fn removed(&self) -> Option<&Removed> {
        match self {
            Self::Proceed(Proceed::RemovedStale(removed)) => Some(removed),
            _ => None,
        }
    }
}

impl Removed {
    /// The log line about this removal that the document of age-judged locks asks for; empty for every other lock, and
    /// for a file that was not a lock.
    pub fn breaking(&self) -> String {
        if self.why.is_empty() {
            return String::new();
        }
        format!("[LOCK] Breaking stale lock: {}", escaped(&self.why))
    }
}

impl From<Skip> for Decision {
    fn from(skip: Skip) -> Self {
        Self::Skip(skip)
    }
}
