//! `beadlock fleet`: claims across machines (docs/fleet.md). The commands that make a fleet, take clones into it and
//! out of it, and show it.
//!
//! ```text
//! create.rs   make the fleet, and wait until everybody may begin
//! join.rs     this clone joins, under a name
//! leave.rs    this clone leaves
//! status.rs   who is in it, and what is claimed
//! evict.rs    end a session of somebody
//! destroy.rs  end the fleet
//! ```

mod create;
mod destroy;
pub mod evict;
mod join;
mod leave;
mod status;

use beadlock_claim::error::Problem;
use std::ffi::OsStr;

use beadlock_core::database::{Directories, Suggest};
use clap::{Args, Subcommand};

use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_claim::target::Target;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;

const EXAMPLES: &str = "\
Examples:
  beadlock fleet create etcd://build-1:2379/beads   # once
  beadlock fleet join acme/tracker                  # in each clone
  beadlock hold -- make release                     # claims it on every machine
  beadlock fleet status";

const HELP: &str = "\
A fleet lets one claim keep the agents of every machine away from a database. It needs an etcd that all machines \
reach. The file fleet.toml says where that is. It is in /etc/beadlock, else in ~/.config/beadlock, unless \
BEADLOCK_FLEET_CONFIG names another file. fleet create writes it when it is given a URL:
  url = \"etcd://build-1:2379/beads\"";

const EXITS: &str = "\
Exit codes:
  0  done
  1  there is no such fleet or name, the clone has not joined, or etcd refuses
  2  the command line or fleet.toml is wrong
  5  no node of etcd answers: try again";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = HELP)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What to do with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Make the fleet, once for all machines
    Create(create::CreateArgs),
    /// Take this clone of a database into the fleet
    Join(join::JoinArgs),
    /// Take this clone out of its fleet, also without etcd
    Leave(leave::LeaveArgs),
    /// Show the claims, the agents and the clones of the fleet
    #[command(after_help = EXITS)]
    Status,
    /// End the session of a claim or of an agent by force
    Evict(evict::EvictArgs),
    /// End the fleet, and all work under its claims
    Destroy(destroy::DestroyArgs),
}

pub fn run(typed: &FleetArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    match &typed.command {
        FleetCommand::Create(typed) => create::run(typed, environment, common),
        FleetCommand::Join(typed) => join::run(typed, environment, common),
        FleetCommand::Leave(typed) => leave::run(typed, environment, common),
        FleetCommand::Status => status::run(environment, common),
        FleetCommand::Evict(typed) => evict::run(typed, environment, common),
        FleetCommand::Destroy(typed) => destroy::run(typed, environment, common),
    }
}

/// The database that joins or leaves. Exit 2 for another kind of target.
fn database(named: Option<&OsStr>, environment: &Environment) -> Result<Target, Error> {
    let acceptance = Acceptance::ToClaim(Directories::any(false), Suggest::PathOrScheme);
    let target = resolve(named, environment, acceptance)?;
    if target.database.is_none() {
        return Err(Error::usage(format!(
            "only a beads database joins a fleet, and {} is another kind of lock",
            target.given
        )));
    }
    Ok(target)
}
