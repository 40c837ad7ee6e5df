//! Dialects: the rules for one kind of target each, siblings that do no I/O (docs/design.md#pure-rules).

pub mod beads;
pub mod facts;
pub mod file;
mod json;
pub mod lock;
pub mod memory;
mod rejected;
mod rewrite;
mod time;
pub mod tower;

use serde::Serialize;

use self::facts::Facts;
use crate::verdict::Verdict;
pub use file::Mode as LockMode;
pub use rejected::Rejected;
pub use rewrite::Rewrite;
pub use time::StartedAt;

/// Which rules a lock is read, judged and written by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// `.exclusive-lock`, and a lock file of that kind at any path (`lock:`): judged by the recorded process.
    Beads,
    /// A named lock with heartbeats, `tower:NAME`: judged by the age of the last one.
    Tower,
    /// The one lock of a directory, `memory:DIR`: judged by its process and by its age.
    Memory,
}

impl Dialect {
    /// What makes the lock file of these bytes say that its holder lives `now`; `None` where no dialect's rule asks
    /// for that, or where it says no time.
    pub fn rewrite(self, bytes: &[u8], now: StartedAt) -> Option<Rewrite> {
        match self {
            Self::Beads => None,
            Self::Tower => tower::rewrite(bytes, now),
            Self::Memory => memory::rewrite(bytes, now),
        }
    }

    /// A lock of it is true only for as long as somebody keeps it up.
    pub fn is_judged_by_time(self) -> bool {
        matches!(self, Self::Tower | Self::Memory)
    }
}

/// What an operator may change of the rules by which a lock is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Let the four proofs of docs/design.md#proof-of-death count as death, beside ESRCH.
    pub reap_proven_dead: bool,
    /// Let a stale lock stand that is judged by its age.
    pub keep_stale: bool,
    /// How old a lock that is judged by its age may become.
    pub limits: memory::Limits,
}

/// The lock file's content, as read, of whatever dialect. Serialized it has the fields as read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// Of a beads database, or of `lock:PATH`.
    #[doc(hidden)]
    Beads(beads::Record),
    /// Of a named lock.
    #[doc(hidden)]
    Tower(tower::Record),
    /// Of a directory with a lock that is judged by its age.
    #[doc(hidden)]
    Memory(memory::Record),
}

impl Record {
    /// Whose rules it goes by.
    #[doc(hidden)]
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Beads(_) => Dialect::Beads,
            Self::Tower(_) => Dialect::Tower,
            Self::Memory(_) => Dialect::Memory,
        }
    }

    /// Who holds the lock: `holder`, `actor` or `session_id`. Untrusted.
    pub fn holder(&self) -> &str {
        match self {
            Self::Beads(record) => &record.holder,
            Self::Tower(record) => &record.actor,
            Self::Memory(record) => record.session(),
        }
    }

    /// The recorded process; 0 where there is none. Of a named lock it is told to people, and never asked or signalled.
    pub fn pid(&self) -> i64 {
        match self {
            Self::Beads(record) => record.pid,
            Self::Tower(record) => record.pid,
            Self::Memory(record) => record.pid.unwrap_or_default(),
        }
    }

    /// The host that the process runs on: `hostname`, or `host_id`; empty where there is none. Untrusted.
    pub fn hostname(&self) -> &str {
        match self {
            Self::Beads(record) => &record.hostname,
            Self::Tower(record) => &record.host_id,
            Self::Memory(record) => record.hostname.as_deref().unwrap_or_default(),
        }
    }

    /// When the lock was acquired: `started_at`, `created_at`, or `acquired_at`, which every refresh changes. `None`:
    /// it does not say.
    pub fn started_at(&self) -> Option<StartedAt> {
        match self {
            Self::Beads(record) => Some(record.started_at),
            Self::Tower(record) => Some(record.created_at),
            Self::Memory(record) => record.acquired_at,
        }
    }

    /// What names this one claim: `beadlock.id`, or `request_id`. `None`: it has no name of its own.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Beads(record) => record.beadlock.as_ref().map(|mark| mark.id.as_str()),
            Self::Tower(record) => Some(&record.request_id),
            Self::Memory(record) => record.beadlock.as_ref().map(|mark| mark.id.as_str()),
        }
    }

    /// What beadlock adds to a record that has a place for it.
    #[doc(hidden)]
    pub fn mark(&self) -> Option<&beads::Mark> {
        match self {
            Self::Beads(record) => record.beadlock.as_ref(),
            Self::Memory(record) => record.beadlock.as_ref(),
            Self::Tower(_) => None,
        }
    }

    /// The record of a beads database or of `lock:PATH`.
    #[doc(hidden)]
    pub fn as_beads(&self) -> Option<&beads::Record> {
        match self {
            Self::Beads(record) => Some(record),
            Self::Tower(_) | Self::Memory(_) => None,
        }
    }

    /// The record of a named lock.
    #[doc(hidden)]
    pub fn as_tower(&self) -> Option<&tower::Record> {
        match self {
            Self::Tower(record) => Some(record),
            Self::Beads(_) | Self::Memory(_) => None,
        }
    }

    /// The record of a lock that is judged by its age.
    #[doc(hidden)]
    pub fn as_memory(&self) -> Option<&memory::Record> {
        match self {
            Self::Memory(record) => Some(record),
            Self::Beads(_) | Self::Tower(_) => None,
        }
    }

    /// The lock file that beadlock writes.
    pub fn to_json(&self) -> String {
        match self {
            Self::Beads(record) => record.to_json(),
            Self::Tower(record) => record.to_json(),
            Self::Memory(record) => record.to_json(),
        }
    }

    /// What it amounts to. Each dialect heeds its own of the rules.
    #[doc(hidden)]
    pub fn judge(&self, facts: &Facts, rules: &Rules) -> Verdict {
        match self {
            Self::Beads(record) => beads::judge(record, facts, rules.reap_proven_dead),
            Self::Tower(record) => tower::judge(record, facts.now),
            Self::Memory(record) => match memory::judge(record, facts, &rules.limits) {
                Verdict::Stale(reason) if rules.keep_stale => Verdict::Held(reason),
                verdict => verdict,
            },
        }
    }
}

#[doc(hidden)]
impl From<beads::Record> for Record {
    fn from(record: beads::Record) -> Self {
        Self::Beads(record)
    }
}

#[doc(hidden)]
impl From<&beads::Record> for Record {
    fn from(record: &beads::Record) -> Self {
        Self::Beads(record.clone())
    }
}

#[doc(hidden)]
impl From<tower::Record> for Record {
    fn from(record: tower::Record) -> Self {
        Self::Tower(record)
    }
}

#[doc(hidden)]
impl From<&tower::Record> for Record {
    fn from(record: &tower::Record) -> Self {
        Self::Tower(record.clone())
    }
}

#[doc(hidden)]
impl From<memory::Record> for Record {
    fn from(record: memory::Record) -> Self {
        Self::Memory(record)
    }
}
