//! The database that a command line means, and the names it may claim in.

use std::ffi::OsStr;

use beadlock_checker::database::{Database, NoDatabase};
use beadlock_checker::dialect::beads::holder_name_is_fit;
use beadlock_checker::escape::escaped;
use beadlock_checker::target::Target;

use crate::environment::Environment;
use crate::failure::{Code, Error};

/// The database named on the command line; without a name `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest one.
///
/// # Errors
/// As [`not_found`].
pub fn resolve(named: Option<&OsStr>, environment: &Environment) -> Result<Database, Error> {
    let around = environment.of_database();
    let found = match named {
        Some(text) => Target::parse(text).and_then(|target| Database::named(target.dir(), &around)),
        None => Database::find(&around),
    };
    found.map_err(|error| not_found(&error))
}

/// Why there is no database, with its exit code: 2 when the command line is wrong, else 1.
pub fn not_found(error: &NoDatabase) -> Error {
    let code = match error.code() {
        "USAGE" => Code::Usage,
        "NO_TARGET" => Code::NoTarget,
        _ => Code::Io,
    };
    Error::new(code, error.to_string())
}

/// A holder's name of ours is 1 to 128 printable characters.
///
/// # Errors
/// Exit 2.
pub fn check_holder(name: &str) -> Result<(), Error> {
    if holder_name_is_fit(name) {
        return Ok(());
    }
    let (shown, count) = (escaped(name), name.chars().count());
    Err(Error::usage(format!(
        "a holder's name is 1 to 128 printable characters; this one has {count}: \"{shown}\""
    )))
}
