//! What is typed for the lock of a directory, and what means nothing to it: whoever types an option believes that it
//! does something.

use std::time::Duration;

use beadlock_checker::internal::dialect::memory::{Limits, UNKNOWN};
use beadlock_checker::internal::duration;
use beadlock_checker::internal::escape::is_harmless;
use clap::Args;

use crate::error::Error;
use crate::settings::environment::Environment;
use crate::target::Found;

/// Where `--help` puts them.
pub const HEADING: &str = "Directories with one lock (memory:DIR)";

/// The variable that names the session.
const SESSION: &str = "CLAWDBOT_SESSION_ID";

/// What a record says that does not say what it is for.
const OPERATION: &str = "cli-test";

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
    /// As typed, over the document's.
    pub fn limits(&self) -> Limits {
        let Limits { age, remote_age } = Limits::default();
        Limits {
            age: self.stale_after.unwrap_or(age),
            remote_age: self.stale_after_remote.unwrap_or(remote_age),
        }
    }

    /// With a target of another kind.
    ///
    /// # Errors
    /// Exit 2 for an option of these.
    pub fn refuse_for(&self, target: &str) -> Result<(), Error> {
        let given = self.stale_after.map(|_| "--stale-after");
        refuse(given.or(self.stale_after_remote.map(|_| "--stale-after-remote")), target)
    }

    /// With this target, unless it is the lock of a directory.
    ///
    /// # Errors
    /// As [`Ages::refuse_for`].
    pub fn for_target(&self, target: &Found) -> Result<Limits, Error> {
        if !target.has_age() {
            self.refuse_for(&target.given)?;
        }
        Ok(self.limits())
    }
}

/// What a claim takes besides.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct Typed {
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

impl Typed {
    /// Which session, by the command line, else by the environment.
    ///
    /// # Errors
    /// Exit 2 for a name in the environment that none may have.
    pub fn session(&self, environment: &Environment) -> Result<String, Error> {
        let named = match &self.session_id {
            Some(name) => Some(name.clone()),
            None => environment.parsed(SESSION, name)?,
        };
        Ok(named.unwrap_or_else(|| UNKNOWN.to_owned()))
    }

    /// What it is held for.
    pub fn operation(&self) -> &str {
        self.operation.as_deref().unwrap_or(OPERATION)
    }

    /// With a target of another kind.
    ///
    /// # Errors
    /// Exit 2 for an option of these.
    pub fn refuse_for(&self, target: &str) -> Result<(), Error> {
        let given = self.session_id.as_ref().map(|_| "--session-id");
        let given = given.or(self.operation.as_ref().map(|_| "--operation"));
        let given = given.or(self.no_break_stale.then_some("--no-break-stale"));
        refuse(given.or(self.create.then_some("--create")), target)?;
        self.ages.refuse_for(target)
    }
}

fn refuse(given: Option<&str>, target: &str) -> Result<(), Error> {
    match given {
        None => Ok(()),
        Some(option) => Err(Error::usage(format!(
            "{option} is for directories with one lock (memory:DIR), and the target is {target}"
        ))),
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
