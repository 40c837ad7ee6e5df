//! What `list` finds: which names its search looks for, and the locks behind them.

use std::path::Path;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use beadlock_core::database::{self, Database};
use beadlock_core::{Options, Place};
use beadlock_core::{
    look::{Look, look},
    place::Names,
};

use beadlock_claim::protocol::{beads, lock, memory};
use beadlock_claim::{error::Error, target::Target};

pub use beadlock_claim::protocol::tower::lock_dir::{is_root_of_names, of_names};

/// Whether the lock of a database, or its side file, has this name.
pub fn is_lock_of_database(name: &OsStr) -> bool {
    is_one_of(&Names::BEADS, name)
}

/// Whether the lock of a directory, or its side file, has this name; many other files have it, too.
pub fn is_lock_of_directory(name: &OsStr) -> bool {
    is_one_of(&Names::MEMORY, name)
}

fn is_one_of(names: &Names, name: &OsStr) -> bool {
    [names.lock(), names.aside()]
        .iter()
        .any(|ours| ours.to_bytes() == name.as_bytes())
}

/// Whether the search opens a file of this name: `lock`, `….lock`, `…-lock`, `…_lock`, and their side files. A lock at
/// a path may have any other name, too.
pub fn may_be_lock_at_path(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let name = name.strip_suffix(b".aside").unwrap_or(name);
    let Some(before) = name.strip_suffix(b"lock") else {
        return false;
    };
    !is_lock_of_database(OsStr::from_bytes(name))
        && before.last().is_none_or(|last| b".-_".contains(last))
}

/// The lock in `dir`: by the database's name where that leads there, else by the lock file's own.
pub(crate) fn in_database(
    dir: &Path,
    typed: &Path,
    around: &database::DatabaseVariables,
) -> Result<Target, Error> {
    match Database::named(typed, around) {
        Ok(database) if database.dir == dir => Ok(beads::target(database)),
        _ => {
            let name = Place::beads(dir)
                .path()
                .file_name()
                .map(OsStr::to_owned)
                .unwrap_or_default();
            Ok(lock::target(&typed.join(name), &around.cwd)?)
        }
    }
}

/// The lock of the directory `typed`.
pub fn in_directory(typed: &Path, around: &database::DatabaseVariables) -> Result<Target, Error> {
    Ok(memory::target(typed, &around.cwd)?)
}

/// The lock that was meant by `found`: where it is a plain directory, and a lock of the directory lies there, that one.
pub(crate) fn meant(found: Target, around: &database::DatabaseVariables) -> Target {
    let lies_there = |own: &Target| own.is_its_lock(&look(&own.place, &Options::default()));
    let own = found
        .rules()
        .has_cycles
        .then(|| in_directory(found.dir(), around).ok())
        .flatten();
    own.filter(lies_there).unwrap_or(found)
}

/// The lock at a path that the search has come upon, by the path of its file or of its side file; `typed` is how its
/// directory is typed.
pub fn at_path(
    path: &Path,
    typed: &Path,
    around: &database::DatabaseVariables,
) -> Result<Target, Error> {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = OsStr::from_bytes(name.strip_suffix(b".aside").unwrap_or(name));
    Ok(lock::target(
        &typed.strip_prefix(".").unwrap_or(typed).join(name),
        &around.cwd,
    )?)
}

/// Whether a record lies there, or was set aside from there: many other files have the name of a lock.
pub fn is_lock_at_path(look: &Look) -> bool {
    look.record.is_some() || look.side_file
}
