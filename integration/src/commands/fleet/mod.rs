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

use std::ffi::OsStr;

use beadlock_checker::internal::database::{Directories, Suggest};
use clap::{Args, Subcommand};

use crate::claim::target::Target;
use crate::error::{End, Error};
use crate::output::Common;
use crate::protocol::{Acceptance, resolve};
use crate::settings::environment::Environment;

const HELP: &str = "\
A fleet lets one claim keep the agents of every machine away. It needs an etcd that all machines reach; where that is \
stands in /etc/beadlock/fleet.toml, else in ~/.config/beadlock/fleet.toml, or in the file that BEADLOCK_FLEET_CONFIG \
names:

  url = \"etcd://build-1:2379/beads\"

Examples:
  beadlock fleet create etcd://build-1:2379/beads   once
  beadlock fleet join acme/tracker                  in each clone
  beadlock hold -- make release                     from now on every claim of this database is one in the fleet
  beadlock fleet status

Exit 0: done. 1: no such fleet or name, not joined, or refused by the server. 2: the command line or fleet.toml is \
wrong. 5: no node answers (try again).";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct FleetArgs {
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// What to do with a fleet.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Make the fleet, once; then wait 15 seconds, since work under an earlier fleet may still have to end
    Create(create::CreateArgs),
    /// Take this clone of a database into the fleet, under a name that all its clones share
    Join(join::JoinArgs),
    /// Take this clone out of its fleet; works without etcd too
    Leave(leave::LeaveArgs),
    /// Show what is claimed, which agents and clones are in the fleet, and which clones nothing runs for
    Status,
    /// End a session of the fleet, of a claim or of an agent, that fleet status has shown
    Evict(evict::EvictArgs),
    /// End the fleet: all work under its claims and rights is ended, and nobody begins anything any more
    Destroy(destroy::DestroyArgs),
}

pub fn run(typed: &FleetArgs, environment: &Environment, common: &Common) -> End {
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
