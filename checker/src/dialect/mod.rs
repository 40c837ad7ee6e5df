//! Dialects: the rules for one kind of target each, siblings that do no I/O (DESIGN 2 and 3).

pub mod beads;
pub mod file;
mod json;
pub mod lock;
mod rejected;
mod time;
pub mod tower;

use serde::Serialize;

use crate::facts::Facts;
use crate::verdict::Verdict;
pub use rejected::Rejected;
pub use time::StartedAt;

/// Which rules a lock is read, judged and written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `.exclusive-lock`, and a lock file of that kind at any path (`lock:`): judged by the recorded process.
    Beads,
    /// A named lock with heartbeats, `tower:NAME`: judged by the age of the last one.
    Tower,
}

/// The lock file's content, as read, of whatever dialect. Serialized it has the fields as read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// Of a beads database, or of `lock:PATH`.
    Beads(beads::Record),
    /// Of a named lock.
    Tower(tower::Record),
}

impl Record {
    /// Whose rules it goes by.
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Beads(_) => Dialect::Beads,
            Self::Tower(_) => Dialect::Tower,
        }
    }

    /// Who holds the lock: `holder`, or `actor`. Untrusted.
    pub fn holder(&self) -> &str {
        match self {
            Self::Beads(record) => &record.holder,
            Self::Tower(record) => &record.actor,
        }
    }

    /// The recorded process. Of a named lock it is told to people, and never asked or signalled.
    pub fn pid(&self) -> i64 {
        match self {
            Self::Beads(record) => record.pid,
            Self::Tower(record) => record.pid,
        }
    }

    /// The host that the process runs on: `hostname`, or `host_id`. Untrusted.
    pub fn hostname(&self) -> &str {
        match self {
            Self::Beads(record) => &record.hostname,
            Self::Tower(record) => &record.host_id,
        }
    }

    /// When the lock was acquired: `started_at`, or `created_at`.
    pub fn started_at(&self) -> StartedAt {
        match self {
            Self::Beads(record) => record.started_at,
            Self::Tower(record) => record.created_at,
        }
    }

    /// What names this one claim: `beadlock.id`, or `request_id`. `None`: it has no name of its own.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Beads(record) => record.beadlock.as_ref().map(|mark| mark.id.as_str()),
            Self::Tower(record) => Some(&record.request_id),
        }
    }

    /// What beadlock adds to a beads record.
    pub fn mark(&self) -> Option<&beads::Mark> {
        match self {
            Self::Beads(record) => record.beadlock.as_ref(),
            Self::Tower(_) => None,
        }
    }

    /// The record of a beads database or of `lock:PATH`.
    pub fn as_beads(&self) -> Option<&beads::Record> {
        match self {
            Self::Beads(record) => Some(record),
            Self::Tower(_) => None,
        }
    }

    /// The record of a named lock.
    pub fn as_tower(&self) -> Option<&tower::Record> {
        match self {
            Self::Tower(record) => Some(record),
            Self::Beads(_) => None,
        }
    }

    /// The lock file that beadlock writes.
    pub fn to_json(&self) -> String {
        match self {
            Self::Beads(record) => record.to_json(),
            Self::Tower(record) => record.to_json(),
        }
    }

    /// What it amounts to. `reap_proven_dead` means something for the dialects that are judged by a process.
    pub fn judge(&self, facts: &Facts, reap_proven_dead: bool) -> Verdict {
        match self {
            Self::Beads(record) => beads::judge(record, facts, reap_proven_dead),
            Self::Tower(record) => tower::judge(record, facts.now),
        }
    }
}

impl From<beads::Record> for Record {
    fn from(record: beads::Record) -> Self {
        Self::Beads(record)
    }
}

impl From<&beads::Record> for Record {
    fn from(record: &beads::Record) -> Self {
        Self::Beads(record.clone())
    }
}

impl From<tower::Record> for Record {
    fn from(record: tower::Record) -> Self {
        Self::Tower(record)
    }
}

impl From<&tower::Record> for Record {
    fn from(record: &tower::Record) -> Self {
        Self::Tower(record.clone())
    }
}
