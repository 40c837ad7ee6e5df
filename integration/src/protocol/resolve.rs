//! From the words of a command line to a target.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use beadlock_checker::internal::database::{Database, NoDatabase};
use beadlock_checker::internal::target::Target as Parsed;

use super::beads::{self, Acceptance, any_directory_is_for_databases};
use super::{answers_for, file, lock, memory, tower};
use crate::claim::target::{Target, not_found};
use crate::error::Error;
use crate::settings::environment::{Environment, unquoted_target};

/// The target named on the command line; without a name `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest `.beads`.
///
/// # Errors
/// As [`not_found`], and in the program as [`answers_for`]; exit 2 for a directory that is not accepted.
pub fn resolve(
    named: Option<&OsStr>,
    environment: &Environment,
    acceptance: Acceptance<'_>,
) -> Result<Target, Error> {
    answers_for(named, environment)?;
    let around = environment.of_database();
    let of_variable = |error: NoDatabase| not_found(&error.of_variable("BEADLOCK_TARGET"));
    let as_typed = |error: NoDatabase| not_found(&error);
    let (text, wrong): (_, &dyn Fn(NoDatabase) -> Error) = match (named, &around.target) {
        (Some(text), _) => (text, &as_typed),
        (None, Some(text)) => (text.as_os_str(), &of_variable),
        (None, None) => {
            let found = Database::find(&around).and_then(|database| acceptance.of(database, &around));
            return found.map(beads::target).map_err(as_typed);
        }
    };
    let found = match Parsed::parse(&unquoted_target(text)).map_err(wrong)? {
        Parsed::Beads(dir) => {
            let database =
                Database::named(&dir, &around).and_then(|database| acceptance.of(database, &around));
            return database.map(beads::target).map_err(wrong);
        }
        Parsed::Lock(path) => lock::target(&path, &around.cwd).map_err(wrong)?,
        Parsed::Tower(name) => tower::in_environment(&name, environment),
        Parsed::Memory(dir) => memory::target(&dir, &around.cwd).map_err(wrong)?,
        Parsed::File(path) => file::target(&path)?,
    };
    if acceptance.insists() { Err(any_directory_is_for_databases(&found.given)) } else { Ok(found) }
}

/// The target that [`Target::absolute`] has named, as it is: no redirect is followed. `given` is for lines.
///
/// # Errors
/// Exit 2 for what names no target.
pub fn exact(absolute: &OsStr, given: &str) -> Result<Target, Error> {
    if let Some(found) = tower::exact(absolute) {
        return Ok(found);
    }
    let root = Path::new("/");
    let found = match Parsed::parse(absolute) {
        Ok(Parsed::Beads(dir)) => return Ok(beads::exact(dir, given)),
        Ok(Parsed::Lock(path)) => lock::target(&path, root),
        Ok(Parsed::Memory(dir)) => memory::target(&dir, root),
        Ok(Parsed::File(path)) => return file::exact(&path, given),
        Ok(Parsed::Tower(name)) => {
            let message = format!("{}{name} does not say in which lock directory", tower::PREFIX);
            return Err(Error::usage(message));
        }
        Err(error) => Err(error),
    };
    found.map(|found| Target { given: given.to_owned(), ..found }).map_err(|error| not_found(&error))
}

/// The directory below which `list` is to look; `Err` is what else the root names: a file, or a lock.
///
/// # Errors
/// Exit 2 for what cannot be understood.
pub fn root(text: &OsStr) -> Result<Result<PathBuf, &'static str>, Error> {
    Ok(match Parsed::parse(text).map_err(|error| not_found(&error))? {
        Parsed::Beads(dir) => Ok(dir),
        Parsed::File(_) => Err("file"),
        Parsed::Lock(_) | Parsed::Memory(_) | Parsed::Tower(_) => Err("lock"),
    })
}
