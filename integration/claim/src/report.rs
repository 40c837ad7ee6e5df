//! What a command reports of one lock: the facts, and which of them its JSON has in which order.
//!
//! A command fills in a [`Report`] with what it knows, and prints a [`LockRow`] of it. The lists of keys stand at the
//! end of this file, one for each kind of row. The order of the keys is part of the contract (docs/design.md#json).
//!
//! A new fact needs a field of [`Report`], a [`Key`] with its arm in [`LockRow`], and a place in the lists.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::filesystem::FileKind;
use beadlock_core::record::Record;
use beadlock_core::{Reason, Verdict, look::Look};
use beadlock_supervise::process_tree::CommandEnd;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

use crate::{fact::Fact, target::Target, words};

/// The facts about one lock, and about a claim of it. What is not known is null, or is left out where its [`Key`] says
/// so.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The target with its scheme. Empty: no target has been found yet.
    pub target: String,
    /// The lock file.
    pub path: PathBuf,
    /// A check skips the target.
    pub skips: bool,
    /// What the lock is; `None`: nobody has judged it.
    pub verdict: Option<Verdict>,
    /// Why. It says more than the verdict where what lay there was not a lock.
    pub reason: Option<Reason>,
    /// The stale lock was removed.
    pub removed: bool,
    /// The holder's name in the record; `None`: there is no record, or the lock has none.
    pub holder: Option<String>,
    /// The claim's id; the outer one's when nested.
    pub id: Option<String>,
    /// What a daemon logs that leaves the lock alone; empty where it would not.
    pub message: String,
    /// The record as it was read.
    pub record: Option<Record>,
    /// How long ago the record was written, where there is one.
    pub age: Option<Duration>,
    /// What kind of file lies there.
    pub kind: Option<FileKind>,
    /// Everything that the verdict rests on; `None`: the command does not explain it. Empty: nothing could be looked at.
    pub witnesses: Option<Vec<Fact>>,
    /// A process has the gate, and that is in the way of a claim.
    pub is_gate_shut: bool,
    /// What stands before the holder's name in a sentence: `a zombie, `.
    pub holder_is: &'static str,
    /// A stale lock was removed without a lease to watch it by.
    pub lease_unavailable: Option<bool>,
    /// The command to type next.
    pub next: Option<String>,
    /// How the sync of the database fares.
    pub sync: Option<Value>,
    /// What the fleet of the database says of it.
    pub fleet: Option<Value>,
    /// Where the record of a broken lock was kept.
    pub kept: Option<PathBuf>,
    /// Why somebody has broken the lock, in their words.
    pub reason_given: Option<String>,
    /// The claim stands under an outer claim.
    pub nested: bool,
    /// The command's process, once it has executed; of `acquire`, the process of the claim.
    pub pid: Option<i32>,
    /// When a claim that is kept for a time ends by itself, in UTC and whole seconds.
    pub until: Option<String>,
    /// How the command ended.
    pub ending: Option<CommandEnd>,
    /// How long the claim took, or the wait; `None` before the claim stands.
    pub waited: Option<Duration>,
    /// How long the lock was held.
    pub held: Option<Duration>,
    /// The claim was released by this command.
    pub released: bool,
    /// The processes that the command has left behind.
    pub left: Vec<i32>,
    /// What became of each claim, where there are several.
    pub claims: Vec<Report>,
}

impl Report {
    /// The target alone.
    pub fn of(target: &Target) -> Self {
        Self::at(target.name(), target.path())
    }

    /// A target of this name, with its scheme, whose lock file is at `path`.
    pub fn at(target: String, path: PathBuf) -> Self {
        Self {
            target,
            path,
            ..Self::default()
        }
    }

    /// The target, and what a look at its lock has shown.
    pub fn of_look(target: &Target, look: &Look) -> Self {
        let record = look.record.as_ref();
        Self {
            verdict: Some(look.verdict),
            reason: Some(look.verdict.reason()),
            holder: record.map(|record| record.holder().to_owned()),
            id: look.id.clone(),
            record: record.cloned(),
            age: record.map(|_| words::age(look)),
            kind: look.on_disk.map(|file| file.kind),
            ..Self::of(target)
        }
    }

    /// The row of these facts, as a value. Its keys are in the order of `keys`.
    pub fn json(&self, keys: &'static [Key]) -> Value {
        serde_json::to_value(LockRow { report: self, keys }).unwrap_or_default()
    }
}

/// A key of a row, and so one fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The target with its scheme.
    Target,
    /// The lock file.
    Path,
    /// `proceed` or `skip`.
    Decision,
    /// `free`, `held`, `stale` or `unreadable`.
    Verdict,
    /// Whether the stale lock was removed.
    Removed,
    /// The holder's name.
    Holder,
    /// The claim's id.
    Id,
    /// The word for the verdict's reason.
    Reason,
    /// What a daemon logs.
    Message,
    /// The record, key by key as it was read.
    Record,
    /// The age of the lock, in milliseconds.
    AgeMs,
    /// The kind of file that lies there.
    Kind,
    /// An object of facts; `[]` where nothing could be looked at. Left out where the command does not explain.
    Witnesses,
    /// Left out where the command does not explain, and for locks that have no record.
    LeaseUnavailable,
    /// Left out where the command does not explain.
    Next,
    /// Left out where no daemon has logged.
    Sync,
    /// Left out where the target has joined no fleet.
    Fleet,
    /// Where the record of a broken lock was kept.
    Kept,
    /// Why it was broken.
    ReasonGiven,
    /// What the lock was before it was broken: an object with the keys of [`WAS`].
    Was,
    /// Whether the claim stands under an outer claim.
    Nested,
    /// The command's process, or that of the claim.
    Pid,
    /// When a claim that is kept for a time ends by itself.
    Until,
    /// The command's exit code; null where a signal ended it.
    ExitCode,
    /// The signal that ended the command.
    Signal,
    /// How long the claim took, or the wait, in milliseconds.
    WaitedMs,
    /// How long the lock was held, in milliseconds.
    HeldMs,
    /// Whether this command released the claim.
    Released,
    /// The PIDs that the command has left behind.
    LeftBehind,
    /// A row for each claim, with the keys of [`CLAIM`]. Left out where there is one claim.
    Claims,
}

/// One row of JSON about one lock.
#[derive(Debug, Clone, Copy)]
pub struct LockRow<'a> {
    /// The facts.
    pub report: &'a Report,
    /// Which of them, in this order.
    pub keys: &'static [Key],
}

impl Serialize for LockRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        for key in self.keys {
            self.report.write(*key, &mut row)?;
        }
        row.end()
    }
}

impl Report {
    fn write<M: SerializeMap>(&self, key: Key, row: &mut M) -> Result<(), M::Error> {
        let millis = |duration: Option<Duration>| duration.map(words::millis);
        match key {
            Key::Target => row.serialize_entry("target", &self.target),
            Key::Path => row.serialize_entry("path", &self.path.to_string_lossy()),
            Key::Decision => {
                let decision = if self.skips { "skip" } else { "proceed" };
                row.serialize_entry("decision", decision)
            }
            Key::Verdict => row.serialize_entry("verdict", &self.verdict.map(Verdict::as_str)),
            Key::Removed => row.serialize_entry("removed", &self.removed),
            Key::Holder => row.serialize_entry("holder", &self.holder),
            Key::Id => row.serialize_entry("id", &self.id),
            Key::Reason => row.serialize_entry("reason", &self.reason.map(Reason::as_str)),
            Key::Message => row.serialize_entry("message", &self.message),
            Key::Record => {
                let record = self.record.as_ref();
                let record = record.and_then(|record| serde_json::to_value(record).ok());
                row.serialize_entry("record", &record)
            }
            Key::AgeMs => row.serialize_entry("age_ms", &millis(self.age)),
            Key::Kind => row.serialize_entry("kind", &self.kind.map(FileKind::as_str)),
            Key::Witnesses => known(row, "witnesses", self.witnesses.as_deref().map(object)),
            Key::LeaseUnavailable => known(row, "lease_unavailable", self.lease_unavailable),
            Key::Next => known(row, "next", self.next.as_ref()),
            Key::Sync => known(row, "sync", self.sync.as_ref()),
            Key::Fleet => known(row, "fleet", self.fleet.as_ref()),
            Key::Kept => {
                row.serialize_entry("kept", &self.kept.as_deref().map(Path::to_string_lossy))
            }
            Key::ReasonGiven => row.serialize_entry("reason_given", &self.reason_given),
            Key::Was => row.serialize_entry(
                "was",
                &LockRow {
                    report: self,
                    keys: WAS,
                },
            ),
            Key::Nested => row.serialize_entry("nested", &self.nested),
            Key::Pid => row.serialize_entry("pid", &self.pid),
            Key::Until => row.serialize_entry("until", &self.until),
            Key::ExitCode => {
                let code = self.ending.and_then(|ending| match ending {
                    CommandEnd::Exited(code) => Some(code),
                    CommandEnd::Killed(_) => None,
                });
                row.serialize_entry("exit_code", &code)
            }
            Key::Signal => {
                let signal = self.ending.and_then(|ending| match ending {
                    CommandEnd::Exited(_) => None,
                    CommandEnd::Killed(signal) => Some(signal),
                });
                row.serialize_entry("signal", &signal)
            }
            Key::WaitedMs => row.serialize_entry("waited_ms", &millis(self.waited)),
            Key::HeldMs => row.serialize_entry("held_ms", &millis(self.held)),
            Key::Released => row.serialize_entry("released", &self.released),
            Key::LeftBehind => row.serialize_entry("left_behind", &self.left),
            Key::Claims if self.claims.is_empty() => Ok(()),
            Key::Claims => {
                let row_of = |report| LockRow {
                    report,
                    keys: CLAIM,
                };
                let claims: Vec<LockRow<'_>> = self.claims.iter().map(row_of).collect();
                row.serialize_entry("claims", &claims)
            }
        }
    }
}

/// Writes a fact that is left out where it is not known.
fn known<M: SerializeMap>(
    row: &mut M,
    name: &str,
    fact: Option<impl Serialize>,
) -> Result<(), M::Error> {
    fact.map_or(Ok(()), |fact| row.serialize_entry(name, &fact))
}

/// The facts that programs are told. A fact that is not known is null; what only a record has is there only with a
/// record.
fn object(facts: &[Fact]) -> Value {
    if facts.is_empty() {
        return Value::Array(Vec::new());
    }
    let fields = facts
        .iter()
        .filter_map(|fact| Some((fact.name.to_owned(), fact.json.clone()?)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// `check`, and a skipped `cycle`.
pub const CHECK: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Decision,
    Key::Verdict,
    Key::Removed,
    Key::Holder,
    Key::Id,
    Key::Reason,
    Key::Message,
    Key::Witnesses,
    Key::LeaseUnavailable,
    Key::Next,
];

/// `status` and `list`.
pub const STATUS: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Verdict,
    Key::Holder,
    Key::Id,
    Key::Reason,
    Key::Message,
    Key::Record,
    Key::AgeMs,
    Key::Witnesses,
    Key::Next,
    Key::Sync,
    Key::Fleet,
];

/// `wait`.
pub const WAIT: &[Key] = &[Key::Target, Key::Path, Key::WaitedMs, Key::Removed];

/// `hold` and `acquire`.
pub const HOLD: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Holder,
    Key::Id,
    Key::Nested,
    Key::Pid,
    Key::ExitCode,
    Key::Signal,
    Key::WaitedMs,
    Key::HeldMs,
    Key::Released,
    Key::LeftBehind,
    Key::Claims,
];

/// One of several claims of a `hold`.
pub const CLAIM: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Holder,
    Key::Id,
    Key::Nested,
    Key::HeldMs,
    Key::Released,
];

/// `release`.
pub const RELEASE: &[Key] = &[Key::Target, Key::Path, Key::Id, Key::Released, Key::HeldMs];

/// `renew`.
pub const RENEW: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Holder,
    Key::Id,
    Key::Pid,
    Key::Until,
];

/// `break`.
pub const BREAK: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Holder,
    Key::Id,
    Key::Record,
    Key::Kept,
    Key::ReasonGiven,
    Key::Was,
];

/// `was` of `break`.
pub const WAS: &[Key] = &[Key::Verdict, Key::Reason, Key::Kind];

/// `break` of a claim in the fleet.
pub const BREAK_IN_FLEET: &[Key] = &[
    Key::Target,
    Key::Path,
    Key::Holder,
    Key::Id,
    Key::ReasonGiven,
    Key::Fleet,
];

/// What `write`, `update` and `append` say of the lock. What they did to the file comes after it.
pub const WRITE: &[Key] = &[Key::Target, Key::Path, Key::WaitedMs, Key::HeldMs];

#[cfg(test)]
mod tests {
    use super::*;

    fn text(report: &Report, keys: &'static [Key]) -> String {
        report.json(keys).to_string()
    }

    #[test]
    fn a_row_has_its_keys_in_the_order_of_its_list() {
        let report = Report {
            waited: Some(Duration::from_millis(7)),
            removed: true,
            ..Report::at("lock:x".to_owned(), "/x".into())
        };
        assert_eq!(
            text(&report, WAIT),
            r#"{"target":"lock:x","path":"/x","waited_ms":7,"removed":true}"#
        );
        assert_eq!(
            text(&report, &[Key::Removed, Key::Target]),
            r#"{"removed":true,"target":"lock:x"}"#
        );
    }

    #[test]
    fn what_is_not_known_is_null_and_what_is_not_explained_is_left_out() {
        let report = Report::default();
        assert_eq!(
            text(&report, &[Key::Holder, Key::AgeMs, Key::Next, Key::Sync]),
            r#"{"holder":null,"age_ms":null}"#
        );
        let nothing_seen = Report {
            witnesses: Some(Vec::new()),
            ..report
        };
        assert_eq!(
            text(&nothing_seen, &[Key::Witnesses]),
            r#"{"witnesses":[]}"#
        );
    }

    #[test]
    fn several_claims_have_a_row_each_and_one_has_none() {
        let one = Report::at("lock:x".to_owned(), "/x".into());
        assert_eq!(text(&one, &[Key::Claims]), "{}");
        let two = Report {
            claims: vec![one.clone(), one],
            ..Report::default()
        };
        let row = r#"{"target":"lock:x","path":"/x","holder":null,"id":null,"nested":false,"held_ms":null,"released":false}"#;
        assert_eq!(
            text(&two, &[Key::Claims]),
            format!(r#"{{"claims":[{row},{row}]}}"#)
        );
    }

    #[test]
    fn no_row_has_a_key_twice() {
        let lists = [
            CHECK,
            STATUS,
            WAIT,
            HOLD,
            CLAIM,
            RELEASE,
            RENEW,
            BREAK,
            WAS,
            BREAK_IN_FLEET,
            WRITE,
        ];
        for keys in lists {
            for (at, key) in keys.iter().enumerate() {
                assert!(!keys[..at].contains(key), "{key:?} in {keys:?}");
            }
        }
    }
}
