//! What a claim takes for one protocol alone, and what each of them refuses.

use std::ffi::OsStr;
use std::path::Path;

use beadlock_checker::Options;
use clap::Args as ClapArgs;

use crate::error::Error;
use crate::file::{self, FileTarget};
use crate::memory;
use crate::output::files::{Output, refuse};
use crate::settings::arguments::ClaimArgs;
use crate::settings::environment::Environment;
use crate::target::{Found, NAMED_IS_NOT_REAPED, any_directory_is_for_databases};
use crate::tower;

/// The options of `hold` and `acquire` that mean something to one protocol.
#[derive(Debug, Clone, ClapArgs)]
#[group(skip)]
pub struct Args {
    /// Of a named lock that is held or stale print what its document answers, and nothing else
    #[arg(long, conflicts_with = "json", help_heading = tower::options::HEADING)]
    pub raw: bool,
    #[command(flatten)]
    pub file: file::options::Typed,
    #[command(flatten)]
    pub memory: memory::options::Typed,
    #[command(flatten)]
    pub tower: tower::options::Typed,
}

impl Args {
    /// What they say of which locks count as dead.
    pub fn options(&self) -> Options {
        Options {
            force_lock: self.tower.force_lock,
            keep_stale: self.memory.no_break_stale,
            limits: self.memory.ages.limits(),
            ..Options::default()
        }
    }
}

/// What was typed and means nothing to a named lock, and what does.
pub fn not_for_named(holder: Option<&String>, claim: &ClaimArgs) -> Option<(&'static str, &'static str)> {
    if holder.is_some() {
        return Some(("--holder", "it has an actor: --actor NAME"));
    }
    claim.reap_proven_dead.then_some(("--reap-proven-dead", NAMED_IS_NOT_REAPED))
}

/// What was typed of the options that mean nothing to a file; `also` are those of one command alone.
///
/// # Errors
/// Exit 2 when there is one.
pub fn refuse_for_file(
    target: &str,
    holder: Option<&String>,
    (claim, args): (&ClaimArgs, &Args),
    also: Option<&'static str>,
) -> Result<(), Error> {
    args.memory.refuse_for(target)?;
    if claim.any_directory {
        return Err(any_directory_is_for_databases(target));
    }
    tower::options::refuse_for(target, args.tower.given().or(also).or(args.raw.then_some("--raw")))?;
    let wrong = [
        ("--holder", holder.is_some(), "an flock has no name, only a process"),
        ("--drain", claim.drain.is_some(), "it has no cycles: --wait is all the waiting there is"),
        ("--reap-proven-dead", claim.reap_proven_dead, file::options::NOTHING_TO_REAP),
    ];
    match wrong.into_iter().find(|(_, is_typed, _)| *is_typed) {
        Some((option, _, why)) => Err(file::options::means_nothing(option, why)),
        None => Ok(()),
    }
}

/// Refuses a report, before anything is said or written, that is the lock of the target of a command line. A target
/// that is not found has no lock: that is said elsewhere.
///
/// # Errors
/// Exit 2.
pub fn refuse_report(
    file: Option<&Path>,
    target: Option<&OsStr>,
    environment: &Environment,
) -> Result<(), Error> {
    let Some(path) = file else { return Ok(()) };
    if let Ok(Some(target)) = FileTarget::meant(target, environment) {
        return refuse(Output::Report, file, &[target.lock(), target.file()]);
    }
    match Found::resolve(target, environment) {
        // Its file system does not answer: that is said elsewhere, too.
        Err(_) if !environment.remote().may_touch(path) => Ok(()),
        Ok(found) => refuse(Output::Report, file, &[&found.path()]),
        Err(_) => refuse(Output::Report, file, &[]),
    }
}
