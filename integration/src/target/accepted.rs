//! Which directories a command line takes for a database: a claim refuses one that does not look like it, and a look
//! warns.

use std::ffi::OsStr;

use beadlock_checker::internal::database::{Directories, Suggest};

use super::{Found, Kind};
use crate::error::Error;
use crate::output::talk::Talk;
use crate::settings::environment::Environment;

impl Found {
    /// [`Found::resolve`] for a claim or a cycle: without an option that insists, a directory must look like a
    /// database.
    ///
    /// # Errors
    /// As [`Found::resolve`]; exit 2 for a directory that does not look like a database.
    pub fn to_claim(
        named: Option<&OsStr>,
        (directories, suggest): (Directories, Suggest),
        environment: &Environment,
    ) -> Result<Self, Error> {
        let found = Self::resolve_to(named, environment, |database, around| {
            database.accepted(directories, suggest, around)
        })?;
        match directories {
            Directories::Any if found.kind != Kind::Beads => {
                Err(any_directory_is_for_databases(&found.given))
            }
            _ => Ok(found),
        }
    }

    /// [`Found::resolve`] for a look, which warns of such a directory and answers.
    ///
    /// # Errors
    /// As [`Found::resolve`].
    pub fn to_look_at(named: Option<&OsStr>, environment: &Environment, talk: &Talk) -> Result<Self, Error> {
        Self::resolve_to(named, environment, |database, around| {
            let doubt = database.doubt(Suggest::PathOrScheme, around);
            doubt.iter().for_each(|doubt| talk.warn(&doubt.to_string()));
            Ok(database)
        })
    }
}

/// `--any-directory` was typed for a target that is not a database.
pub fn any_directory_is_for_databases(given: &str) -> Error {
    Error::usage(format!("--any-directory is for the directory of a database, and the target is {given}"))
}
