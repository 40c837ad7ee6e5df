//! Protocols: the rules for each kind of lock. They are siblings, and do no I/O (docs/design.md#pure-rules).
//!
//! Each protocol has a folder with its record, its rule `judge` and its words. The list below (`protocols!`) is the
//! only one: each row becomes a variant of [`RecordKind`] and of [`Record`], which delegate to the folder. `lock` shares
//! the record and the rule of `beads`. The lock of `file` has no record. docs/adding-a-protocol.md says how a protocol
//! is added.

mod age;
pub mod beads;
pub mod facts;
pub mod file;
mod json;
pub mod lock;
pub mod memory;
mod names;
mod time;
pub mod tower;

use std::{borrow::Cow, ffi::CStr, time::Duration};

use serde::Serialize;

use self::facts::{Depth, Facts};
use crate::verdict::Verdict;
pub(crate) use age::Clocks;
pub use age::Moment;
pub use beads::{BeadlockKey, ContentKind, Record as ProcessRecord, holder_name_is_fit};
pub use json::{Rejected, Rewrite};
pub use memory::{Limits as AgeLimits, REFRESH};
pub use names::Names;
pub use time::StartedAt;
pub use tower::LockName;

macro_rules! protocols {
    ($($(#[$doc:meta])* $Protocol:ident in $folder:ident,)*) => {
        /// Rules by which a lock is read, judged and written.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RecordKind {
            $($(#[$doc])* $Protocol,)*
        }

        /// Content of a lock file as it was read, of any protocol. Serialization gives the fields as they were read.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Record {
            $(#[doc(hidden)] $Protocol($folder::Record),)*
        }

        impl RecordKind {
            pub(crate) fn properties(self) -> &'static Properties {
                match self {
                    $(Self::$Protocol => &$folder::PROPERTIES,)*
                }
            }
        }

        impl Record {
            /// Protocol of the record.
            #[doc(hidden)]
            pub fn record_kind(&self) -> RecordKind {
                match self {
                    $(Self::$Protocol(_) => RecordKind::$Protocol,)*
                }
            }

            pub(crate) fn lock(&self) -> &dyn LockRecord {
                match self {
                    $(Self::$Protocol(record) => record,)*
                }
            }

            pub(crate) fn has_been_refreshed(&mut self, now: Moment) {
                match self {
                    $(Self::$Protocol(record) => record.has_been_refreshed(now),)*
                }
            }
        }

        $(
            #[doc(hidden)]
            impl From<$folder::Record> for Record {
                fn from(record: $folder::Record) -> Self {
                    Self::$Protocol(record)
                }
            }

            #[doc(hidden)]
            impl From<&$folder::Record> for Record {
                fn from(record: &$folder::Record) -> Self {
                    Self::$Protocol(record.clone())
                }
            }
        )*
    };
}

protocols! {
    /// `.exclusive-lock`, and a lock file of that kind at any path (`lock:`). Judged by the recorded process.
    Beads in beads,
    /// Named lock with heartbeats, `tower:NAME`. Judged by the age of the last heartbeat.
    Tower in tower,
    /// The one lock of a directory, `memory:DIR`. Judged by its process and by its age.
    Memory in memory,
}

/// Properties that every lock of a protocol has, whatever its record says.
pub(crate) struct Properties {
    /// Mode of a new lock file, whatever the umask.
    pub file_mode: u32,
    /// Reads the record from the bytes of the lock file of this name.
    parse: fn(&[u8], &CStr) -> Result<Record, Rejected>,
    /// Makes the edit that writes the time of a heartbeat into these bytes.
    rewrite: fn(&[u8], Moment) -> Option<Rewrite>,
    /// True if a lock is valid only while its holder renews it.
    is_judged_by_time: bool,
    /// True if `--reap-proven-dead` applies (docs/design.md#proof-of-death).
    may_be_reaped: bool,
    /// True if a stale lock may be removed without `--force-lock`.
    pub stale_goes_by_itself: bool,
    /// Record that stands for a file that is not JSON. `None`: such a file is an unreadable lock.
    pub of_malformed: Option<fn() -> Record>,
}

impl Properties {
    /// Properties of a protocol whose locks are valid while their process lives. `parse` reads its records.
    const fn of_process(parse: fn(&[u8], &CStr) -> Result<Record, Rejected>) -> Self {
        Self {
            // A daemon of another user must be able to read the lock.
            file_mode: 0o644,
            parse,
            rewrite: |_, _| None,
            is_judged_by_time: false,
            may_be_reaped: true,
            stale_goes_by_itself: true,
            of_malformed: None,
        }
    }
}

/// Answers of a protocol's record. The defaults are those of a lock without heartbeats.
pub(crate) trait LockRecord {
    fn common(&self) -> CommonFields<'_>;

    fn json(&self) -> String;

    /// Judges the lock. A protocol ignores the rules that do not concern it.
    fn judged(&self, facts: &Facts, rules: &OperatorRules) -> Verdict;

    /// Facts that the judgement needs, when evidence of this depth is asked for.
    fn wanted_facts(&self, depth: Depth) -> WantedFacts<'_>;

    fn has_been_refreshed(&mut self, _now: Moment) {}

    /// Values that each refresh changes. `None`: the lock is not judged by its age.
    fn refresh_sign(&self) -> Option<RefreshSign> {
        None
    }

    /// Time since the last heartbeat; zero for a lock without heartbeats.
    fn silence(&self, _now: StartedAt) -> Duration {
        Duration::ZERO
    }

    /// Address of the work that the lock is held for.
    fn about(&self) -> Option<&str> {
        self.common().mark.and_then(|mark| mark.about.as_deref())
    }

    /// Evidence that the lock is stale, in the words of its document; empty if the document has none. Untrusted.
    fn removed_words(&self, _facts: &Facts, _limits: &AgeLimits) -> String {
        String::new()
    }
}

/// Fields that records of every protocol have, under one name each.
pub(crate) struct CommonFields<'r> {
    holder: &'r str,
    pid: i64,
    hostname: &'r str,
    started_at: Option<StartedAt>,
    id: Option<&'r str>,
    mark: Option<&'r BeadlockKey>,
}

/// Facts that a judgement needs. All of them include the time.
pub(crate) enum WantedFacts<'r> {
    /// Liveness of this process, with evidence of this depth.
    Process(Cow<'r, ProcessRecord>, Depth),
    /// Liveness of this process and of its descendants, with evidence of this depth.
    ProcessTree(Cow<'r, ProcessRecord>, Depth),
    /// The time, and the name of this host.
    TimeAndHost,
    /// The time alone.
    Time,
}

/// Process of a record, and the time when it acquired the lock or last refreshed it. Each refresh changes the pair.
pub(crate) type RefreshSign = (Option<i64>, Option<StartedAt>);

/// Parts of the rules that an operator may change.
#[derive(Debug, Clone, Copy)]
pub struct OperatorRules {
    /// True if the four proofs of docs/design.md#proof-of-death count as death, beside ESRCH.
    pub reap_proven_dead: bool,
    /// True if a stale lock that is judged by its age stays.
    pub keep_stale: bool,
    /// Age limits of a lock that is judged by its age.
    pub limits: AgeLimits,
}

impl RecordKind {
    /// Makes the edit that writes a heartbeat at `now` into a lock file with the content `bytes`. `None`: the protocol
    /// has no heartbeats, or the content has no time.
    pub fn rewrite(self, bytes: &[u8], now: Moment) -> Option<Rewrite> {
        (self.properties().rewrite)(bytes, now)
    }

    /// True if a stale lock may be removed without `--force-lock`.
    #[doc(hidden)]
    pub fn stale_goes_by_itself(self) -> bool {
        self.properties().stale_goes_by_itself
    }

    /// True if a lock is valid only while its holder renews it.
    pub fn is_judged_by_time(self) -> bool {
        self.properties().is_judged_by_time
    }
}

impl Record {
    /// Reads the content of a beads lock file, `.exclusive-lock` or that of a `lock:PATH`, and validates it: a holder, a
    /// positive PID, a host name and a time (docs/protocol.md#the-lock-file).
    ///
    /// # Errors
    /// [`Rejected::Malformed`]: the bytes are not JSON, or a field has a wrong type. [`Rejected::Invalid`]: a needed value
    /// is missing or not allowed. A daemon leaves a database with such a file alone.
    pub fn read(bytes: &[u8]) -> Result<Self, Rejected> {
        beads::Record::parse(bytes).map(Self::Beads)
    }

    /// Name of the holder: `holder`, `actor` or `session_id`. Untrusted (docs/design.md#untrusted-names).
    pub fn holder(&self) -> &str {
        self.lock().common().holder
    }

    /// PID of the recorded process; 0 if the record has none. The PID of a named lock is for people, and never probed
    /// or signalled.
    pub fn pid(&self) -> i64 {
        self.lock().common().pid
    }

    /// Host of the recorded process: `hostname` or `host_id`; empty if the record has none. Untrusted.
    pub fn hostname(&self) -> &str {
        self.lock().common().hostname
    }

    /// Time when the lock was acquired: `started_at`, `created_at`, or `acquired_at`, which each refresh changes.
    pub fn started_at(&self) -> Option<StartedAt> {
        self.lock().common().started_at
    }

    /// Id of this one claim: `beadlock.id` or `request_id`. `None`: the record has no id, or a text that does not look
    /// like one. People paste ids into shells, so a text that a shell could take for a command or an option does not
    /// count.
    pub fn id(&self) -> Option<&str> {
        self.lock()
            .common()
            .id
            .filter(|id| tower::request_id_is_fit(id) && !id.starts_with('-'))
    }

    /// Address of the work that the lock is held for, such as a CI run: `beadlock.about`. Untrusted, and any text.
    pub fn about(&self) -> Option<&str> {
        self.lock().about()
    }

    /// Content of the lock file that beadlock writes for this record.
    pub fn to_json(&self) -> String {
        self.lock().json()
    }

    /// Mark that beadlock adds to the record, if the protocol has a place for it.
    #[doc(hidden)]
    pub fn mark(&self) -> Option<&BeadlockKey> {
        self.lock().common().mark
    }

    /// Judges the lock by its record and the facts. A protocol ignores the rules that do not concern it.
    #[doc(hidden)]
    pub fn judge(&self, facts: &Facts, rules: &OperatorRules) -> Verdict {
        self.lock().judged(facts, rules)
    }

    /// Record of a beads database or of `lock:PATH`; `None` for other protocols.
    #[doc(hidden)]
    pub fn as_beads(&self) -> Option<&beads::Record> {
        if let Self::Beads(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// Record of a named lock; `None` for other protocols.
    #[doc(hidden)]
    pub fn as_tower(&self) -> Option<&tower::Record> {
        if let Self::Tower(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// Record of a lock that is judged by its age; `None` for other protocols.
    #[doc(hidden)]
    pub fn as_memory(&self) -> Option<&memory::Record> {
        if let Self::Memory(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// Process by which the lock is judged, in the form of a beads record. `None`: no process decides.
    #[doc(hidden)]
    pub fn process(&self) -> Option<Cow<'_, ProcessRecord>> {
        match self.lock().wanted_facts(Depth::Proof) {
            WantedFacts::Process(process, _) | WantedFacts::ProcessTree(process, _) => {
                Some(process)
            }
            WantedFacts::TimeAndHost | WantedFacts::Time => None,
        }
    }

    /// Process whose proved death makes the lock stale. `None`: `--reap-proven-dead` does not apply.
    pub(crate) fn reapable(&self) -> Option<Cow<'_, ProcessRecord>> {
        self.process()
            .filter(|_| self.record_kind().properties().may_be_reaped)
    }
}
