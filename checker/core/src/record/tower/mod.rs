//! The tower protocol: named locks with heartbeats, as the tower-fleet document has them (docs/protocols/tower.md).
//!
//! The record is plain data: twelve fields, which [`Record::parse`] checks, and the fields that other writers have
//! added. The [last heartbeat](Record::last_heartbeat_at) alone decides whether the lock is stale (`judge`). The PID is
//! for people.

mod judge;
mod name;
mod parse;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::facts::{Depth, Facts};
use super::{
    CommonFields, LockRecord, Moment, Names, OperatorRules, Properties, RecordKind, Rewrite,
    Verdict, WantedFacts, json::pretty,
};
pub use super::{json::Rejected, time::StartedAt};
pub use judge::{fresh_for, judge, silence};
pub use name::LockName;

pub(super) const PROPERTIES: Properties = Properties {
    // Only the lock's user may read it.
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

/// Value of `lock_version` in every record (section 3.2 in docs/protocols/tower.md).
pub const VERSION: &str = "v1";

/// Default directory of the locks (section 2.3 in docs/protocols/tower.md).
pub const DEFAULT_DIR: &str = "/root/tower-fleet/logs/locks";

/// Default TTL in seconds: a lock is stale after this time without a heartbeat (section 3.3 in
/// docs/protocols/tower.md).
pub const DEFAULT_TTL: u64 = 900;

/// Length of the longest request id, in characters.
const REQUEST_ID_LIMIT: usize = 128;

/// Content of a lock file as it was read: plain data, without I/O (section 3.2 in docs/protocols/tower.md).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "lock_version", rename = "v1")]
pub struct Record {
    /// Name of the lock. The lock file has this name and `.lock`.
    pub lock_name: LockName,
    /// Id of this one execution: 1 to 128 characters of `[A-Za-z0-9._-]`.
    pub request_id: String,
    /// Name of the holder. Untrusted when it was read from a file.
    pub actor: String,
    /// Name of the intent that is executed; untrusted.
    pub intent: String,
    /// Version of the intent; untrusted.
    pub intent_version: String,
    /// Host of the execution; untrusted.
    pub host_id: String,
    /// PID of the execution. For people: never probed and never signalled.
    pub pid: i64,
    /// Time when the lock was acquired.
    pub created_at: StartedAt,
    /// Time of the last heartbeat.
    pub last_heartbeat_at: StartedAt,
    /// TTL in seconds, above 0: the lock is stale after this time without a heartbeat.
    pub ttl_seconds: u64,
    /// Further facts that the holder adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Fields that the document does not know. A heartbeat keeps them.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

impl Record {
    /// Returns the content of the lock file that beadlock writes: the fields in the document's order, with times in
    /// whole seconds (section 3.1 in docs/protocols/tower.md).
    pub fn to_json(&self) -> String {
        pretty(&Self {
            created_at: self.created_at.in_whole_seconds(),
            last_heartbeat_at: self.last_heartbeat_at.in_whole_seconds(),
            ..self.clone()
        })
    }
}

/// Key that beadlock adds.
const OURS: &str = "beadlock";

impl Record {
    /// Adds the address of the work that the lock is held for, as `beadlock.about` beside the document's fields.
    #[must_use]
    pub fn about(mut self, address: &str) -> Self {
        self.others
            .insert(OURS.to_owned(), json!({ "about": address }));
        self
    }
}

impl LockRecord for Record {
    fn common(&self) -> CommonFields<'_> {
        CommonFields {
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

    fn judged(&self, facts: &Facts, _rules: &OperatorRules) -> Verdict {
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
        Names::called(
            RecordKind::Tower,
            &[self.as_str().as_bytes(), SUFFIX].concat(),
        )
    }
}

/// Answer to a claim on a lock that is not stale: the document's `lock_blocked` (section 4.4 in
/// docs/protocols/tower.md).
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

/// Answer to a claim without `--force-lock` on a stale lock, without a heartbeat for `age`: the document's
/// `lock_stale` (section 6.3 in docs/protocols/tower.md).
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

/// Makes the edit that writes a heartbeat at `now` into the record in `bytes`. `None`: the record has no
/// `last_heartbeat_at`.
pub fn rewrite(bytes: &[u8], now: Moment) -> Option<Rewrite> {
    Rewrite::of(
        bytes,
        "last_heartbeat_at",
        now.wall.in_whole_seconds().to_string(),
    )
}

/// True if `id` may be a request id: 1 to 128 characters of `[A-Za-z0-9._-]`.
pub fn request_id_is_fit(id: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=REQUEST_ID_LIMIT).contains(&id.len()) && id.bytes().all(is_fit)
}

#[cfg(test)]
mod tests;
