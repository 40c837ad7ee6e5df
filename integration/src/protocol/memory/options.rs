//! The options that mean something to `memory:DIR` alone.

use std::time::Duration;

use beadlock_checker::internal::dialect::memory::{Limits, UNKNOWN};
use beadlock_checker::internal::{duration, escape::is_harmless};
use clap::Args;

use crate::{error::Error, settings::environment::Environment};

pub const HEADING: &str = "Directories with one lock (memory:DIR)";

const SESSION: &str = "CLAWDBOT_SESSION_ID";

/// What a record says that does not say what it is for.
const OPERATION: &str = "cli-test";

pub const ALL: &[&str] =
    &["--session-id", "--operation", "--no-break-stale", "--create", "--stale-after", "--stale-after-remote"];

/// How old a lock may become.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct Ages {
    /// How old the lock may become before it is stale [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, help_heading = HEADING)]
    pub stale_after: Option<Duration>,
    /// The same of another host's lock [default: 10s]
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
        let all = [
            ("--stale-after", self.stale_after.is_some()),
            ("--stale-after-remote", self.stale_after_remote.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option).collect()
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
    /// Let a stale lock stand
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
        let all = [
            ("--session-id", self.session_id.is_some()),
            ("--operation", self.operation.is_some()),
            ("--no-break-stale", self.no_break_stale),
            ("--create", self.create),
        ];
        let given = all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option);
        given.chain(self.ages.given()).collect()
    }
}

/// 1 to 128 printable characters.
fn name(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if (1..=128).contains(&count) && text.chars().all(is_harmless) {
        return Ok(text.to_owned());
    }
    Err(format!("is 1 to 128 printable characters; this one has {count}"))
}
