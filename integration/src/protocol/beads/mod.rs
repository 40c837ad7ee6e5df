//! `[beads:]DIR`: a beads database. Sync daemons run cycles on it; its lock is valid for as long as its process lives.

mod accepted;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use beadlock_checker::Place;
use beadlock_checker::internal::Look;
use beadlock_checker::internal::database::Database;
use beadlock_checker::internal::target::{Scheme, Target as Parsed};

pub use accepted::{Acceptance, any_directory_is_for_databases};

use super::{Folder, Unfound, process};
use crate::claim::explained::{Explained, Inspected};
use crate::claim::protocol::Protocol;
use crate::claim::target::{Target, prefixed};
use crate::settings::environment::Environment;
use crate::words::Part;

/// The exclusive lock of a beads database.
#[derive(Debug)]
pub struct Beads;

impl Protocol for Beads {
    fn prefix(&self) -> &'static str {
        Scheme::Beads.prefix()
    }

    fn kind(&self) -> &'static str {
        "the directory of a database"
    }

    fn options(&self) -> &'static [&'static str] {
        &["--any-directory"]
    }

    fn has_cycles(&self) -> bool {
        true
    }

    fn is_held_by(&self, look: &Look, pid: i32) -> bool {
        process::is_held_by(look, pid)
    }

    fn not_for_a_guard(&self, _target: &Target) -> Option<String> {
        None
    }

    fn then_unreadable(&self) -> &'static str {
        "every daemon skips"
    }

    fn may_be_committed(&self) -> bool {
        true
    }

    fn part(&self, target: &Target) -> Part<'static> {
        Part::of_path(&target.typed)
    }

    fn absolute(&self, target: &Target) -> OsString {
        prefixed(self.prefix(), target.dir())
    }

    fn explain(&self, seen: &Inspected<'_>) -> Option<Explained> {
        process::explain(seen)
    }
}

impl Folder for Beads {
    fn find(
        &self,
        rest: &Path,
        environment: &Environment,
        acceptance: Acceptance<'_>,
    ) -> Result<Target, Unfound> {
        let around = environment.of_database();
        let database = Database::named(rest, &around).and_then(|found| acceptance.of(found, &around));
        Ok(target(database?))
    }

    /// The database in exactly this directory: no redirect is followed.
    fn exact(&self, rest: &Path, given: &str) -> Result<Target, Unfound> {
        let exported = prefixed(self.prefix(), rest);
        let (place, given, typed) = (Place::beads(rest), given.to_owned(), rest.to_owned());
        Ok(Target { place, given, typed, exported, database: None, protocol: &Beads })
    }
}

/// A database that was found.
pub fn target(database: Database) -> Target {
    let Database { dir, given, named, .. } = database.clone();
    // As the user knows it, where those words are the path itself.
    let is_itself = !given.contains(['\\', char::REPLACEMENT_CHARACTER]);
    let typed = if is_itself { PathBuf::from(&given) } else { dir.clone() };
    // A path with a colon reads as a scheme.
    let is_plain = Parsed::parse(typed.as_os_str())
        .is_ok_and(|parsed| parsed.scheme == Scheme::Beads && parsed.rest == typed);
    let typed = if is_plain { typed } else { Path::new(".").join(typed) };
    let exported = prefixed(Beads.prefix(), &named);
    Target {
        place: Place::beads(dir),
        given,
        typed,
        exported,
        database: Some(database.into()),
        protocol: &Beads,
    }
}
