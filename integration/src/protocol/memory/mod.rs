//! `memory:DIR`: the one lock of a directory, judged by its process and by its age, as the clawdbot document has it.

pub mod claim;
mod explained;
mod help;
pub mod status;

use std::path::{Path, PathBuf};
use std::{ffi::OsString, time::Duration};

use beadlock_base::{escape::escaped, filesystem::shared_file_system};
use beadlock_core::dialect::{Record, memory};
use beadlock_core::{Options, Place, Removed};
use beadlock_core::{
    database::NoDatabase, dialect::facts::Facts, look::Look, take::Held, target::Scheme,
};

use super::help::ProtocolHelp;
use super::{Args, Folder, Found, Intended, beads::Acceptance};
use crate::claim::explained::{Explained, Inspected};
use crate::claim::protocol::{Protocol, ProtocolRules, WaitOver};
use crate::claim::target::{Target, prefixed};
use crate::words::{Part, to_type};
use crate::{
    claim::lease::Limits, error::Error, settings::environment::Environment, settings::wait::Wait,
};

/// How long a claim waits for the holder where nobody says so: the document's 5 seconds.
pub const WAIT: Wait = Wait::UpTo(Duration::from_secs(5));

#[derive(Debug)]
pub struct Memory;

impl Protocol for Memory {
    fn rules(&self) -> ProtocolRules {
        ProtocolRules {
            options: claim::ALL,
            default_wait: WAIT,
            speaks_of_databases: false,
            makes_directory: true,
            released: Some("Lock released."),
            not_ours: "We don't hold the lock. ",
            breaks_unnamed: true,
            nothing_to_break: Some("No lock to break."),
            ..ProtocolRules::of(
                Scheme::Memory.prefix(),
                "directories with one lock (memory:DIR)",
            )
        }
    }

    fn ignores(&self, option: &str) -> Option<&'static str> {
        match option {
            "--holder" => Some("it has a session: --session-id NAME"),
            "--holder-version" => Some("its record has no version"),
            "--reap-proven-dead" => Some("what is not refreshed is stale after 30s by itself"),
            _ => None,
        }
    }

    fn absolute(&self, target: &Target) -> OsString {
        prefixed(self.prefix(), target.dir())
    }

    fn reentered(&self, target: &Target, pid: i32, options: &Options) -> Option<String> {
        claim::of_same_process(target, pid, options)
    }

    fn not_for_a_guard(&self, target: &Target) -> Option<String> {
        let hold = to_type("beadlock hold {} -- CMD", &[target.part()]);
        let given = &target.given;
        Some(format!(
            "{given} is kept up while it is held, which this kind of lock is not; run a command under it: {hold}, or \
             use what is for it in `memory`"
        ))
    }

    fn lease(&self, held: &Held) -> Option<Limits> {
        let limits = memory::Limits::default();
        // Others that write to the same file system judge it as another host's lock, which is stale sooner.
        let is_shared = held.path().parent().and_then(shared_file_system).is_some();
        let age = if is_shared {
            limits.age.min(limits.remote_age)
        } else {
            limits.age
        };
        let again = Duration::from_secs(1);
        Some(Limits {
            interval: memory::REFRESH,
            again,
            ..Limits::of(age.as_secs())
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

    fn is_its_lock(&self, look: &Look) -> bool {
        look.record
            .as_ref()
            .and_then(Record::as_memory)
            .is_some_and(memory::Record::is_typical)
    }

    fn timed_out(&self, waited: &WaitOver<'_>) -> String {
        let record = waited.record.as_memory();
        record
            .map(|record| memory::timed_out(record, waited.wait.limit()))
            .unwrap_or_default()
    }

    fn holder(&self, record: &Record, command: Option<&str>) -> String {
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

    fn removed(&self, removed: &Removed) -> Option<String> {
        Some(removed.breaking()).filter(|words| !words.is_empty())
    }

    fn broken(&self, record: &Record) -> Option<String> {
        let pid = record
            .as_memory()?
            .pid
            .map_or("unknown".to_owned(), |pid| pid.to_string());
        Some(format!("Broke lock held by PID {pid}"))
    }

    fn explain(&self, seen: &Inspected<'_>) -> Option<Explained> {
        explained::explain(seen)
    }

    fn document_status(
        &self,
        target: &Target,
        options: &Options,
        environment: &Environment,
    ) -> Option<Result<Vec<u8>, Error>> {
        Some(status::document(target, options, environment))
    }

    fn not_released(&self, target: &Target, record: &Record, error: &Error) -> String {
        let parts = [
            target.part(),
            Part::Value("--id", record.id().unwrap_or_default().as_ref()),
        ];
        let by_hand = to_type("beadlock break {} {} --even-if-live", &parts);
        format!(
            "{error}; it is stale 30 s after its last refresh, and goes by itself then; by hand: {by_hand}"
        )
    }
}

impl Folder for Memory {
    fn help(&self) -> ProtocolHelp {
        help::HELP
    }

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

    fn intended(
        &self,
        target: Target,
        typed: &Args,
        environment: &Environment,
    ) -> Result<Intended, Error> {
        claim::intended(target, &typed.memory, environment)
    }
}

/// The lock of the directory `dir`, which need not exist.
pub fn target(dir: &Path, cwd: &Path) -> Result<Target, NoDatabase> {
    Ok(Target::at_path(&Memory, Place::of_memory(dir, cwd)?, dir))
}
