//! A claim of the lock of a directory: its options, what it says, and the directory that it may make for it.

use std::{fs, time::Duration};

use beadlock_base::escape::{escaped_path, is_harmless};
use beadlock_base::{duration, error::system_words};
use beadlock_core::dialect::memory::{Limits, UNKNOWN};
use beadlock_core::facts::{hostname, now};
use beadlock_core::{Options, Verdict};
use beadlock_core::{dialect::memory, look::look};
use clap::Args;

use crate::error::{Code, Error};
use crate::protocol::{ClaimWords, Claimant, Intended};
use crate::{
    claim::target::Target, protocol::arguments::given, settings::environment::Environment,
};

/// The claim of `target`. Only `--create` makes the directory: else a typing mistake would claim a new directory.
pub fn intended(
    target: Target,
    typed: &MemoryArgs,
    environment: &Environment,
) -> Result<Intended, Error> {
    let (session, operation) = (typed.session(environment)?, typed.operation().to_owned());
    match typed.create {
        true => make(&target)?,
        false if target.is_nowhere() => {
            let given = &target.given;
            let message = format!(
                "the directory of {given} does not exist; name another, or make it: --create"
            );
            return Err(Error::new(Code::NoTarget, message));
        }
        false => {}
    }
    Ok(Intended::Claim(target.into(), words(session, operation)))
}

pub fn words(session: String, operation: String) -> ClaimWords {
    let words = ClaimWords::new(move |Claimant { holder, id, labels }, pid| {
        let about = labels.about.clone();
        let mark = memory::Mark {
            about,
            ..memory::Mark::of(pid, id.to_owned())
        };
        let (at, host) = (
            mark.started_at.unwrap_or_else(now),
            hostname().map(|name| name.to_string()),
        );
        Ok(memory::Record::of_claim((pid, mark), (holder, &operation), at, host).into())
    });
    ClaimWords {
        holder: Some(session),
        ..words
    }
}

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

pub const HEADING: &str = "Directories with one lock (memory:DIR)";

const SESSION: &str = "CLAWDBOT_SESSION_ID";

/// What a record says that does not say what it is for.
const OPERATION: &str = "cli-test";

pub const ALL: &[&str] = &[
    "--session-id",
    "--operation",
    "--no-break-stale",
    "--create",
    "--stale-after",
    "--stale-after-remote",
];

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct Ages {
    /// How old the lock may become before it is stale [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, help_heading = HEADING)]
    pub stale_after: Option<Duration>,
    /// How old the lock of another host may become before it is stale [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, help_heading = HEADING)]
    pub stale_after_remote: Option<Duration>,
}

impl Ages {
    pub fn limits(&self) -> Limits {
        let Limits { age, remote_age } = Limits::default();
        Limits {
            age: self.stale_after.unwrap_or(age),
            remote_age: self.stale_after_remote.unwrap_or(remote_age),
        }
    }

    pub fn given(&self) -> Vec<&'static str> {
        given([
            ("--stale-after", self.stale_after.is_some()),
            ("--stale-after-remote", self.stale_after_remote.is_some()),
        ])
    }
}

#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct MemoryArgs {
    /// Which session holds the lock [env: CLAWDBOT_SESSION_ID] [default: unknown]
    #[arg(long, value_name = "NAME", value_parser = name, help_heading = HEADING)]
    pub session_id: Option<String>,
    /// What it is held for [default: cli-test]
    #[arg(long, value_name = "TEXT", value_parser = name, help_heading = HEADING)]
    pub operation: Option<String>,
    /// Do not take a stale lock
    #[arg(long, help_heading = HEADING)]
    pub no_break_stale: bool,
    /// Make the directory where it does not exist
    #[arg(long, help_heading = HEADING)]
    pub create: bool,
    #[command(flatten)]
    pub ages: Ages,
}

impl MemoryArgs {
    /// Which session, by the command line, else by the environment.
    pub fn session(&self, environment: &Environment) -> Result<String, Error> {
        let named = match &self.session_id {
            Some(name) => Some(name.clone()),
            None => environment.parsed(SESSION, name)?,
        };
        Ok(named.unwrap_or_else(|| UNKNOWN.to_owned()))
    }

    pub fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or(OPERATION)
    }

    pub fn given(&self) -> Vec<&'static str> {
        let given = given([
            ("--session-id", self.session_id.is_some()),
            ("--operation", self.operation.is_some()),
            ("--no-break-stale", self.no_break_stale),
            ("--create", self.create),
        ]);
        [given, self.ages.given()].concat()
    }
}

fn name(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if (1..=128).contains(&count) && text.chars().all(is_harmless) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "is 1 to 128 printable characters; this one has {count}"
    ))
}
