//! The memory protocol: one lock for a directory, `DIR/.lock`, judged by its process and by its age, as the clawdbot
//! document has it (docs/protocols/memory.md).
//!
//! Every field may be missing or odd, and a value that cannot be understood proves nothing. By the document, a file
//! that is not a JSON object is not a lock; no other protocol has that rule. [`evidence`] tells why a lock is stale, in
//! the document's words.

mod judge;
mod parse;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, time::Duration};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::json::{number, string};
use super::{
    CommonFields, LockRecord, Names, Properties, RecordKind, beads, facts::Depth, facts::Facts,
    json::pretty,
};
use super::{Moment, OperatorRules, RefreshSign, Rewrite, Verdict, WantedFacts};
pub use super::{beads::BeadlockKey, json::Rejected, time::StartedAt};
pub use judge::{evidence, fresh_for, is_old, judge, watchdog};

use beadlock_base::escape::escaped;

pub(super) const NAMES: Names = Names::fixed(RecordKind::Memory, c".lock", c".lock.aside");

pub(super) const PROPERTIES: Properties = Properties {
    file_mode: 0o644,
    parse: |bytes, _| Record::parse(bytes).map(super::Record::Memory),
    rewrite,
    is_judged_by_time: true,
    may_be_reaped: false,
    stale_goes_by_itself: true,
    // By the document such a file is not a lock, but it takes the lock's path.
    of_malformed: Some(|| Record::of_nobody().into()),
};

/// Name of a session or an operation that a record does not tell.
pub const UNKNOWN: &str = "unknown";

/// Interval in which beadlock refreshes a lock that it holds.
pub const REFRESH: Duration = Duration::from_secs(3);

/// Time without a refresh after which the age of a lock counts, if its process may live on this host: one interval, and
/// half a second for a refresh that comes late.
pub const UNREFRESHED: Duration = Duration::from_millis(3500);

/// Ages above which a lock is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit for a lock of any host.
    pub age: Duration,
    /// Limit for a lock of another host.
    pub remote_age: Duration,
}

impl Limits {
    /// Limits of the document: 30 s, and 10 s for another host (sections 3 and 5 in docs/protocols/memory.md).
    pub const DEFAULT: Self = Self {
        age: Duration::from_secs(30),
        remote_age: Duration::from_secs(10),
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Makes the edit that writes a refresh at `now` into the record in `bytes`, by both clocks if the record has both.
/// `None`: the record has no `acquired_at`.
pub fn rewrite(bytes: &[u8], now: Moment) -> Option<Rewrite> {
    let text = std::str::from_utf8(bytes).ok()?;
    let time = string(text, "acquired_at", now.wall.to_millis())?;
    let since_boot = now.boottime.as_nanos().to_string();
    let since_boot = number(text, "beadlock", "boottime_ns", since_boot);
    Rewrite::of_edits(
        text,
        [Some(time), since_boot].into_iter().flatten().collect(),
    )
}

/// Message for a wait that ended after `limit`, for a lock with this record, in the words of the document's Python.
pub fn timed_out(record: &Record, limit: Duration) -> String {
    let (session, operation) = (escaped(record.session()), escaped(record.operation()));
    let limit = limit.as_secs_f64();
    format!(
        "Could not acquire lock within {limit:?}s. Held by session '{session}' for operation '{operation}'"
    )
}

/// Content of a lock file as it was read: plain data, without I/O (section 1 in docs/protocols/memory.md).
/// Serialization gives every field as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// PID of the holder; above 0.
    pub pid: Option<i64>,
    /// Session that holds the lock; untrusted.
    pub session_id: Option<String>,
    /// Time when the lock was acquired, or last refreshed.
    pub acquired_at: Option<StartedAt>,
    /// Host of the process; untrusted.
    pub hostname: Option<String>,
    /// Operation that the lock is held for; untrusted.
    pub operation: Option<String>,
    /// Key that beadlock adds and other readers ignore.
    pub beadlock: Option<BeadlockKey>,
    /// Every field, as it was read.
    fields: Map<String, Value>,
}

impl Record {
    /// Record without any field.
    pub(crate) fn of_nobody() -> Self {
        Self {
            pid: None,
            session_id: None,
            acquired_at: None,
            hostname: None,
            operation: None,
            beadlock: None,
            fields: Map::new(),
        }
    }

    /// Makes the record of a claim at `now` by the process `pid` of the host `hostname`: the fields in the document's
    /// order, with the time in milliseconds. Unknown fields are left out.
    pub fn of_claim(
        (pid, mark): (u32, BeadlockKey),
        (session, operation): (&str, &str),
        now: StartedAt,
        hostname: Option<String>,
    ) -> Self {
        let mut record = Self::of_nobody();
        let fields = [
            ("pid", Some(json!(pid))),
            ("session_id", Some(json!(session))),
            ("acquired_at", Some(json!(now.to_millis()))),
            ("hostname", hostname.map(Value::from)),
            ("operation", Some(json!(operation))),
            ("beadlock", Some(json!(mark))),
        ];
        for (key, value) in fields {
            // Each field is set through the reader, so that the record is what a reader sees.
            value.inspect(|value| record.set(key, &value.to_string()));
        }
        record
    }

    /// Session that holds the lock, or `unknown`.
    pub fn session(&self) -> &str {
        self.session_id.as_deref().unwrap_or(UNKNOWN)
    }

    /// Operation that the lock is held for, or `unknown`.
    pub fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or(UNKNOWN)
    }

    /// True if the record has fields that tell a lock of this kind from another JSON file called `.lock`.
    pub fn is_typical(&self) -> bool {
        self.pid.is_some()
            && (self.session_id.is_some() || self.acquired_at.is_some() || self.operation.is_some())
    }

    /// Returns the content of the lock file that beadlock writes: every field, indented by two spaces, with a newline
    /// at the end.
    pub fn to_json(&self) -> String {
        pretty(&self.fields)
    }

    /// Process of the lock in the form of a beads record, so that the beads rules apply to it. `None`: the record names
    /// no process, or not its host.
    pub fn process(&self) -> Option<beads::Record> {
        Some(beads::Record {
            holder: String::new(),
            pid: self.pid?,
            hostname: self.hostname.clone()?,
            started_at: self.acquired_at.unwrap_or(StartedAt::NEVER),
            version: String::new(),
            beadlock: self.beadlock.clone(),
        })
    }
}

impl LockRecord for Record {
    fn common(&self) -> CommonFields<'_> {
        CommonFields {
            holder: self.session(),
            pid: self.pid.unwrap_or_default(),
            hostname: self.hostname.as_deref().unwrap_or_default(),
            started_at: self.acquired_at,
            id: self.beadlock.as_ref().map(|mark| mark.id.as_str()),
            mark: self.beadlock.as_ref(),
        }
    }

    fn json(&self) -> String {
        self.to_json()
    }

    fn judged(&self, facts: &Facts, rules: &OperatorRules) -> Verdict {
        match judge(self, facts, &rules.limits) {
            Verdict::Stale(reason) if rules.keep_stale => Verdict::Held(reason),
            verdict => verdict,
        }
    }

    /// The process is always asked for, because the age of a lock counts at once only if its process cannot live. The
    /// members of a PID namespace are not asked for: the lock is too old by the time that they are gone.
    fn wanted_facts(&self, _depth: Depth) -> WantedFacts<'_> {
        let wanted = |process| WantedFacts::ProcessTree(Cow::Owned(process), Depth::Witnesses);
        self.process().map_or(WantedFacts::TimeAndHost, wanted)
    }

    fn has_been_refreshed(&mut self, now: Moment) {
        let time = now.wall.to_millis();
        self.acquired_at = StartedAt::parse(&time);
        self.fields.insert("acquired_at".to_owned(), time.into());
        let since_boot = u64::try_from(now.boottime.as_nanos()).ok();
        let mark = self
            .beadlock
            .as_mut()
            .filter(|mark| mark.boottime_ns.is_some());
        let field = self
            .fields
            .get_mut("beadlock")
            .and_then(Value::as_object_mut);
        if let (Some(mark), Some(field)) = (mark, field) {
            mark.boottime_ns = since_boot;
            field.insert("boottime_ns".to_owned(), since_boot.into());
        }
    }

    fn refresh_sign(&self) -> Option<RefreshSign> {
        Some((self.pid, self.acquired_at))
    }

    fn removed_words(&self, facts: &Facts, limits: &Limits) -> String {
        evidence(self, facts, limits)
            .map(|(_, words)| words)
            .unwrap_or_default()
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}
