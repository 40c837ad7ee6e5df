//! `memory:DIR`: the one lock of a directory, judged by its process and by its age, as the clawdbot document has it.

pub mod status;

use crate::error::Problem;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, time::Duration};

use beadlock_base::{
    error::system_words,
    escape::{escaped, escaped_path},
    filesystem::shared_file_system,
};
use beadlock_core::record::{Record, memory};
use beadlock_core::{Options, Place, Removed, Verdict};
use beadlock_core::{
    database::NoDatabase,
    facts::hostname,
    look::{Look, look},
    record::facts::Facts,
    take::Held,
    target::Scheme,
};

use super::{Folder, Found, beads::Acceptance};
use crate::protocol::rules::{Protocol, ProtocolRules, WaitOver};
use crate::target::{Target, prefixed};
use crate::words::{Part, to_type};
use crate::{environment::Environment, error::Error, lease::LeaseTimes, wait::Wait};

/// How long a claim waits for the holder where nobody says so: the document's 5 seconds.
pub const WAIT: Wait = Wait::UpTo(Duration::from_secs(5));

/// The rules of the lock of a directory.
pub const RULES: ProtocolRules = ProtocolRules {
    default_wait: WAIT,
    speaks_of_databases: false,
    makes_directory: true,
    released: Some("Lock released."),
    not_ours: "We don't hold the lock. ",
    breaks_unnamed: true,
    nothing_to_break: Some("No lock to break."),
    ..ProtocolRules::of("directories with one lock (memory:DIR)")
};

#[derive(Debug)]
pub(crate) struct Memory;

impl Protocol for Memory {
    fn absolute(&self, target: &Target) -> OsString {
        prefixed(target.scheme.prefix(), target.dir())
    }

    fn for_a_guard(&self, target: &Target) -> Result<(), String> {
        let hold = to_type("beadlock hold {} -- CMD", &[target.part()]);
        let given = &target.given;
        Err(format!(
            "{given} is kept up while it is held, which this kind of lock is not; run a command under it: {hold}, or \
             use what is for it in `memory`"
        ))
    }

    fn lease(&self, held: &Held) -> Option<LeaseTimes> {
        let limits = memory::Limits::default();
        // Others that write to the same file system judge it as another host's lock, which is stale sooner.
        let is_shared = held.path().parent().and_then(shared_file_system).is_some();
        let age = if is_shared {
            limits.age.min(limits.remote_age)
        } else {
            limits.age
        };
        let again = Duration::from_secs(1);
        Some(LeaseTimes {
            interval: memory::REFRESH,
            again,
            ..LeaseTimes::of(age.as_secs())
        })
    }

    fn fresh_for(
        &self,
        record: &Record,
        facts: Option<&Facts>,
        options: &Options,
    ) -> Option<Duration> {
        let facts = facts.filter(|_| !options.keep_stale)?;
        memory::fresh_for(record.as_memory()?, facts, &options.limits)
    }
}

impl Folder for Memory {
    fn find(&self, rest: &Path, environment: &Environment, _: Acceptance<'_>) -> Found {
        Ok(target(rest, &environment.of_database().cwd)?)
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        Ok(Target {
            given: given.to_owned(),
            ..target(rest, Path::new("/"))?
        })
    }

    fn by_letters(&self, rest: &Path, environment: &Environment) -> (PathBuf, PathBuf) {
        let at = environment.of_database().cwd.join(rest);
        (at.join(".lock"), at)
    }
}

/// The lock of the directory `dir`, which need not exist.
pub fn target(dir: &Path, cwd: &Path) -> Result<Target, NoDatabase> {
    Ok(Target::at_path(
        Scheme::Memory,
        Place::of_memory(dir, cwd)?,
        dir,
    ))
}

/// Makes the directory of the lock.
pub fn make(target: &Target) -> Result<(), Error> {
    fs::create_dir_all(target.dir()).map_err(|error| {
        let (shown, why) = (escaped_path(target.dir()), system_words(&error));
        Error::io(
            format!("the directory {shown} cannot be made: {why}"),
            error.kind(),
        )
    })
}

/// The id of the lock that this process of this host has already: the document lets it in again.
pub fn of_same_process(target: &Target, pid: i32, options: &Options) -> Option<String> {
    let there = look(&target.place, options);
    let record = there
        .record
        .as_ref()
        .filter(|_| matches!(there.verdict, Verdict::Held(_)))?
        .as_memory()?;
    let is_here = record
        .hostname
        .as_deref()
        .zip(hostname())
        .is_some_and(|(host, here)| host.eq_ignore_ascii_case(&here));
    there
        .id
        .filter(|_| is_here && record.pid == Some(pid.into()))
}

pub(crate) fn is_its_lock(look: &Look) -> bool {
    look.record
        .as_ref()
        .and_then(Record::as_memory)
        .is_some_and(memory::Record::is_typical)
}

pub(crate) fn timed_out(waited: &WaitOver<'_>) -> String {
    let record = waited.record.as_memory();
    record
        .map(|record| memory::timed_out(record, waited.wait.limit()))
        .unwrap_or_default()
}

pub(crate) fn holder(record: &Record, command: Option<&str>) -> String {
    let Some(memory) = record.as_memory() else {
        return String::new();
    };
    let (name, operation) = (escaped(record.holder()), escaped(memory.operation()));
    let pid = memory
        .pid
        .map_or("PID unknown".to_owned(), |pid| format!("PID {pid}"));
    let host = memory
        .hostname
        .as_ref()
        .map(|_| format!(", on {}", escaped(record.hostname())));
    let command = command
        .map(|command| format!(": {command}"))
        .unwrap_or_default();
    let host = host.unwrap_or_default();
    format!("session {name} for operation {operation} ({pid}{command}{host})")
}

pub(crate) fn removed(removed: &Removed) -> Option<String> {
    Some(removed.breaking()).filter(|words| !words.is_empty())
}

pub(crate) fn broken(record: &Record) -> Option<String> {
    let pid = record
        .as_memory()?
        .pid
        .map_or("unknown".to_owned(), |pid| pid.to_string());
    Some(format!("Broke lock held by PID {pid}"))
}

pub(crate) fn not_released(target: &Target, record: &Record, error: &Error) -> String {
    let parts = [
        target.part(),
        Part::Value("--id", record.id().unwrap_or_default().as_ref()),
    ];
    let by_hand = to_type("beadlock break {} {} --even-if-live", &parts);
    format!(
        "{error}; it is stale 30 s after its last refresh, and goes by itself then; by hand: {by_hand}"
    )
}
