//! The beads dialect: the record of `.exclusive-lock`, its rule and its words (docs/design.md#the-beads-rule).
//!
//! The record is plain data. Reading it is as lenient as the Go programs that write it are
//! ([`Record::parse`]), writing it has one form ([`Record::to_json`]), and `judge` says what it amounts to.

mod content;
mod judge;
mod parse;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::facts::{Depth, Facts};
use super::{
    Common, Dialect, LockRecord, Names, Properties, Rules, Verdict, WantedFacts, json::pretty,
};
pub use super::{json::Rejected, time::StartedAt};
pub use content::Content;
pub use judge::judge;
pub(super) use parse::mark as parse_mark;

pub(super) const NAMES: Names =
    Names::fixed(Dialect::Beads, c".exclusive-lock", c".exclusive-lock.aside");

pub(super) const PROPERTIES: Properties =
    Properties::of_process(|bytes, _| Record::parse(bytes).map(super::Record::Beads));

const HOLDER_LIMIT: usize = 128;

/// The lock file's content, as read: plain data, no I/O.
///
/// Serialized it has the fields as read, `started_at` in UTC with what fraction there is; the lock file's own
/// form is [`Record::to_json`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// The tool that holds the lock; untrusted when it comes out of a file.
    pub holder: String,
    /// The holder's process; above 2^31-1 no kernel can be asked for it.
    pub pid: i64,
    /// The host that the process runs on; untrusted as well.
    pub hostname: String,
    /// When the lock was acquired.
    pub started_at: StartedAt,
    /// The holder's version; may be empty, and is not written then.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What beadlock adds and other readers ignore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beadlock: Option<Mark>,
}

/// The key `beadlock` of a record that beadlock wrote. A part that was not known is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Random; names this one claim.
    pub id: String,
    /// Of the beadlock that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When the lock was acquired, by the wall clock, with its fraction of a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<StartedAt>,
    /// The same by the clock that counts from boot and that nobody sets (`CLOCK_BOOTTIME`), in nanoseconds. Of a
    /// `memory:` lock: when it was last refreshed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boottime_ns: Option<u64>,
    /// The address of what the lock is held for, such as a CI run; untrusted when it comes out of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The machine id, hashed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The kernel's boot id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// `pid:[N]` of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_ns: Option<String>,
    /// `time:[N]` of the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<String>,
    /// When the holder's process started, in clock ticks after boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
}

impl Record {
    /// Whether it has every needed value: holder, a positive PID, hostname, a time.
    /// Errors: [`Rejected::Invalid`] with the first that is missing, in the order of the document.
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

    /// The lock file that beadlock writes: the document's fields in its order, then `beadlock`; whole seconds.
    pub fn to_json(&self) -> String {
        pretty(&Self {
            started_at: self.started_at.in_whole_seconds(),
            ..self.clone()
        })
    }

    /// The PID namespace of the holder, `pid:[N]`, where it was recorded.
    pub fn pid_ns(&self) -> Option<&str> {
        self.beadlock.as_ref()?.pid_ns.as_deref()
    }
}

impl LockRecord for Record {
    fn common(&self) -> Common<'_> {
        Common {
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

    fn judged(&self, facts: &Facts, rules: &Rules) -> Verdict {
        judge(self, facts, rules.reap_proven_dead)
    }

    fn wanted_facts(&self, depth: Depth) -> WantedFacts<'_> {
        WantedFacts::Process(Cow::Borrowed(self), depth)
    }
}

/// Whether a claim of ours may be made in this name: 1 to 128 printable characters (docs/design.md#untrusted-names).
/// What other writers put there is read whatever it is.
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
