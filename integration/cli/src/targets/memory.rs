//! `memory:DIR` on a command line: its options, and the directory that a claim may make.

use beadlock_claim::error::Problem;
use std::time::Duration;

use beadlock_base::{duration, escape::is_harmless};
use beadlock_core::record::memory::UNKNOWN;
use clap::Args;

use super::{Claimer, ProtocolHelp, Requested, arguments::given};
use beadlock_claim::draft::RecordDraft;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::request::{ClaimRequest, LockDraft};
use beadlock_claim::{
    environment::Environment,
    protocol::{LookOptions, memory::make},
    target::Target,
};

/// The claim of `target`. Only `--create` makes the directory: else a typing mistake would claim a new directory.
pub fn request(
    target: Target,
    typed: &MemoryArgs,
    claimer: Claimer<'_>,
) -> Result<Requested, Error> {
    let session = typed.session(claimer.environment)?;
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
    let draft = LockDraft::Record(RecordDraft::Memory {
        operation: typed.operation().to_owned(),
        about: claimer.about(),
    });
    Ok(ClaimRequest {
        holder: session,
        ..claimer.request(target, draft)
    }
    .into())
}

pub const HEADING: &str = "Directories with one lock (memory:DIR)";

const SESSION: &str = "CLAWDBOT_SESSION_ID";

/// The operation in a record when `--operation` was not typed.
const OPERATION: &str = "cli-test";

/// The options that it understands beside those of every claim.
pub const OPTIONS: &[&str] = &[
    "--session-id",
    "--operation",
    "--no-break-stale",
    "--create",
    "--stale-after",
    "--stale-after-remote",
];

/// Why an option of every claim does nothing with the lock of a directory.
pub fn ignores(option: &str) -> Option<&'static str> {
    match option {
        "--holder" => Some("it has a session: --session-id NAME"),
        "--holder-version" => Some("its record has no version"),
        "--reap-proven-dead" => Some("what is not refreshed is stale after 30s by itself"),
        _ => None,
    }
}

/// The page of `beadlock help memory`.
pub const HELP: ProtocolHelp = ProtocolHelp {
    about: "A directory with one lock: memory:DIR",
    text: "\
The lock is one file in DIR. It says which session holds it, and for which operation.

A lock is valid while its process lives and it is younger than --stale-after. beadlock renews it while the command \
runs. A claim takes a stale lock, unless --no-break-stale is given. It waits up to 5 seconds for the holder.",
    examples: "\
beadlock hold memory:state --operation compact -- ./compact.sh
beadlock status memory:state",
    heading: HEADING,
};

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
    /// The limits on a lock's age that were typed, as plain data.
    pub fn look(&self) -> LookOptions {
        LookOptions {
            stale_after: self.stale_after,
            stale_after_remote: self.stale_after_remote,
        }
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
    /// The session of the command line, else of the environment, else "unknown".
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
        [given, self.ages.look().given()].concat()
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
