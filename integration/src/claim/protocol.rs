//! What a claim needs of the protocol of its lock. The engine knows no protocol by name: it asks this trait, which
//! each folder of `protocol` implements.

use std::path::{Path, PathBuf};
use std::{ffi::OsString, fmt, time::Duration};

use beadlock_base::escape::escaped;
use beadlock_core::{Options, Removed, Verdict};
use beadlock_core::{
    dialect::{Record, facts::Facts},
    look::Look,
    take::Held,
};
use serde_json::Value;

use super::explained::{Explained, Inspected};
use super::target::{Target, prefixed};
use super::{kernel_lock::WithoutRecord, lease::Limits};
use crate::words::{Part, shown_age, to_type};
use crate::{
    error::Error, output::talk::Talk, output::trail::DocumentEvents,
    settings::environment::Environment, settings::wait::Wait,
};

/// What is fixed about one protocol.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolRules {
    /// The scheme of its targets, with the colon.
    pub prefix: &'static str,
    /// What its locks are called in messages: `named locks (tower:NAME)`.
    pub kind: &'static str,
    /// The options that it understands beside those of every claim.
    pub options: &'static [&'static str],
    /// How long a claim waits for a holder where nobody says so.
    pub default_wait: Wait,
    /// What a check says of its locks speaks of a database, as a sync daemon's log does.
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
    /// A lock that is lost and could still be removed leaves, after the line of the loss, that of a release.
    pub lost_is_released: bool,
    /// What `release` says when the lock is gone, where the document has words for it.
    pub released: Option<&'static str>,
    /// What `release` says first of a lock that is not one's own.
    pub not_ours: &'static str,
    /// Its place has one lock at most, so `break` needs no option that names it.
    pub breaks_unnamed: bool,
    /// What `break` says where there is no lock, where the document has words for it.
    pub nothing_to_break: Option<&'static str>,
    /// What follows where the lock goes stale by itself.
    pub then_stale: &'static str,
    /// What follows an unreadable lock.
    pub then_unreadable: &'static str,
}

impl ProtocolRules {
    /// The defaults are those of a lock that is valid for as long as its process lives.
    pub fn of(prefix: &'static str, kind: &'static str) -> Self {
        Self {
            prefix,
            kind,
            options: &[],
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

/// The rules and the words of one protocol. The defaults are those of a lock that is valid for as long as its process
/// lives.
pub trait Protocol: fmt::Debug + Sync {
    fn rules(&self) -> ProtocolRules;

    /// The scheme of its targets, with the colon.
    fn prefix(&self) -> &'static str {
        self.rules().prefix
    }

    /// Why an option of every claim does nothing here; `None`: it does what it says.
    fn ignores(&self, _option: &str) -> Option<&'static str> {
        None
    }

    /// The words that name the target in a command.
    fn part(&self, target: &Target) -> Part<'static> {
        Part::Words(vec![prefixed(self.prefix(), &target.typed)])
    }

    fn lock_file(&self, target: &Target) -> PathBuf {
        target.place.path()
    }

    /// Where the lock itself lies, with its scheme.
    fn absolute(&self, target: &Target) -> OsString {
        prefixed(self.prefix(), target.path())
    }

    /// Makes what a claim needs to exist; returns what is to be said of that.
    fn prepare(
        &self,
        _target: &Target,
        _environment: &Environment,
    ) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// The directory that the protocol's document names, where the target lies in another one. A lock in one directory
    /// keeps nobody out who looks in the other.
    fn not_in(&self, _target: &Target) -> Option<&'static str> {
        None
    }

    /// What is to be known of the target's directory before its lock is trusted.
    fn warnings(&self, _target: &Target) -> Vec<String> {
        Vec::new()
    }

    /// The variable, and its value, without which `Target::exported` does not lead to the target.
    fn exported_besides(
        &self,
        _target: &Target,
        _environment: &Environment,
    ) -> Option<(&'static str, PathBuf)> {
        None
    }

    /// What the claim `id` is called in the list of the claims that a process runs in.
    fn name_of_claim(&self, id: &str, _target: &Target) -> String {
        id.to_owned()
    }

    /// The files that a report or an audit trail must not be written to.
    fn own_files(&self, target: &Target) -> Vec<PathBuf> {
        vec![target.path()]
    }

    /// The id of the lock that the process `pid` has already, where the protocol lets it in once more.
    fn reentered(&self, _target: &Target, _pid: i32, _options: &Options) -> Option<String> {
        None
    }

    /// The lock is that of the process `pid`, proved by more than the number.
    fn is_held_by(&self, _look: &Look, _pid: i32) -> bool {
        false
    }

    /// Why a guard of a Rust program cannot hold its locks; `None`: it can.
    fn not_for_a_guard(&self, target: &Target) -> Option<String> {
        let hold = to_type("beadlock hold {} -- CMD", &[target.part()]);
        let given = &target.given;
        Some(format!(
            "{given} is kept up while it is held, which this kind of lock is not; run a command under it: {hold}"
        ))
    }

    /// The times of the lease that keeps the lock valid; `None`: it needs none.
    fn lease(&self, _held: &Held) -> Option<Limits> {
        None
    }

    /// How long the lock is not stale yet, by time alone.
    fn fresh_for(
        &self,
        _record: &Record,
        _facts: Option<&Facts>,
        _options: &Options,
    ) -> Option<Duration> {
        None
    }

    /// Which lock file there is for it: many a file has such a name.
    fn is_its_lock(&self, look: &Look) -> bool {
        look.verdict != Verdict::Free
    }

    /// What lies in the place of the lock and is somebody's data.
    fn not_a_lock(&self, _look: &Look, _target: &Target) -> Option<NotALock> {
        None
    }

    /// Why an empty file may lie in the place of the lock, where that is one.
    fn why_empty(&self, _look: &Look) -> Option<&'static str> {
        None
    }

    /// What cannot be understood there may be somebody's data, and not a lock.
    fn may_be_data(&self, _look: &Look) -> bool {
        false
    }

    /// What a claim says whose wait for the holder ran out; `status` is the command that shows more.
    fn timed_out(&self, waited: &WaitOver<'_>) -> String {
        let WaitOver {
            path,
            holder,
            age,
            wait,
            zombie,
            status,
            ..
        } = waited;
        let age = shown_age(*age);
        format!("{path} is held by {holder} for {age}; {wait}{zombie}; who and why: {status}")
    }

    /// What the protocol's document answers where the lock is held.
    fn answer_held(&self, _record: &Record) -> Option<Value> {
        None
    }

    /// What it answers where the lock is stale, after this long without a heartbeat.
    fn answer_stale(&self, _record: &Record, _age: Duration) -> Option<Value> {
        None
    }

    /// The holder of the lock: `make (PID 77: make release, on ci-3)`; `command` is of a process of this machine.
    fn holder(&self, record: &Record, command: Option<&str>) -> String {
        let (name, host) = (escaped(record.holder()), escaped(record.hostname()));
        let command = command
            .map(|command| format!(": {command}"))
            .unwrap_or_default();
        format!("{name} (PID {}{command}, on {host})", record.pid())
    }

    /// What is said of a stale lock that was removed; `None`: what was removed was not a lock.
    fn removed(&self, removed: &Removed) -> Option<String> {
        let Removed { record, reason, .. } = removed;
        let name = escaped(record.holder());
        Some(format!(
            "removed stale lock of {name} (PID {}, {reason})",
            record.pid()
        ))
    }

    /// What `break` says first of a lock that it has broken, where the document has words for it.
    fn broken(&self, _record: &Record) -> Option<String> {
        None
    }

    /// What becomes of a lock that was not released, and what to type.
    fn not_released(&self, target: &Target, _record: &Record, error: &Error) -> String {
        let check = to_type("beadlock check {}", &[target.part()]);
        format!("{error}; once this has ended, type: {check}")
    }

    /// The events that its document wants written down for the claim `id`, in `file` or where the document says.
    fn events<'a>(
        &self,
        _file: Option<&Path>,
        _id: &str,
        _target: &Target,
        _talk: &'a Talk,
    ) -> Option<Box<dyn DocumentEvents + 'a>> {
        None
    }

    /// The options that a claim must have besides, as `status` says them.
    fn options_of_claim(&self, _record: Option<&Record>) -> Vec<OsString> {
        Vec::new()
    }

    /// What a lock of it amounts to that has a record; `None`: there is nothing to explain.
    fn explain(&self, _seen: &Inspected<'_>) -> Option<Explained> {
        None
    }

    /// For how long its holder has said nothing; `None`: it sends no heartbeats.
    fn silence(&self, _look: &Look) -> Option<Duration> {
        None
    }

    /// The status as its document has it, in place of the lock file's bytes.
    fn document_status(
        &self,
        _target: &Target,
        _options: &Options,
        _environment: &Environment,
    ) -> Option<Result<Vec<u8>, Error>> {
        None
    }

    /// How a lock without a record is looked at, awaited and ended; `None`: its record says all of that.
    fn without_record(&self) -> Option<&'static dyn WithoutRecord> {
        None
    }
}

/// A wait for a holder that ran out.
#[derive(Debug)]
pub struct WaitOver<'a> {
    pub target: &'a Target,
    pub record: &'a Record,
    pub path: &'a str,
    pub holder: &'a str,
    pub age: Duration,
    pub wait: Wait,
    /// What is said of a holder that is a zombie.
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

/// Makes the record of a claim, for a process, as of now. It fails when what it says is not fit for a record.
pub type MakeRecord<'a> = Box<dyn Fn(u32) -> Result<Record, Error> + 'a>;
