//! The tower dialect: named locks with heartbeats, as the tower-fleet document has them.
//!
//! The record is plain data: twelve fields, checked when they are read ([`Record::parse`]), and whatever else another
//! writer has put beside them. Its [last heartbeat](Record::last_heartbeat_at) alone decides whether it is stale
//! (`judge`); a PID in it is for people.

mod judge;
mod name;
mod parse;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::facts::{Depth, Facts};
use super::{
    Common, Dialect, LockRecord, Moment, Names, Properties, Rewrite, Rules, Verdict, WantedFacts,
    json::pretty,
};
pub use super::{json::Rejected, time::StartedAt};
pub use judge::{fresh_for, judge, silence};
pub use name::LockName;

pub(super) const PROPERTIES: Properties = Properties {
    // A named lock is its user's alone.
    file_mode: 0o600,
    parse: |bytes, file| {
        let name = file.to_bytes().strip_suffix(SUFFIX).unwrap_or_default();
        Record::parse(bytes, str::from_utf8(name).unwrap_or_default()).map(super::Record::Tower)
    },
    rewrite,
    is_judged_by_time: true,
    may_be_reaped: false,
    stale_goes_by_itself: false,
    of_malformed: None,
};

const SUFFIX: &[u8] = b".lock";

/// The `lock_version` of every record.
pub const VERSION: &str = "v1";

/// The directory that locks lie in, where nothing else is said.
pub const DEFAULT_DIR: &str = "/root/tower-fleet/logs/locks";

/// Seconds between heartbeats before a lock is stale, where nothing else is said.
pub const DEFAULT_TTL: u64 = 900;

const REQUEST_ID_LIMIT: usize = 128;

/// The lock file's content, as read: plain data, no I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "lock_version", rename = "v1")]
pub struct Record {
    /// The lock's name; the file's is this and `.lock`.
    pub lock_name: LockName,
    /// Names this one execution: 1 to 128 of `[A-Za-z0-9._-]`.
    pub request_id: String,
    /// The name of the holder; untrusted when it comes out of a file.
    pub actor: String,
    /// The intent that is executed; untrusted.
    pub intent: String,
    /// Which version of it; untrusted.
    pub intent_version: String,
    /// The executing host; untrusted.
    pub host_id: String,
    /// The executing process. For people: never asked, never signalled.
    pub pid: i64,
    /// When the lock was acquired.
    pub created_at: StartedAt,
    /// When its holder last said that it lives.
    pub last_heartbeat_at: StartedAt,
    /// For how many seconds it may say nothing; above 0.
    pub ttl_seconds: u64,
    /// Whatever else the holder has to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// What the document does not know; kept by a heartbeat.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Record {
    /// The lock file that beadlock writes: the fields in the document's order, times in whole seconds.
    pub fn to_json(&self) -> String {
        pretty(&Self {
            created_at: self.created_at.in_whole_seconds(),
            last_heartbeat_at: self.last_heartbeat_at.in_whole_seconds(),
            ..self.clone()
        })
    }
}

/// The key of what beadlock adds.
const OURS: &str = "beadlock";

impl Record {
    /// With the address of what the lock is held for: `beadlock.about`, beside the document's fields.
    #[must_use]
    pub fn about(mut self, address: &str) -> Self {
        self.others
            .insert(OURS.to_owned(), json!({ "about": address }));
        self
    }
}

impl LockRecord for Record {
    fn common(&self) -> Common<'_> {
        Common {
            holder: &self.actor,
            pid: self.pid,
            hostname: &self.host_id,
            started_at: Some(self.created_at),
            id: Some(&self.request_id),
            mark: None,
        }
    }

    fn json(&self) -> String {
        self.to_json()
    }

    fn judged(&self, facts: &Facts, _rules: &Rules) -> Verdict {
        judge(self, facts.now)
    }

    fn wanted_facts(&self, depth: Depth) -> WantedFacts<'_> {
        if depth == Depth::Protocol {
            WantedFacts::Time
        } else {
            WantedFacts::TimeAndHost
        }
    }

    fn has_been_refreshed(&mut self, now: Moment) {
        self.last_heartbeat_at = now.wall.in_whole_seconds();
    }

    fn silence(&self, now: StartedAt) -> Duration {
        silence(self, now)
    }

    fn about(&self) -> Option<&str> {
        self.others.get(OURS)?.get("about")?.as_str()
    }
}

impl LockName {
    pub(crate) fn names(&self) -> Names {
        Names::called(Dialect::Tower, &[self.as_str().as_bytes(), SUFFIX].concat())
    }
}

/// Answers a claim on a lock that is not stale.
pub fn answer_blocked(record: &Record) -> Value {
    let Record {
        lock_name,
        request_id,
        actor,
        intent,
        created_at,
        last_heartbeat_at,
        ..
    } = record;
    json!({
        "error": "lock_blocked",
        "lock_name": lock_name,
        "held_by": {
            "request_id": request_id, "actor": actor, "intent": intent,
            "created_at": created_at, "last_heartbeat_at": last_heartbeat_at,
        },
        "suggestion": "Wait for completion or use --force-lock if stale",
    })
}

/// Answers a claim without `--force-lock` on a lock that has been without a heartbeat for `age`.
pub fn answer_stale(record: &Record, age: Duration) -> Value {
    let Record {
        lock_name,
        request_id,
        actor,
        host_id,
        pid,
        last_heartbeat_at,
        ttl_seconds,
        ..
    } = record;
    json!({
        "error": "lock_stale",
        "lock_name": lock_name,
        "stale_since": last_heartbeat_at,
        "age_seconds": age.as_secs(),
        "ttl_seconds": ttl_seconds,
        "held_by": { "request_id": request_id, "actor": actor, "host_id": host_id, "pid": pid },
        "suggestion": "Use --force-lock to acquire (stale lock will be logged)",
    })
}

/// What makes the record in `bytes` say that its last heartbeat was `now`; `None` when it says none.
pub fn rewrite(bytes: &[u8], now: Moment) -> Option<Rewrite> {
    Rewrite::of(
        bytes,
        "last_heartbeat_at",
        now.wall.in_whole_seconds().to_string(),
    )
}

/// Whether a text is a request id: 1 to 128 characters of `[A-Za-z0-9._-]`.
pub fn request_id_is_fit(id: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=REQUEST_ID_LIMIT).contains(&id.len()) && id.bytes().all(is_fit)
}

#[cfg(test)]
mod tests;
