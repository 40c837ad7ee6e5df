//! The directory that is meant by a path, without links.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::closed;
use crate::error::words;
use crate::no_database::NoDatabase;

/// The directory of the lock file that `target` names, without links.
pub(crate) fn of_lock(parent: &Path, shown: &str, target: &str) -> Result<PathBuf, NoDatabase> {
    let wrong = |what: &str| {
        NoDatabase::not_there(format!("the directory of {target} {what}; make it, or name another"))
    };
    let dir = fs::canonicalize(parent).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => wrong("does not exist"),
        io::ErrorKind::NotADirectory => wrong("is not a directory"),
        _ => unreachable(parent, shown, &error),
    })?;
    match is_directory(&dir) {
        Ok(true) => Ok(dir),
        Ok(false) => Err(wrong("is not a directory")),
        Err(error) => Err(unreachable(&dir, shown, &error)),
    }
}

/// The directory that `target` names, without links where it is there: one with a lock of its own need not be.
pub(crate) fn with_lock(absolute: &Path, shown: &str, target: &str) -> Result<PathBuf, NoDatabase> {
    let wrong = || {
        let message = format!("{target} is not a directory; name the one that .lock is, or will be, in");
        NoDatabase::not_there(message)
    };
    match fs::canonicalize(absolute) {
        Ok(dir) if is_directory(&dir).map_err(|error| unreachable(&dir, shown, &error))? => Ok(dir),
        Ok(_) => Err(wrong()),
        // A directory of the lock's own name would be in everybody's way.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !absolute.ends_with(".lock") => {
            Ok(absolute.to_owned())
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Err(wrong())
        }
        Err(error) => Err(unreachable(absolute, shown, &error)),
    }
}

/// The directory at `absolute` without links.
pub(crate) fn of_database(absolute: &Path, shown: &str) -> Result<PathBuf, NoDatabase> {
    let dir = fs::canonicalize(absolute).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NoDatabase::not_there(format!(
            "{shown} does not exist; name the directory of a beads database, such as path/.beads"
        )),
        io::ErrorKind::NotADirectory => not_a_directory(shown),
        _ => unreachable(absolute, shown, &error),
    })?;
    match is_directory(&dir) {
        Ok(true) => Ok(dir),
        Ok(false) => Err(not_a_directory(shown)),
        Err(error) => Err(unreachable(&dir, shown, &error)),
    }
}

/// False when nothing is there, or something else.
fn is_directory(path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Ok(meta) => Ok(meta.is_dir()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn not_a_directory(shown: &str) -> NoDatabase {
    let message = format!(
        "{shown} is not a directory; name the directory that holds .exclusive-lock, such as path/.beads"
    );
    NoDatabase::not_there(message)
}

/// Nobody can tell what is at `path`.
pub(crate) fn unreachable(path: &Path, shown: &str, error: &io::Error) -> NoDatabase {
    let why = closed::directory_above(path)
        .unwrap_or_else(|| "check the permissions of the directories above it".to_owned());
    NoDatabase::io(format!("cannot reach {shown}: {}; {why}", words(error)))
}
