//! `list tower:`: every named lock of the lock directory.

use std::{collections::BTreeSet, ffi::OsStr, fs, io, os::unix::ffi::OsStrExt, path::Path};

use beadlock_checker::internal::escape::{escaped, escaped_path};
use beadlock_checker::internal::{dialect::tower::LockName, system_words};

use super::{PREFIX, lock_dir, target};
use crate::{claim::target::Target, error::Error, output::talk::Talk, settings::environment::Environment};

/// The root of a list that stands for the lock directory.
pub fn is_root(root: &OsStr) -> bool {
    root == PREFIX
}

/// Its locks by name, and how many directories that took: none when it is not there.
pub fn of(environment: &Environment, talk: &Talk) -> Result<(Vec<Target>, u64), Error> {
    let dir = lock_dir::of(environment);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(unread(&dir, &error)),
    };
    for warning in lock_dir::warnings(&dir) {
        talk.warn(&warning);
    }
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(|error| unread(&dir, &error))?.file_name();
        let bytes = name.as_bytes();
        // One that is aside for the moment is there, too.
        let Some(stem) = bytes.strip_suffix(b".aside").unwrap_or(bytes).strip_suffix(b".lock") else {
            continue;
        };
        let stem = String::from_utf8_lossy(stem);
        match LockName::parse(&stem) {
            Ok(name) => {
                names.insert(name.as_str().to_owned());
            }
            Err(error) => {
                let (file, dir) = (escaped(&name.to_string_lossy()).to_string(), escaped_path(&dir));
                talk.warn(&format!("{file} in {dir} is no named lock: {error}"));
            }
        }
    }
    let typed = environment.typed_lock_dir();
    let found = names.iter().filter_map(|name| LockName::parse(name).ok());
    Ok((found.map(|name| target(&dir, &name, typed)).collect(), 1))
}

fn unread(dir: &Path, error: &io::Error) -> Error {
    let why = format!("cannot read the lock directory {}: {}", escaped_path(dir), system_words(error));
    Error::io(why, error.kind())
}
