//! `file:PATH`: a file, locked by an flock on `PATH.lock` beside it. The kernel keeps the lock: nothing is written, and
//! nothing goes stale. From Rust it is `beadlock::file`.
//!
//! `flock:PATH`: the same flock on the file or the directory itself, as flock(1) takes it. Which of the two it is stands
//! in the [`FileTarget`], as [`Locks`]; all else is one.

mod ancestor;
mod blocked;
mod kernel;
pub mod lock;
mod look;
pub mod open;
mod operations;
pub mod outer;
pub mod queue;
pub mod refused;
pub mod release;
mod target;
mod turn;
mod watch;

use crate::error::Problem;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use beadlock_core::Place;
use beadlock_core::target::Scheme;

use super::{Folder, Found, beads::Acceptance};
use crate::error::{Code, Error};
use crate::protocol::rules::{Protocol, ProtocolKind, ProtocolRules, WaitOver};
use crate::target::{Target, prefixed};
use crate::{environment::Environment, wait::Wait, words::to_type};

pub use beadlock_core::record::file::{LockId, Mode, WAIT};

pub use kernel::{blocked, note, record};
pub use lock::{FileLock, Locking, take};
pub use open::OpenLockFile;
pub use operations::{append, atomic_write, save_json, update_json};
pub use target::{FileTarget, Locks};
pub use turn::Turn;

/// The rules of the lock of a file.
pub const RULES: ProtocolRules = ProtocolRules {
    kind: ProtocolKind::Kernel(&File),
    default_wait: Wait::UpTo(WAIT),
    speaks_of_databases: false,
    ..ProtocolRules::of("files (file:PATH)")
};

/// The rules of a lock on a file or a directory itself.
pub const FLOCK_RULES: ProtocolRules = ProtocolRules {
    locks: "flocks (flock:PATH)",
    ..RULES
};

/// The protocol of files that an flock locks.
#[derive(Debug)]
pub struct File;

/// The protocol of files and directories that are locked by an flock on themselves. Its locks are those of [`File`].
#[derive(Debug)]
pub struct Flock;

impl Protocol for File {
    fn absolute(&self, target: &Target) -> OsString {
        target.exported.clone()
    }

    fn for_a_guard(&self, target: &Target) -> Result<(), String> {
        let given = &target.given;
        Err(format!(
            "{given} has no database, no record and no cycles: lock it with what is for it in `file`"
        ))
    }
}

impl Folder for File {
    fn find(&self, rest: &Path, _: &Environment, _: Acceptance<'_>) -> Found {
        Ok(FileTarget::of(rest)?.canonical()?.to_target())
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        exact(Locks::Beside, rest, given)
    }
}

impl Protocol for Flock {
    fn absolute(&self, target: &Target) -> OsString {
        target.exported.clone()
    }

    fn for_a_guard(&self, target: &Target) -> Result<(), String> {
        let hold = to_type("beadlock hold {} -- CMD", &[target.part()]);
        let given = &target.given;
        Err(format!(
            "{given} has no database, no record and no cycles; run a command under it: {hold}"
        ))
    }
}

impl Folder for Flock {
    fn find(&self, rest: &Path, _: &Environment, _: Acceptance<'_>) -> Found {
        Ok(FileTarget::itself(rest)?.canonical()?.to_target())
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        exact(Locks::Itself, rest, given)
    }
}

fn exact(locks: Locks, rest: &Path, given: &str) -> Found {
    let named = given.strip_prefix(locks.scheme().prefix()).unwrap_or(given);
    let file = FileTarget::exact(locks, rest.to_owned(), PathBuf::from(named));
    let no_name = || Error::new(Code::Usage, "no file's name has a NUL byte");
    Ok(file.ok_or_else(no_name)?.to_target())
}

pub(crate) fn lock_file(target: &Target) -> PathBuf {
    FileTarget::of_target(target).lock().to_owned()
}

pub(crate) fn own_files(target: &Target) -> Vec<PathBuf> {
    let target = FileTarget::of_target(target);
    match target.locks() {
        Locks::Beside => vec![target.lock().to_owned(), target.file().to_owned()],
        Locks::Itself => vec![target.file().to_owned()],
    }
}

pub(crate) fn timed_out(waited: &WaitOver<'_>) -> String {
    refused::timed_out(&FileTarget::of_target(waited.target), waited.wait).to_string()
}

impl FileTarget {
    pub(crate) fn of_target(target: &Target) -> Self {
        let locks = match target.scheme {
            Scheme::Flock => Locks::Itself,
            _ => Locks::Beside,
        };
        let file = target
            .exported
            .as_bytes()
            .strip_prefix(locks.scheme().prefix().as_bytes());
        let file = file
            .map(|file| PathBuf::from(std::ffi::OsStr::from_bytes(file)))
            .unwrap_or_default();
        Self::of_paths(locks, file, target.typed.clone())
    }

    /// This file as a [`Target`], which every protocol has.
    pub fn to_target(&self) -> Target {
        let name = self.lock().file_name().unwrap_or_default();
        // Its lock file has no record, and is never read as one.
        let place = Place::named(self.dir(), name).unwrap_or_else(|| Place::beads(self.dir()));
        let scheme = self.locks().scheme();
        let exported = prefixed(scheme.prefix(), self.file());
        let (given, typed) = (self.given(), self.named().to_owned());
        Target {
            place,
            given,
            typed,
            exported,
            database: None,
            scheme,
        }
    }
}
