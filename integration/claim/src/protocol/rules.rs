//! The protocol of a lock, as a claim needs it: rules that are fixed, and a trait for the questions that several
//! protocols answer in their own way. Questions to one protocol alone are methods of the [`Target`], in `protocol`.

use std::{ffi::OsString, fmt, time::Duration};

use beadlock_core::Options;
use beadlock_core::{
    look::Look,
    record::{Record, facts::Facts},
    take::Held,
};

use crate::target::{Target, prefixed};
use crate::wait::Wait;
use crate::words::{Part, to_type};
use crate::{kernel_lock::WithoutRecord, lease::LeaseTimes};

/// The fixed rules of one protocol.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolRules {
    /// Where the protocol's locks are kept.
    pub kind: ProtocolKind,
    /// The name of the protocol's locks in messages: `named locks (tower:NAME)`.
    pub locks: &'static str,
    /// How long a claim waits for a holder by default.
    pub default_wait: Wait,
    /// Whether the message of a check speaks of a database, as a sync daemon's log does.
    pub speaks_of_databases: bool,
    /// A sync daemon runs cycles on its targets.
    pub has_cycles: bool,
    /// Its lock lies in a work tree of git for as long as it is held, and does harm in another clone.
    pub may_be_committed: bool,
    /// A claim makes the directory that its lock lies in.
    pub makes_directory: bool,
    /// One id may stand in several locks.
    pub shares_ids: bool,
    /// The work under its locks has steps, one of which may fail.
    pub has_steps: bool,
    /// Whether a lost lock that could still be removed gets two audit lines: of the loss, then of the release.
    pub lost_is_released: bool,
    /// The document's words for `release` after it has removed the lock; `None`: it has none.
    pub released: Option<&'static str>,
    /// The first words of `release` about a lock that is not one's own; may be empty.
    pub not_ours: &'static str,
    /// Its place has one lock at most, so `break` needs no option that names it.
    pub breaks_unnamed: bool,
    /// The document's words for `break` where there is no lock; `None`: it has none.
    pub nothing_to_break: Option<&'static str>,
    /// The end of a sentence about a lock that goes stale by itself, such as `, and --force-lock takes it then`; may be
    /// empty.
    pub then_stale: &'static str,
    /// The end of a sentence about an unreadable lock, such as `it is never taken`.
    pub then_unreadable: &'static str,
}

impl ProtocolRules {
    /// The defaults are those of a lock that is valid for as long as its process lives.
    pub const fn of(locks: &'static str) -> Self {
        Self {
            kind: ProtocolKind::Record,
            locks,
            default_wait: Wait::DEFAULT,
            speaks_of_databases: true,
            has_cycles: false,
            may_be_committed: false,
            makes_directory: false,
            shares_ids: false,
            has_steps: false,
            lost_is_released: false,
            released: None,
            not_ours: "",
            breaks_unnamed: false,
            nothing_to_break: None,
            then_stale: "",
            then_unreadable: "it is never taken",
        }
    }
}

/// Where the locks of a protocol are kept: in a lock file, or in the kernel.
#[derive(Debug, Clone, Copy)]
pub enum ProtocolKind {
    /// A lock file with a record.
    Record,
    /// The kernel, without any record: how such a lock is looked at, awaited and ended.
    Kernel(&'static dyn WithoutRecord),
}

/// The questions that several protocols answer in their own way. The defaults are those of a lock that is valid for as
/// long as its process lives.
pub trait Protocol: fmt::Debug + Sync {
    /// The words that name the target in a command.
    fn part(&self, target: &Target) -> Part<'static> {
        Part::Words(vec![prefixed(target.scheme.prefix(), &target.typed)])
    }

    /// Where the lock itself lies, with its scheme.
    fn absolute(&self, target: &Target) -> OsString {
        prefixed(target.scheme.prefix(), target.path())
    }

    /// Whether the process `pid` holds the lock, proved by more than the number.
    fn is_held_by(&self, _look: &Look, _pid: i32) -> bool {
        false
    }

    /// Whether a guard of a Rust program can hold its locks; the error says why not.
    fn for_a_guard(&self, target: &Target) -> Result<(), String> {
        let hold = to_type("beadlock hold {} -- CMD", &[target.part()]);
        let given = &target.given;
        Err(format!(
            "{given} is kept up while it is held, which this kind of lock is not; run a command under it: {hold}"
        ))
    }

    /// The times of the lease that keeps the lock valid; `None`: it needs none.
    fn lease(&self, _held: &Held) -> Option<LeaseTimes> {
        None
    }

    /// Time until the lock is stale by time alone; `None`: no such time is known.
    fn fresh_for(
        &self,
        _record: &Record,
        _facts: Option<&Facts>,
        _options: &Options,
    ) -> Option<Duration> {
        None
    }
}

/// A wait for a holder that ran out.
#[derive(Debug)]
pub(crate) struct WaitOver<'a> {
    pub target: &'a Target,
    pub record: &'a Record,
    pub path: &'a str,
    pub holder: &'a str,
    pub age: Duration,
    pub wait: Wait,
    /// The words to append about a holder that is a zombie; empty where it is not one.
    pub zombie: &'a str,
    pub status: &'a str,
}

/// Somebody's data in the place of a lock.
#[derive(Debug)]
pub struct NotALock {
    /// `todo.json is not a lock file; did you mean file:todo.json or lock:todo.json.lock?`
    pub words: String,
    /// The targets that may have been meant: the file's own lock, and a lock file beside it.
    pub meant: [OsString; 2],
}

/// The longest lock file that is read, in bytes (docs/design.md#the-beads-rule).
pub const LONGEST_LOCK_FILE: u64 = 64 * 1024;
