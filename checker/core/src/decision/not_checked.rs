//! Why a lock could not be checked, as a value: what log lines, messages, audit entries and JSON say is made of it
//! (`decision/words.rs`), and nothing is decided by those words.

use std::sync::Arc;

use super::Skip;
use crate::{
    obstacle::Obstacle,
    record::{Record, Rejected},
    unread::{NoRecord, Unread},
    verdict::Reason,
};
use beadlock_base::error::Error;

/// Why a lock could not be checked, or a stale one not be removed. `Display` is what the log line says after
/// `lock check failed: `.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NotChecked {
    /// The lock file could not be read.
    Unread(Unread),
    /// The lock file was read, and is not a record.
    Rejected(Rejected),
    /// The lock file was not looked at: its directory could not be opened, or the gate not be asked for.
    NotReached(FailedCall),
    /// The lock file was not looked at: a file system on the way to it does not answer. In the words of the caller that
    /// has waited for it.
    Unanswered(String),
    /// The lock is stale, and could not be removed.
    NotRemoved(NotChanged),
    /// A lock that lies aside could not be dealt with.
    NotRecovered {
        /// The name of the side file, for people.
        aside: String,
        /// Why the lock could not be dealt with.
        why: NotChanged,
    },
    /// The database has joined a fleet, and this check has no right in it.
    FleetUseCycle,
    /// The fleet of the database stands in the way.
    Fleet {
        /// How the fleet keeps the cycle from running.
        doubt: FleetDoubt,
        /// The words of the fleet.
        words: String,
    },
}

/// Why a lock file was not changed.
#[derive(Debug, Clone, PartialEq)]
pub enum NotChanged {
    /// There can be no gate, and without it nothing is changed.
    NoGate,
    /// A call has failed.
    Failed(FailedCall),
}

/// How the fleet of a database keeps a cycle from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FleetDoubt {
    /// Somebody claims the database in the fleet, and the claim does not read as a lock.
    Held,
    /// The fleet was made a moment ago: work under an earlier fleet of its name may not have ended yet.
    New,
    /// The fleet does not answer, or does not know this database.
    Unreachable,
    /// The right in the fleet was lost.
    Lost,
}

/// A failed call, as a decision keeps it: decisions are cloned and compared, which an error of the system cannot be.
#[derive(Debug, Clone)]
pub struct FailedCall(Arc<Error>);

/// The part of a [`NotChecked`] that a reader of the log alone can tell from its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedDoubt {
    /// The lock is stale, and could not be removed.
    NotRemoved,
    /// The lock was not seen, and nothing is known to be wrong with it: it may be alive.
    MayBeAlive,
    /// Anything else.
    Other,
}

impl NotChecked {
    /// The reason, from the closed list of words.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unread(_) | Self::NotReached(_) | Self::Unanswered(_) => Reason::Unreadable,
            Self::Rejected(rejected) => rejected.reason(),
            Self::NotRemoved(_) | Self::NotRecovered { .. } => Reason::RemovalFailed,
            Self::FleetUseCycle => Reason::FleetUseCycle,
            Self::Fleet { doubt, .. } => match doubt {
                FleetDoubt::Held => Reason::FleetHeld,
                FleetDoubt::New => Reason::FleetNew,
                FleetDoubt::Unreachable => Reason::FleetUnreachable,
                FleetDoubt::Lost => Reason::FleetLost,
            },
        }
    }

    /// The passing condition by which the lock was not seen. `None`: it was seen, or something is wrong with it.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match self {
            Self::Unread(unread) => unread.obstacle(),
            Self::NotReached(call) => call.obstacle(),
            Self::Rejected(_)
            | Self::Unanswered(_)
            | Self::NotRemoved(_)
            | Self::NotRecovered { .. }
            | Self::FleetUseCycle
            | Self::Fleet { .. } => None,
        }
    }

    /// The doubt that [`NotChecked::parse`] reads from the words of this value.
    #[doc(hidden)]
    pub fn doubt(&self) -> LoggedDoubt {
        let obstacle = match self {
            Self::NotRemoved(_) => return LoggedDoubt::NotRemoved,
            Self::NotRecovered {
                why: NotChanged::Failed(call),
                ..
            } => call.obstacle(),
            other => other.obstacle(),
        };
        obstacle.map_or(LoggedDoubt::Other, |_| LoggedDoubt::MayBeAlive)
    }
}

impl FailedCall {
    fn obstacle(&self) -> Option<Obstacle> {
        self.0.raw_os_error().and_then(Obstacle::of_errno)
    }

    /// The error of the call: its step, its path and the system's error.
    pub fn error(&self) -> &Error {
        &self.0
    }
}

impl PartialEq for FailedCall {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}

impl From<Error> for FailedCall {
    fn from(error: Error) -> Self {
        Self(Arc::new(error))
    }
}

impl From<Error> for NotChanged {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Unread> for NotChecked {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<NoRecord> for NotChecked {
    fn from(no_record: NoRecord) -> Self {
        match no_record {
            NoRecord::Unread(unread) => Self::Unread(unread),
            NoRecord::Rejected(rejected) => Self::Rejected(rejected),
        }
    }
}

#[doc(hidden)]
impl From<NotChecked> for Skip {
    fn from(why: NotChecked) -> Self {
        Self::CheckFailed {
            reason: why.reason(),
            why,
            record: None,
        }
    }
}

impl Skip {
    /// A stale lock that could not be removed.
    pub(crate) fn not_removed(record: Box<Record>, why: impl Into<NotChanged>) -> Self {
        let why = NotChecked::NotRemoved(why.into());
        Self::CheckFailed {
            reason: why.reason(),
            why,
            record: Some(record),
        }
    }
}
