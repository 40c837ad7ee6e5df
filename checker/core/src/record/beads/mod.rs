//! The beads protocol: the record of `.exclusive-lock`, its rule and its words (docs/design.md#the-beads-rule).
//!
//! The record is plain data. [`Record::parse`] is as lenient as the Go programs that write the file.
//! [`Record::to_json`] writes one form. `judge` returns the verdict.

mod content;
mod judge;
mod parse;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::facts::{Depth, Facts};
use super::{
    CommonFields, LockRecord, Names, OperatorRules, Properties, RecordKind, Verdict, WantedFacts,
    json::pretty,
};
pub use super::{json::Rejected, time::StartedAt};
pub use content::ContentKind;
pub use judge::judge;
pub(super) use parse::mark as parse_mark;

pub(super) const NAMES: Names = Names::fixed(
    RecordKind::Beads,
    c".exclusive-lock",
    c".exclusive-lock.aside",
);

pub(super) const PROPERTIES: Properties =
    Properties::of_process(|bytes, _| Record::parse(bytes).map(super::Record::Beads));

/// Length of the longest holder's name that beadlock writes, in characters.
const HOLDER_LIMIT: usize = 128;

/// Content of a lock file as it was read: plain data, without I/O (docs/protocol.md#the-lock-file).
///
/// Serialization gives the fields as they were read, with `started_at` in UTC and with its fraction. The form of the
/// lock file is [`Record::to_json`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Name of the tool that holds the lock. Untrusted when it was read from a file.
    pub holder: String,
    /// PID of the holder. No kernel has a PID above 2^31-1, so such a one is never probed.
    pub pid: i64,
    /// Host of the process. Untrusted when it was read from a file.
    pub hostname: String,
    /// Time when the lock was acquired.
    pub started_at: StartedAt,
    /// Version of the holder. An empty one is not written.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Key that beadlock adds and other readers ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beadlock: Option<BeadlockKey>,
}

/// Key `beadlock` of a record that beadlock wrote (docs/design.md#the-record). Unknown parts are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeadlockKey {
    /// Id of this one claim, random.
    pub id: String,
    /// Version of the beadlock that wrote the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Time when the lock was acquired, by the wall clock, with the fraction of the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<StartedAt>,
    /// Time when the lock was acquired, by the clock that counts from boot (`CLOCK_BOOTTIME`), in nanoseconds. For a
    /// `memory:` lock, the time of the last refresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boottime_ns: Option<u64>,
    /// Address of the work that the lock is held for, such as a CI run. Untrusted when it was read from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// True if `beadlock acquire` has made the claim, so that `release --holder` may end it. Left out where it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acquired: bool,
    /// Machine id, hashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// Boot id of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// PID namespace of the holder, as `pid:[N]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<String>,
    /// Time namespace of the holder, as `time:[N]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<String>,
    /// Start of the holder's process, in clock ticks after boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
}

impl Record {
    /// Checks that every needed value is there: a holder, a positive PID, a host name and a time. Errors:
    /// [`Rejected::Invalid`] with the first one that is missing, in the order of the document.
    pub fn validate(&self) -> Result<(), Rejected> {
        let words = if self.holder.is_empty() {
            "holder must not be empty".to_owned()
        } else if self.pid <= 0 {
            format!("pid must be positive (got {})", self.pid)
        } else if self.hostname.is_empty() {
            "hostname must not be empty".to_owned()
        } else if self.started_at == StartedAt::NEVER {
            "started_at must be set".to_owned()
        } else {
            return Ok(());
        };
        Err(Rejected::Invalid(words))
    }

    /// Returns the content of the lock file that beadlock writes: the document's fields in the document's order, then
    /// `beadlock`. `started_at` has whole seconds.
    pub fn to_json(&self) -> String {
        pretty(&Self {
            started_at: self.started_at.in_whole_seconds(),
            ..self.clone()
        })
    }

    /// PID namespace of the holder, as `pid:[N]`, if it was recorded.
    pub fn pid_ns(&self) -> Option<&str> {
        self.beadlock.as_ref()?.pid_ns.as_deref()
    }
}

impl LockRecord for Record {
    fn common(&self) -> CommonFields<'_> {
        CommonFields {
            holder: &self.holder,
            pid: self.pid,
            hostname: &self.hostname,
            started_at: Some(self.started_at),
            id: self.beadlock.as_ref().map(|mark| mark.id.as_str()),
            mark: self.beadlock.as_ref(),
        }
    }

    fn json(&self) -> String {
        self.to_json()
    }

    fn judged(&self, facts: &Facts, rules: &OperatorRules) -> Verdict {
        judge(self, facts, rules.reap_proven_dead)
    }

    fn wanted_facts(&self, depth: Depth) -> WantedFacts<'_> {
        WantedFacts::Process(Cow::Borrowed(self), depth)
    }
}

/// True if beadlock may write this name of a holder: 1 to 128 printable characters (docs/design.md#untrusted-names).
/// Names that other writers have written are read in any form.
pub fn holder_name_is_fit(name: &str) -> bool {
    (1..=HOLDER_LIMIT).contains(&name.chars().count())
        && name.chars().all(beadlock_base::escape::is_harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            holder: "a".to_owned(),
            pid: 1,
            hostname: "h".to_owned(),
            started_at: StartedAt::from_unix(0, 0),
            version: String::new(),
            beadlock: None,
        }
    }

    #[test]
    fn the_first_missing_value_is_named_in_the_documents_order() {
        let mut bad = Record {
            holder: String::new(),
            pid: -3,
            hostname: String::new(),
            started_at: StartedAt::NEVER,
            ..record()
        };
        let mut says = |mend: fn(&mut Record), expected: &str| {
            assert_eq!(
                bad.validate().unwrap_err().to_string(),
                format!("invalid lock file: {expected}")
            );
            mend(&mut bad);
        };
        says(|bad| bad.holder.push('a'), "holder must not be empty");
        says(|bad| bad.pid = 1, "pid must be positive (got -3)");
        says(|bad| bad.hostname.push('h'), "hostname must not be empty");
        says(
            |bad| bad.started_at = StartedAt::from_unix(0, 0),
            "started_at must be set",
        );
        assert_eq!(bad.validate(), Ok(()));
    }

    #[test]
    fn parts_that_are_not_known_are_left_out() {
        let bare = "{\n  \"holder\": \"a\",\n  \"pid\": 1,\n  \"hostname\": \"h\",\n  \
                    \"started_at\": \"1970-01-01T00:00:00Z\"\n}\n";
        assert_eq!(record().to_json(), bare);
    }

    #[test]
    fn names_of_ours_are_1_to_128_printable_characters() {
        assert!(holder_name_is_fit("vc executor é"));
        assert!(holder_name_is_fit(&"é".repeat(128)));
        for unfit in [
            String::new(),
            "a".repeat(129),
            "a\nb".into(),
            "\u{1b}[2J".into(),
            "a\u{202e}b".into(),
        ] {
            assert!(!holder_name_is_fit(&unfit), "{unfit:?}");
        }
    }
}
