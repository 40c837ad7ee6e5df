//! One line of the audit trail: its fields in their order, from whatever happened.

use std::{fmt::Display, path::Path, time::Duration};

use serde::Serialize;
use serde_json::value::RawValue;

use super::Author;
use crate::{
    decision::Removed, decision::Skip, decision::Watched, facts, record::StartedAt, verdict::Reason,
};

const LONGEST: usize = 128 * 1024;

beadlock_base::words! {
    /// Kinds of event in the life of a lock: a closed list.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    #[non_exhaustive]
    pub enum Event {
        /// A claim has made the lock.
        LockAcquired = "lock_acquired",
        /// The holder of the lock has ended the claim.
        LockReleased = "lock_released",
        /// The claim was given a new end (`beadlock renew`).
        LockRenewed = "lock_renewed",
        /// The lock kept somebody from claiming, or a cycle from running.
        LockBlocked = "lock_blocked",
        /// The holder of the lock was proved dead, and the lock was removed.
        LockStaleRemoved = "lock_stale_removed",
        /// Somebody removed the lock by hand (`beadlock break`).
        LockBroken = "lock_broken",
        /// The lock vanished, changed or could not be kept up while it was held.
        LockLost = "lock_lost",
        /// A lock was claimed, or a cycle was run, without the fleet that its database has joined (`--no-fleet`).
        FleetWaived = "fleet_waived",
    }
}

/// How the work that a lock was held for has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkOutcome {
    /// The command ended with 0, or the holder of the lock said so.
    Success,
    /// Anything else.
    Failure,
}

/// One line to be: an event of this moment, its fields in the order of the document. What is not set is null.
#[derive(Debug, Clone, Serialize)]
#[must_use = "an event that is not written has not been audited"]
pub struct AuditEntry {
    event: Event,
    request_id: String,
    timestamp: StartedAt,
    lock_name: String,
    lock_path: String,
    by: Option<Author>,
    reason: Option<String>,
    detail: Option<String>,
    watched: Option<&'static str>,
    held_duration_seconds: Option<u64>,
    result: Option<WorkOutcome>,
    error: Option<String>,
    lock: Option<Box<RawValue>>,
    previous_lock: Option<Box<RawValue>>,
    truncated: bool,
}

impl AuditEntry {
    /// An event of now. `lock_name` is the target with its scheme (`beads:.beads`), `lock_path` the lock file.
    pub fn new(event: Event, request_id: &str, lock_name: &str, lock_path: &Path) -> Self {
        Self {
            event,
            request_id: request_id.to_owned(),
            timestamp: StartedAt::from_unix(facts::now().0.as_secs(), 0),
            lock_name: lock_name.to_owned(),
            lock_path: lock_path.to_string_lossy().into_owned(),
            by: None,
            reason: None,
            detail: None,
            watched: None,
            held_duration_seconds: None,
            result: None,
            error: None,
            lock: None,
            previous_lock: None,
            truncated: false,
        }
    }

    /// Sets the reason: why, in one word; [`Reason`] has the words of checks.
    pub fn reason(mut self, word: impl Display) -> Self {
        self.reason = Some(self.short(word));
        self
    }

    /// Sets the detail: why, in a sentence.
    pub fn detail(mut self, sentence: impl Display) -> Self {
        self.detail = Some(self.short(sentence));
        self
    }

    /// Sets for how long the lock was held, from the claim to its end.
    pub fn held_for(mut self, held: Duration) -> Self {
        self.held_duration_seconds = Some(held.as_secs());
        self
    }

    /// Sets how the work under the lock has ended.
    pub fn result(mut self, result: WorkOutcome) -> Self {
        self.result = Some(result);
        self
    }

    /// Sets the error: the failure, in a sentence.
    pub fn error(mut self, sentence: impl Display) -> Self {
        self.error = Some(self.short(sentence));
        self
    }

    /// Sets the record in the lock file, of any protocol.
    pub fn lock(mut self, record: &impl Serialize) -> Self {
        self.lock = self.raw(record);
        self
    }

    /// Sets the record that was removed or broken, of any protocol.
    pub fn previous_lock(mut self, record: &impl Serialize) -> Self {
        self.previous_lock = self.raw(record);
        self
    }

    /// Sets the facts of a stale lock that was removed: the reason, how it was watched, and its record.
    pub fn removed(mut self, removed: &Removed) -> Self {
        self.watched = Some(match removed.watched {
            Watched::ByLease => "lease",
            Watched::ByComparison => "comparison",
        });
        self.reason(removed.reason).previous_lock(&removed.record)
    }

    /// Sets the reason of a skip, and the record in the way; where there is no record, what the check says of it.
    pub fn skip(self, skip: &Skip) -> Self {
        match skip {
            Skip::Locked(record, reason) | Skip::Stale { record, reason, .. } => {
                self.reason(reason).lock(record)
            }
            Skip::InProgress => self.reason(Reason::GateBusy),
            Skip::CheckFailed {
                reason,
                why,
                record,
            } => {
                let entry = self.reason(reason).detail(why);
                match record {
                    Some(record) => entry.lock(record),
                    None => entry,
                }
            }
        }
    }

    /// The event that this line reports.
    pub fn event(&self) -> Event {
        self.event
    }

    pub(super) fn lock_path(&self) -> &Path {
        Path::new(&self.lock_path)
    }

    fn short(&mut self, text: impl Display) -> String {
        let (short, cut) = cut_text(&text.to_string());
        self.truncated |= cut;
        short
    }

    fn raw(&mut self, record: &impl Serialize) -> Option<Box<RawValue>> {
        let (short, cut) = cut_json(&serde_json::to_string(record).ok()?);
        self.truncated |= cut;
        RawValue::from_string(short).ok()
    }

    /// The whole line, with its line break and no other.
    pub(super) fn line(&self, by: Author) -> String {
        let signed = Self {
            by: Some(by),
            ..self.clone()
        };
        let line = signed.json();
        if line.len() <= LONGEST {
            return line;
        }
        Self {
            lock: None,
            previous_lock: None,
            truncated: true,
            ..signed
        }
        .json()
    }

    #[expect(
        clippy::expect_used,
        reason = "strings and integers under fixed names always serialize"
    )]
    fn json(&self) -> String {
        serde_json::to_string(self).expect("strings and integers under fixed names") + "\n"
    }
}

const LONGEST_STRING: usize = 1024;

/// The text, cut at 1024 characters with a `…` at its end, and whether it was cut.
fn cut_text(text: &str) -> (String, bool) {
    match text.char_indices().nth(LONGEST_STRING) {
        Some((end, _)) => (format!("{}…", &text[..end]), true),
        None => (text.to_owned(), false),
    }
}

/// The text as an audit line may show it: cut at 1024 characters, with a `…` at its end then.
pub fn cut(long: &str) -> String {
    cut_text(long).0
}

/// Compact JSON with every string in it cut at 1024 characters, an escape being one, and whether one was cut.
/// Everything else stays as it is, the order of the fields too.
fn cut_json(json: &str) -> (String, bool) {
    let mut short = String::with_capacity(json.len().min(4096));
    let mut cut = false;
    // Characters of the string that this is in.
    let mut inside: Option<usize> = None;
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match (inside, rest.as_bytes()) {
            (Some(_), [b'\\', b'u', ..]) => 6,
            (Some(_), [b'\\', ..]) => 2,
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        inside = match inside {
            None => (unit == "\"").then_some(0),
            Some(_) if unit == "\"" => None,
            Some(LONGEST_STRING) => {
                short.push('…');
                cut = true;
                Some(LONGEST_STRING + 1)
            }
            Some(count) => Some(count + 1),
        };
        if inside.is_none_or(|count| count <= LONGEST_STRING) {
            short.push_str(unit);
        }
    }
    (short, cut)
}

#[cfg(test)]
mod tests;
