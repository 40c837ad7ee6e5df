//! Dialects: the rules for one kind of lock each, siblings that do no I/O (docs/design.md#pure-rules).
//!
//! Each protocol has a folder: the record as it is written, the rule `judge`, and what else is particular to it. The
//! list below is the only one: each row becomes a variant of [`Dialect`] and of [`Record`], which ask the folder.
//! `lock` shares the record and the rule of `beads`; the lock of `file` has no record.

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
pub use beads::{Content, Mark, Record as ProcessRecord, holder_name_is_fit};
pub use file::Mode as LockMode;
pub use json::{Rejected, Rewrite};
pub use memory::{Limits as AgeLimits, REFRESH};
pub use names::Names;
pub use time::StartedAt;
pub use tower::LockName;

macro_rules! protocols {
    ($($(#[$doc:meta])* $Protocol:ident in $folder:ident,)*) => {
        /// Which rules a lock is read, judged and written by.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Dialect {
            $($(#[$doc])* $Protocol,)*
        }

        /// The lock file's content, as read, of whatever dialect. Serialized it has the fields as read.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Record {
            $(#[doc(hidden)] $Protocol($folder::Record),)*
        }

        impl Dialect {
            pub(crate) fn properties(self) -> &'static Properties {
                match self {
                    $(Self::$Protocol => &$folder::PROPERTIES,)*
                }
            }
        }

        impl Record {
            /// The rules that it goes by.
            #[doc(hidden)]
            pub fn dialect(&self) -> Dialect {
                match self {
                    $(Self::$Protocol(_) => Dialect::$Protocol,)*
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
    /// `.exclusive-lock`, and a lock file of that kind at any path (`lock:`): judged by the recorded process.
    Beads in beads,
    /// A named lock with heartbeats, `tower:NAME`: judged by the age of the last one.
    Tower in tower,
    /// The one lock of a directory, `memory:DIR`: judged by its process and by its age.
    Memory in memory,
}

/// What holds for every lock of a protocol, whatever its record says.
pub(crate) struct Properties {
    /// The permissions of a new lock file, whatever the umask.
    pub file_mode: u32,
    /// The record in the bytes of the lock file of this name.
    parse: fn(&[u8], &CStr) -> Result<Record, Rejected>,
    /// The edit that makes these bytes say that the holder lives at that time.
    rewrite: fn(&[u8], Moment) -> Option<Rewrite>,
    /// A lock is valid only for as long as its holder keeps it up.
    is_judged_by_time: bool,
    may_be_reaped: bool,
    /// A stale lock may go although nobody has typed `--force-lock`.
    pub stale_goes_by_itself: bool,
    /// The record that stands for a file that is not JSON. `None`: such a file is an unreadable lock.
    pub of_malformed: Option<fn() -> Record>,
}

impl Properties {
    /// Of a protocol whose locks are valid for as long as their process lives, and that reads a record so.
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

/// What a protocol's record answers. The defaults are those of a lock without heartbeats.
pub(crate) trait LockRecord {
    fn common(&self) -> Common<'_>;

    fn json(&self) -> String;

    /// Judges the lock by those of the rules that concern the protocol.
    fn judged(&self, facts: &Facts, rules: &Rules) -> Verdict;

    /// Which facts its judgement needs, where evidence of this depth was asked for.
    fn wanted_facts(&self, depth: Depth) -> WantedFacts<'_>;

    fn has_been_refreshed(&mut self, _now: Moment) {}

    /// By what a refresh is noticed; `None` for a lock whose age is not judged.
    fn refresh_sign(&self) -> Option<RefreshSign> {
        None
    }

    fn silence(&self, _now: StartedAt) -> Duration {
        Duration::ZERO
    }

    /// The address of what the lock is held for.
    fn about(&self) -> Option<&str> {
        self.common().mark.and_then(|mark| mark.about.as_deref())
    }

    /// What shows that the lock is stale, in the words of its document; empty where that has none. Untrusted.
    fn removed_words(&self, _facts: &Facts, _limits: &AgeLimits) -> String {
        String::new()
    }
}

pub(crate) struct Common<'r> {
    holder: &'r str,
    pid: i64,
    hostname: &'r str,
    started_at: Option<StartedAt>,
    id: Option<&'r str>,
    mark: Option<&'r Mark>,
}

pub(crate) enum WantedFacts<'r> {
    /// What became of this process, with evidence of this depth.
    Process(Cow<'r, ProcessRecord>, Depth),
    /// The same, and what became of all that it has started.
    ProcessTree(Cow<'r, ProcessRecord>, Depth),
    /// The time, and the name of this host.
    TimeAndHost,
    /// The time alone.
    Time,
}

/// What each refresh changes in a record: the process, and when it acquired the lock or refreshed it last.
pub(crate) type RefreshSign = (Option<i64>, Option<StartedAt>);

/// What an operator may change of the rules by which a lock is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Let the four proofs of docs/design.md#proof-of-death count as death, beside ESRCH.
    pub reap_proven_dead: bool,
    /// Let a stale lock stand that is judged by its age.
    pub keep_stale: bool,
    /// How old a lock that is judged by its age may become.
    pub limits: AgeLimits,
}

impl Dialect {
    /// The edit that makes the lock file of these bytes say that its holder lives `now`; `None` where the dialect has
    /// no heartbeats, or the file no time.
    pub fn rewrite(self, bytes: &[u8], now: Moment) -> Option<Rewrite> {
        (self.properties().rewrite)(bytes, now)
    }

    /// A stale lock may go although nobody has typed `--force-lock`.
    #[doc(hidden)]
    pub fn stale_goes_by_itself(self) -> bool {
        self.properties().stale_goes_by_itself
    }

    /// A lock is valid only for as long as its holder keeps it up.
    pub fn is_judged_by_time(self) -> bool {
        self.properties().is_judged_by_time
    }
}

impl Record {
    /// The name of the holder: `holder`, `actor` or `session_id`. Untrusted.
    pub fn holder(&self) -> &str {
        self.lock().common().holder
    }

    /// The recorded process; 0 where there is none. That of a named lock is for people: never asked, never signalled.
    pub fn pid(&self) -> i64 {
        self.lock().common().pid
    }

    /// The host that the process runs on: `hostname`, or `host_id`; empty where there is none. Untrusted.
    pub fn hostname(&self) -> &str {
        self.lock().common().hostname
    }

    /// When the lock was acquired: `started_at`, `created_at`, or `acquired_at`, which each refresh changes.
    pub fn started_at(&self) -> Option<StartedAt> {
        self.lock().common().started_at
    }

    /// What names this one claim: `beadlock.id`, or `request_id`. `None`: it has no name of its own, or one that does not
    /// look like an id. People paste ids into shells, so text that a shell could take for a command or an option is none.
    pub fn id(&self) -> Option<&str> {
        self.lock()
            .common()
            .id
            .filter(|id| tower::request_id_is_fit(id) && !id.starts_with('-'))
    }

    /// The address of what the lock is held for, such as a CI run: `beadlock.about`. Untrusted, and of any kind.
    pub fn about(&self) -> Option<&str> {
        self.lock().about()
    }

    /// The lock file that beadlock writes.
    pub fn to_json(&self) -> String {
        self.lock().json()
    }

    /// What beadlock adds to a record that has a place for it.
    #[doc(hidden)]
    pub fn mark(&self) -> Option<&Mark> {
        self.lock().common().mark
    }

    /// Judges the lock. Each dialect heeds those of the rules that concern it.
    #[doc(hidden)]
    pub fn judge(&self, facts: &Facts, rules: &Rules) -> Verdict {
        self.lock().judged(facts, rules)
    }

    /// The record of a beads database or of `lock:PATH`.
    #[doc(hidden)]
    pub fn as_beads(&self) -> Option<&beads::Record> {
        if let Self::Beads(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// The record of a named lock.
    #[doc(hidden)]
    pub fn as_tower(&self) -> Option<&tower::Record> {
        if let Self::Tower(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// The record of a lock that is judged by its age.
    #[doc(hidden)]
    pub fn as_memory(&self) -> Option<&memory::Record> {
        if let Self::Memory(record) = self {
            Some(record)
        } else {
            None
        }
    }

    /// The process that it is judged by, as a database's record has one; `None`: no process decides.
    #[doc(hidden)]
    pub fn process(&self) -> Option<Cow<'_, ProcessRecord>> {
        match self.lock().wanted_facts(Depth::Proof) {
            WantedFacts::Process(process, _) | WantedFacts::ProcessTree(process, _) => {
                Some(process)
            }
            WantedFacts::TimeAndHost | WantedFacts::Time => None,
        }
    }

    /// The process whose proved death makes the lock stale; `None` where `--reap-proven-dead` means nothing.
    pub(crate) fn reapable(&self) -> Option<Cow<'_, ProcessRecord>> {
        self.process()
            .filter(|_| self.dialect().properties().may_be_reaped)
    }
}
