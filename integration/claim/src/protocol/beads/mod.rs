//! `[beads:]DIR`: a beads database. Sync daemons run cycles on it; its lock is valid for as long as its process lives.

use crate::error::Problem;
use std::ffi::OsString;
use std::path::Path;

use beadlock_core::Place;
use beadlock_core::database::{self, Database, Directories, NoDatabase, Suggest};
use beadlock_core::look::Look;
use beadlock_core::target::{ParsedTarget as Parsed, Scheme};

use super::{Folder, Found, process};
use crate::observe::{Notice, Observer};
use crate::protocol::rules::{Protocol, ProtocolRules};
use crate::target::{Target, prefixed};
use crate::{environment::Environment, error::Error, words::Part};

/// The rules of the lock of a database.
pub const RULES: ProtocolRules = ProtocolRules {
    has_cycles: true,
    may_be_committed: true,
    then_unreadable: "every daemon skips",
    ..ProtocolRules::of("the directory of a database")
};

#[derive(Debug)]
pub(crate) struct Beads;

impl Protocol for Beads {
    fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        process::is_held_by(look, pid)
    }

    fn for_a_guard(&self, _target: &Target) -> Result<(), String> {
        Ok(())
    }

    fn part(&self, target: &Target) -> Part<'static> {
        Part::of_path(&target.typed)
    }

    fn absolute(&self, target: &Target) -> OsString {
        prefixed(target.scheme.prefix(), target.dir())
    }
}

impl Folder for Beads {
    fn find(&self, rest: &Path, environment: &Environment, acceptance: Acceptance<'_>) -> Found {
        let around = environment.of_database();
        let database =
            Database::named(rest, &around).and_then(|found| acceptance.of(found, &around));
        Ok(target(database?))
    }

    /// The database in exactly this directory: no redirect is followed.
    fn exact(&self, rest: &Path, given: &str) -> Found {
        let exported = prefixed(Scheme::Beads.prefix(), rest);
        let (place, given, typed) = (Place::beads(rest), given.to_owned(), rest.to_owned());
        Ok(Target {
            place,
            given,
            typed,
            exported,
            database: None,
            scheme: Scheme::Beads,
        })
    }
}

/// The target of this database: its lock lies in the directory that a redirect leads to.
pub fn target(database: Database) -> Target {
    let Database {
        dir, given, named, ..
    } = database.clone();
    // As the user knows it, where those words are the path itself.
    let typed = database.as_given().unwrap_or(&dir).to_owned();
    let typed = if is_plain(&typed) {
        typed
    } else {
        Path::new(".").join(typed)
    };
    let given = given_as(given);
    let exported = prefixed(Scheme::Beads.prefix(), &named);
    let place = Place::beads(dir);
    Target {
        place,
        given,
        typed,
        exported,
        database: Some(database.into()),
        scheme: Scheme::Beads,
    }
}

/// How the database in the directory `shown` is named in lines: with its scheme, where the name reads as one itself.
pub fn given_as(shown: String) -> String {
    if is_plain(Path::new(&shown)) {
        shown
    } else {
        format!("{}{shown}", Scheme::Beads.prefix())
    }
}

/// The path alone names this directory on a command line: it does not read as a scheme.
fn is_plain(path: &Path) -> bool {
    Parsed::parse(path.as_os_str())
        .is_ok_and(|parsed| parsed.scheme == Scheme::Beads && parsed.rest == path)
}

/// How a directory is treated that does not look like a database.
#[derive(Debug, Clone, Copy)]
pub enum Acceptance<'a> {
    /// The directory is accepted as a database, without a warning.
    Any,
    /// A claim or a cycle refuses the directory, unless an option insists.
    ToClaim(Directories, Suggest),
    /// A look warns of the directory, and answers.
    ToLookAt(&'a dyn Observer),
}

impl Acceptance<'_> {
    pub(crate) fn of(
        self,
        database: Database,
        around: &database::DatabaseVariables,
    ) -> Result<Database, NoDatabase> {
        match self {
            Self::Any => Ok(database),
            Self::ToClaim(directories, suggest) => database.accepted(directories, suggest, around),
            Self::ToLookAt(observer) => {
                if let Some(doubt) = database.doubt(Suggest::PathOrScheme, around) {
                    observer.notice(&Notice::Doubt(&doubt));
                }
                Ok(database)
            }
        }
    }

    pub(crate) fn insists(self) -> bool {
        matches!(self, Self::ToClaim(Directories::Any, _))
    }
}

/// The error, with exit 2, of `--any-directory` for a target that is no directory of a database; `given` names it.
pub fn any_directory_is_for_databases(given: &str) -> Error {
    Error::usage(format!(
        "--any-directory is for the directory of a database, and the target is {given}"
    ))
}
