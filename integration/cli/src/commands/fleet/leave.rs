//! `beadlock fleet leave [TARGET]`: an operator's act, which works without etcd too.

use beadlock_claim::error::Problem;
use std::ffi::OsString;

use beadlock_base::escape::escaped_path;
use beadlock_core::database::Directories;
use beadlock_core::database::Suggest;
use beadlock_fleet::{ErrorKind, Fleet, MARK, mark};
use clap::Args;
use serde_json::{Value, json};

use crate::fleet::config::config;
use crate::fleet::error::fleet_error;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::protocol::{Acceptance, resolve};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{Console, answers::conclude};

const EXAMPLES: &str = "\
Examples:
  beadlock fleet leave";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = super::EXITS)]
pub struct LeaveArgs {
    /// The database's directory [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
}

pub fn run(typed: &LeaveArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let left = leave(typed, environment, common)
        .map_err(|error| (ProgramEnd::Code(error.exit().code()), error));
    conclude(common, left)
}

fn leave(typed: &LeaveArgs, environment: &Environment, common: &Console) -> Result<Value, Error> {
    let talk = &common.talk;
    // Also what does not look like a database any more has to get out.
    let acceptance = Acceptance::ToClaim(Directories::any(false), Suggest::PathOrScheme);
    let target = resolve(typed.target.as_deref(), environment, acceptance)?;
    let dir = target.dir();
    let found = match mark::read_in(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Mark => {
            talk.warn(&format!(
                "{error}; it is removed, and nothing in the fleet is told"
            ));
            None
        }
        Err(error) => return Err(fleet_error(error)),
    };
    if !mark::remove(dir).map_err(fleet_error)? {
        let message = format!(
            "{} has not joined a fleet: there is no {MARK} in it",
            target.given
        );
        return Err(Error::new(Code::NoTarget, message));
    }
    let told = match &found {
        Some(mark) => config(environment).and_then(|config| {
            let fleet = Fleet::of_mark(&config, mark).map_err(fleet_error)?;
            fleet.leave(mark).map_err(fleet_error)
        }),
        None => Ok(()),
    };
    if let Err(error) = &told {
        let path = escaped_path(dir);
        talk.warn(&format!(
            "{path} has left, and stands in the fleet's list until somebody joins as it again: {error}"
        ));
    }
    let name = found.as_ref().map(|mark| mark.name.as_str());
    let shown = name.unwrap_or("the fleet");
    talk.say(&format!(
        "{} has left {shown}: claims of other machines do not keep its agent away any more",
        target.given
    ));
    let is_told = told.is_ok() && found.is_some();
    Ok(json!({
        "target": target.name(), "path": dir.to_string_lossy(), "name": name, "left": true, "fleet_told": is_told,
    }))
}
