//! From the words of a command line to a target.

use std::{ffi::OsStr, path::PathBuf};

use beadlock_checker::internal::database::{Database, NoDatabase};
use beadlock_checker::internal::target::{Scheme, Target as Parsed};

use super::beads::{self, Acceptance, any_directory_is_for_databases};
use super::{answers_for, folder};
use crate::claim::target::{Target, not_found};
use crate::error::Error;
use crate::settings::environment::{Environment, unquoted_target};

/// Why a folder has no target.
#[derive(Debug)]
pub enum Unfound {
    NoDatabase(NoDatabase),
    Error(Error),
}

impl From<NoDatabase> for Unfound {
    fn from(error: NoDatabase) -> Self {
        Self::NoDatabase(error)
    }
}

impl From<Error> for Unfound {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Unfound {
    fn of_variable(self, name: &str) -> Self {
        match self {
            Self::NoDatabase(error) => Self::NoDatabase(error.of_variable(name)),
            Self::Error(error) => {
                Self::Error(Error { message: format!("${name}: {}", error.message), ..error })
            }
        }
    }
}

impl From<Unfound> for Error {
    fn from(unfound: Unfound) -> Self {
        match unfound {
            Unfound::NoDatabase(error) => not_found(&error),
            Unfound::Error(error) => error,
        }
    }
}

/// The target named on the command line; without a name `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest `.beads`.
pub fn resolve(
    named: Option<&OsStr>,
    environment: &Environment,
    acceptance: Acceptance<'_>,
) -> Result<Target, Error> {
    answers_for(named, environment)?;
    let around = environment.of_database();
    let Some(text) = named.map(OsStr::to_owned).or_else(|| around.target.clone()) else {
        let found = Database::find(&around).and_then(|database| acceptance.of(database, &around));
        return found.map(beads::target).map_err(|error| not_found(&error));
    };
    let parsed = Parsed::parse(&unquoted_target(&text)).map_err(Unfound::from);
    let found =
        parsed.and_then(|Parsed { scheme, rest }| folder(scheme).find(&rest, environment, acceptance));
    let found = found.map_err(|unfound| match named {
        None => unfound.of_variable("BEADLOCK_TARGET"),
        Some(_) => unfound,
    })?;
    let is_database = found.database.is_some();
    if acceptance.insists() && !is_database {
        Err(any_directory_is_for_databases(&found.given))
    } else {
        Ok(found)
    }
}

/// The target that [`Target::absolute`] has named, as it is: no redirect is followed. `given` is for lines.
pub fn exact(absolute: &OsStr, given: &str) -> Result<Target, Error> {
    let Parsed { scheme, rest } = Parsed::parse(absolute).map_err(|error| not_found(&error))?;
    folder(scheme).exact(&rest, given).map_err(Error::from)
}

/// The directory below which `list` is to look; `Err` is what else the root names: a file, or a lock.
pub fn root(text: &OsStr) -> Result<Result<PathBuf, &'static str>, Error> {
    let Parsed { scheme, rest } = Parsed::parse(text).map_err(|error| not_found(&error))?;
    Ok(match scheme {
        Scheme::Beads => Ok(rest),
        Scheme::File => Err("file"),
        _ => Err("lock"),
    })
}
