//! The memory dialect: one lock for a directory, `DIR/.lock`, judged by its process and by its age, as the clawdbot
//! document has it.
//!
//! Every field may be missing or odd: a value that cannot be understood proves nothing. By the document a file that
//! is not a JSON object is not a lock; no other dialect has that rule. [`evidence`] says what makes a lock stale, in
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
    Common, Dialect, LockRecord, Names, Properties, beads, facts::Depth, facts::Facts, json::pretty,
};
use super::{Moment, RefreshSign, Rewrite, Rules, Verdict, WantedFacts};
pub use super::{beads::Mark, json::Rejected, time::StartedAt};
pub use judge::{evidence, fresh_for, is_old, judge, watchdog};

use beadlock_base::escape::escaped;

pub(super) const NAMES: Names = Names::fixed(Dialect::Memory, c".lock", c".lock.aside");

pub(super) const PROPERTIES: Properties = Properties {
    file_mode: 0o644,
    parse: |bytes, _| Record::parse(bytes).map(super::Record::Memory),
    rewrite,
    is_judged_by_time: true,
    may_be_reaped: false,
    stale_goes_by_itself: true,
    // Not a lock by the document, and all the same in the way of one.
    of_malformed: Some(|| Record::of_nobody().into()),
};

/// What the session and the operation are called where a record does not say it.
pub const UNKNOWN: &str = "unknown";

/// How often beadlock refreshes a lock that it holds.
pub const REFRESH: Duration = Duration::from_secs(3);

/// For how long a lock that is too old must have stayed unrefreshed before its age counts. That is for a process that
/// may live on this host: an interval, and half a second for a refresh that comes late.
pub const UNREFRESHED: Duration = Duration::from_millis(3500);

/// How old a lock may become before it is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of any host.
    pub age: Duration,
    /// Of another host.
    pub remote_age: Duration,
}

impl Limits {
    /// The document's: 30 s, and 10 s across hosts.
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

/// What makes the record in `bytes` say that it was acquired at `now`, by both clocks where it has both; `None` when it
/// says no time.
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

/// What is said when a wait of `limit` for a lock of this record ran out.
pub fn timed_out(record: &Record, limit: Duration) -> String {
    let (session, operation) = (escaped(record.session()), escaped(record.operation()));
    let limit = limit.as_secs_f64();
    format!(
        "Could not acquire lock within {limit:?}s. Held by session '{session}' for operation '{operation}'"
    )
}

/// The lock file's content, as read: plain data, no I/O. Serialized it has every field as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The holder's process; above 0.
    pub pid: Option<i64>,
    /// Which session holds the lock; untrusted.
    pub session_id: Option<String>,
    /// When the lock was acquired, or last refreshed.
    pub acquired_at: Option<StartedAt>,
    /// The host that the process runs on; untrusted.
    pub hostname: Option<String>,
    /// What the lock is held for; untrusted.
    pub operation: Option<String>,
    /// What beadlock adds and other readers ignore.
    pub beadlock: Option<Mark>,
    /// All of it, as read.
    fields: Map<String, Value>,
}

impl Record {
    /// A record without any field.
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

    /// The record of a claim that the process `pid` of the host `hostname` has made at `now`: the fields in the
    /// document's order, the time in milliseconds. What is not known is left out.
    pub fn of_claim(
        (pid, mark): (u32, Mark),
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
            // As a reader sees it.
            value.inspect(|value| record.set(key, &value.to_string()));
        }
        record
    }

    /// The session that holds it, or `unknown`.
    pub fn session(&self) -> &str {
        self.session_id.as_deref().unwrap_or(UNKNOWN)
    }

    /// What it is held for, or `unknown`.
    pub fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or(UNKNOWN)
    }

    /// Has the fields that tell a lock of this kind from another JSON file called `.lock`.
    pub fn is_typical(&self) -> bool {
        self.pid.is_some()
            && (self.session_id.is_some() || self.acquired_at.is_some() || self.operation.is_some())
    }

    /// The lock file that beadlock writes: every field, indented by two spaces, a newline at the end.
    pub fn to_json(&self) -> String {
        pretty(&self.fields)
    }

    /// Its process as the beads dialect knows one, to be asked by the same rules; `None`: it names none, or not its
    /// host.
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
    fn common(&self) -> Common<'_> {
        Common {
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

    fn judged(&self, facts: &Facts, rules: &Rules) -> Verdict {
        match judge(self, facts, &rules.limits) {
            Verdict::Stale(reason) if rules.keep_stale => Verdict::Held(reason),
            verdict => verdict,
        }
    }

    /// How the age is judged depends on whether the process may live. The members of its namespace are not asked for:
    /// the lock is too old by the time that they are gone.
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
