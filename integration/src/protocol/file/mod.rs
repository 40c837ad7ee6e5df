//! `file:PATH`: a file, locked by an flock on `PATH.lock` beside it. The kernel keeps the lock: nothing is written, and
//! nothing goes stale. From Rust it is `beadlock::file`.

mod blocked;
pub mod command;
mod help;
mod kernel;
pub mod lock;
mod look;
pub mod nested;
pub mod open;
mod operations;
mod own;
pub mod refused;
pub mod release;
mod target;
mod turn;
mod watch;

use std::path::{Path, PathBuf};
use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use beadlock_core::Place;
use beadlock_core::{dialect::Record, target::Scheme};

use super::help::{Offered, ProtocolHelp};
use super::{Args, Folder, Found, Intended, beads::Acceptance};
use crate::claim::protocol::{Protocol, ProtocolRules, WaitOver};
use crate::claim::target::{Target, prefixed};
use crate::error::{Code, Error};
use crate::{
    claim::kernel_lock::WithoutRecord, protocol::ClaimWords, settings::environment::Environment,
    settings::wait::Wait,
};

pub use beadlock_core::dialect::file::{LockId, Mode, WAIT};

pub use lock::{FileLock, Locking, take};
pub use open::LockFile;
pub use operations::{append, atomic_write, save_json, update_json};
pub use target::FileTarget;
pub use turn::Turn;

#[derive(Debug)]
pub struct File;

impl Protocol for File {
    fn rules(&self) -> ProtocolRules {
        ProtocolRules {
            options: &["--shared"],
            default_wait: Wait::UpTo(WAIT),
            speaks_of_databases: false,
            ..ProtocolRules::of(Scheme::File.prefix(), "files (file:PATH)")
        }
    }

    fn ignores(&self, option: &str) -> Option<&'static str> {
        match option {
            "--holder" => Some("an flock has no name, only a process"),
            "--holder-version" | "--about" => Some("an flock has no record that could say it"),
            "--drain" => Some("it has no cycles: --wait is all the waiting there is"),
            "--reap-proven-dead" => {
                Some("an flock ends with its process: none is ever left behind")
            }
            "--id" | "--malformed" | "--yes" | "--even-if-live" => {
                Some("an flock cannot be taken away, only its process ended")
            }
            _ => None,
        }
    }

    fn lock_file(&self, target: &Target) -> PathBuf {
        FileTarget::of_target(target).lock().to_owned()
    }

    fn absolute(&self, target: &Target) -> OsString {
        target.exported.clone()
    }

    fn own_files(&self, target: &Target) -> Vec<PathBuf> {
        let target = FileTarget::of_target(target);
        vec![target.lock().to_owned(), target.file().to_owned()]
    }

    fn not_for_a_guard(&self, target: &Target) -> Option<String> {
        let given = &target.given;
        Some(format!(
            "{given} has no database, no record and no cycles: lock it with what is for it in `file`"
        ))
    }

    fn timed_out(&self, waited: &WaitOver<'_>) -> String {
        refused::timed_out(&FileTarget::of_target(waited.target), waited.wait).to_string()
    }

    fn not_released(&self, _target: &Target, _record: &Record, error: &Error) -> String {
        error.to_string()
    }

    fn without_record(&self) -> Option<&'static dyn WithoutRecord> {
        Some(&File)
    }
}

impl Folder for File {
    fn help(&self) -> ProtocolHelp {
        help::HELP
    }

    fn offered(&self) -> Offered {
        Offered::Files
    }

    fn find(&self, rest: &Path, _: &Environment, _: Acceptance<'_>) -> Found {
        Ok(FileTarget::of(rest)?.canonical()?.to_target())
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        let named = given.strip_prefix(self.prefix()).unwrap_or(given);
        let file = FileTarget::exact(rest.to_owned(), PathBuf::from(named));
        let no_name = || Error::new(Code::Usage, "no file's name has a NUL byte");
        Ok(file.ok_or_else(no_name)?.to_target())
    }

    fn intended(
        &self,
        target: Target,
        typed: &Args,
        _environment: &Environment,
    ) -> Result<Intended, Error> {
        Ok(Intended::Claim(
            target.into(),
            claim_words(typed.file.mode()),
        ))
    }
}

pub fn claim_words(mode: Mode) -> ClaimWords {
    let words =
        ClaimWords::new(|_, _| Err(Error::new(Code::Io, "the lock of a file has no record")));
    ClaimWords { mode, ..words }
}

impl FileTarget {
    pub fn of_target(target: &Target) -> Self {
        let file = target
            .exported
            .as_bytes()
            .strip_prefix(File.prefix().as_bytes());
        let file = file
            .map(|file| PathBuf::from(std::ffi::OsStr::from_bytes(file)))
            .unwrap_or_default();
        Self::of_paths(file, target.typed.clone())
    }

    pub fn to_target(&self) -> Target {
        let name = self.lock().file_name().unwrap_or_default();
        // Its lock file has no record, and is never read as one.
        let place = Place::named(self.dir(), name).unwrap_or_else(|| Place::beads(self.dir()));
        let exported = prefixed(File.prefix(), self.file());
        let (given, typed) = (self.given(), self.named().to_owned());
        Target {
            place,
            given,
            typed,
            exported,
            database: None,
            protocol: &File,
        }
    }
}
