//! What `list` finds: which names its search looks for, and the locks behind them.

use std::path::{Path, PathBuf};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use beadlock_checker::Place;
use beadlock_checker::internal::database::{self, Database, is_own_name};
use beadlock_checker::internal::{Gates, Names, dialect::file::locked_by};

use super::{beads, lock, memory};
use crate::{claim::kernel_lock::Observation, claim::target::Target, error::Error, protocol::file::FileTarget};

pub use super::tower::lock_dir::{is_root_of_names, of_names};

pub fn is_lock_of_database(name: &OsStr) -> bool {
    is_one_of(&Names::BEADS, name)
}

/// The lock of a directory, or its side file, is called so; many another file is.
pub fn is_lock_of_directory(name: &OsStr) -> bool {
    is_one_of(&Names::MEMORY, name)
}

fn is_one_of(names: &Names, name: &OsStr) -> bool {
    [names.lock(), names.aside()].iter().any(|ours| ours.to_bytes() == name.as_bytes())
}

pub fn may_be_flock(path: &Path) -> bool {
    locked_by(path).is_some() && path.file_name().is_some_and(|name| !is_own_name(name))
}

/// The lock in `dir`: by the database's name where that leads there, else by the lock file's own.
pub fn in_database(dir: &Path, typed: &Path, around: &database::Environment) -> Result<Target, Error> {
    match Database::named(typed, around) {
        Ok(database) if database.dir == dir => Ok(beads::target(database)),
        _ => {
            let name = Place::beads(dir).path().file_name().map(OsStr::to_owned).unwrap_or_default();
            Ok(lock::target(&typed.join(name), &around.cwd)?)
        }
    }
}

pub fn in_directory(typed: &Path, around: &database::Environment) -> Result<Target, Error> {
    Ok(memory::target(typed, &around.cwd)?)
}

/// The file whose lock file is `lock`, where a process of this PID namespace has that locked now: none is tried, which
/// would keep others out for a moment. `typed` is how the file's directory is typed.
pub fn held_file(lock: &Path, typed: impl Fn(&Path) -> PathBuf, gates: &Gates) -> Option<(Target, Observation)> {
    let file = locked_by(lock).filter(|_| !gates.holders(lock).is_empty())?;
    let (dir, name) = (file.parent()?, file.file_name()?);
    let named = typed(dir).join(name);
    let named = named.strip_prefix(".").map(Path::to_owned).unwrap_or(named);
    let target = FileTarget::exact(file.clone(), named)?.to_target();
    let seen = target.protocol.without_record()?.look(&target, gates);
    Some((target, seen))
}
