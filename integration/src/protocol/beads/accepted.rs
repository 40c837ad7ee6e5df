//! Which directories a command line takes for a database: a claim refuses one that does not look like it, and a look
//! warns.

use beadlock_checker::internal::database::{Database, Directories, Environment, NoDatabase, Suggest};

use crate::{error::Error, output::talk::Talk};

/// What becomes of a directory that does not look like a database.
#[derive(Debug, Clone, Copy)]
pub enum Acceptance<'a> {
    /// It is taken.
    Any,
    /// A claim or a cycle refuses it, unless an option insists.
    ToClaim(Directories, Suggest),
    /// A look warns of it, and answers.
    ToLookAt(&'a Talk),
}

impl Acceptance<'_> {
    pub fn of(self, database: Database, around: &Environment) -> Result<Database, NoDatabase> {
        match self {
            Self::Any => Ok(database),
            Self::ToClaim(directories, suggest) => database.accepted(directories, suggest, around),
            Self::ToLookAt(talk) => {
                let doubt = database.doubt(Suggest::PathOrScheme, around);
                doubt.iter().for_each(|doubt| talk.warn(&doubt.to_string()));
                Ok(database)
            }
        }
    }

    pub fn insists(self) -> bool {
        matches!(self, Self::ToClaim(Directories::Any, _))
    }
}

/// `--any-directory` was typed for a target that is not a database.
pub fn any_directory_is_for_databases(given: &str) -> Error {
    Error::usage(format!("--any-directory is for the directory of a database, and the target is {given}"))
}
