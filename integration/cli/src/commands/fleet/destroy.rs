//! `beadlock fleet destroy`.

use beadlock_claim::error::Problem;
use std::io::{self, BufRead, IsTerminal};

use beadlock_fleet::{Fleet, Overview};
use clap::Args;
use serde_json::{Value, json};

use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_base::words::counted;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};

const EXAMPLES: &str = "\
Examples:
  beadlock fleet destroy --yes";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = super::EXITS)]
pub struct DestroyArgs {
    /// Ask nothing
    #[arg(long)]
    pub yes: bool,
}

pub fn run(typed: &DestroyArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let destroyed = destroy(typed, environment, common)
        .map_err(|error| (ProgramEnd::Code(error.exit().code()), error));
    conclude(common, destroyed)
}

fn destroy(
    typed: &DestroyArgs,
    environment: &Environment,
    common: &Console,
) -> Result<Value, Error> {
    let fleet = Fleet::open(&config(environment)?).map_err(fleet_error)?;
    let (url, seen) = (
        fleet.url(),
        said_of(&fleet.overview().map_err(fleet_error)?),
    );
    if !typed.yes {
        consent(&url, &seen, common)?;
    }
    fleet.destroy().map_err(fleet_error)?;
    common.talk.say(&format!(
        "destroyed the fleet at {url}; clones that have joined it stand still until they leave, or join another one"
    ));
    Ok(json!({"url": url, "fleet": fleet.nonce(), "destroyed": true}))
}

fn said_of(overview: &Overview) -> String {
    let claims = counted(overview.claims.len(), "claim", "claims");
    let sessions = counted(overview.sessions.len(), "session", "sessions");
    format!(
        "{claims}, {sessions}, {}",
        counted(overview.members.len(), "clone", "clones")
    )
}

/// A person says yes on the terminal.
fn consent(url: &str, seen: &str, common: &Console) -> Result<(), Error> {
    if common.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!(
            "the fleet at {url} has {seen}; all work under it would be ended; to do that: add --yes"
        );
        return Err(Error::usage(message));
    }
    let talk = &common.talk;
    talk.ask(&format!(
        "the fleet at {url} has {seen}; all work under it is ended\nType yes to destroy it: "
    ));
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    match (read, line.trim()) {
        (Ok(_), "yes") => Ok(()),
        _ => Err(Error::new(
            Code::Io,
            "nobody said yes; the fleet was not touched",
        )),
    }
}
