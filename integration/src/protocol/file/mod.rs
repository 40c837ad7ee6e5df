//! `file:PATH`: a file, locked by an flock on `PATH.lock` beside it. The kernel keeps the lock: nothing is written, and
//! nothing goes stale. From Rust it is `beadlock::file`.

mod blocked;
pub mod command;
pub mod lock;
mod locking;
mod look;
pub mod nested;
pub mod open;
mod operations;
mod own;
pub mod refused;
pub mod release;
pub mod said;
mod target;
mod turn;
mod watch;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs, os::unix::ffi::OsStrExt, time::Duration};

use beadlock_checker::Place;
use beadlock_checker::internal::{Gates, dialect::Record, target::Scheme};

use super::{Args, Folder, Found, Intended, beads::Acceptance};
use crate::claim::attendant::{Attending, Stopped};
use crate::claim::kernel_lock::{KernelLock, Observation, WithoutRecord};
use crate::claim::protocol::{Protocol, WaitOver};
use crate::claim::target::{Target, prefixed};
use crate::error::{Code, Error};
use crate::{
    claim::keeping::Guard, claim::leaving::Why, claim::loss::Loss, output::talk::Talk, output::trail::Trail,
    protocol::ClaimWords, settings::environment::Environment, settings::wait::Wait,
};

pub use beadlock_checker::internal::dialect::file::{LockId, Mode, WAIT};

pub use lock::{FileLock, take};
pub use locking::Locking;
pub use open::LockFile;
pub use operations::{append, atomic_write, save_json, update_json};
pub use target::FileTarget;
pub use turn::Turn;
pub use watch::Watch;

#[derive(Debug)]
pub struct File;

impl Protocol for File {
    fn prefix(&self) -> &'static str {
        Scheme::File.prefix()
    }

    fn kind(&self) -> &'static str {
        "files (file:PATH)"
    }

    fn options(&self) -> &'static [&'static str] {
        &["--shared"]
    }

    fn ignores(&self, option: &str) -> Option<&'static str> {
        match option {
            "--holder" => Some("an flock has no name, only a process"),
            "--holder-version" => Some("an flock has no record"),
            "--drain" => Some("it has no cycles: --wait is all the waiting there is"),
            "--reap-proven-dead" => Some("an flock ends with its process: none is ever left behind"),
            "--audit of release" => Some("the keeper writes into the file that acquire was told"),
            "--id" | "--malformed" | "--yes" | "--even-if-live" => {
                Some("an flock cannot be taken away, only its process ended")
            }
            _ => None,
        }
    }

    fn default_wait(&self) -> Wait {
        Wait::UpTo(WAIT)
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
        Some(format!("{given} has no database, no record and no cycles: lock it with what is for it in `file`"))
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
    fn find(&self, rest: &Path, _: &Environment, _: Acceptance<'_>) -> Found {
        Ok(FileTarget::of(rest)?.canonical()?.to_target())
    }

    fn exact(&self, rest: &Path, given: &str) -> Found {
        let named = given.strip_prefix(self.prefix()).unwrap_or(given);
        let file = FileTarget::exact(rest.to_owned(), PathBuf::from(named));
        let no_name = || Error::new(Code::Usage, "no file's name has a NUL byte");
        Ok(file.ok_or_else(no_name)?.to_target())
    }

    fn intended(&self, target: Target, typed: &Args, _environment: &Environment) -> Result<Intended, Error> {
        Ok(Intended::Claim(target.into(), claim_words(typed.file.mode())))
    }
}

impl WithoutRecord for File {
    fn look(&self, target: &Target, gates: &Gates) -> Observation {
        look::at(&FileTarget::of_target(target), gates)
    }

    fn note(&self, target: &Target, talk: &Talk) {
        said::note(&FileTarget::of_target(target), talk);
    }

    fn outer(&self, target: &Target, mode: Mode, environment: &Environment) -> Result<Option<(String, i32)>, Error> {
        let target = FileTarget::of_target(target);
        let inode = LockFile::open(&target)?.inode();
        let outer = nested::outer(&target, inode, mode, environment)?;
        Ok(outer.map(|outer| (outer.to_string(), outer.pid)))
    }

    fn id_to_be(&self, target: &Target) -> Result<String, Error> {
        let (device, inode) = LockFile::open(&FileTarget::of_target(target))?.inode();
        Ok(LockId { device, inode, pid: std::process::id().cast_signed() }.to_string())
    }

    fn take(
        &self,
        target: &Target,
        mode: Mode,
        wait: Wait,
        environment: &Environment,
        attending: &mut Attending<'_>,
        trail: &Trail<'_>,
    ) -> Result<Box<dyn KernelLock>, Stopped> {
        let taken = take(&FileTarget::of_target(target), mode, wait, Some(environment), attending);
        trail.talk().end_live();
        Ok(Box::new(taken.inspect_err(|stopped| said::blocked(stopped, trail))?))
    }

    fn adopt(&self, target: &Target, mode: Mode, shared: fs::File) -> Option<Box<dyn KernelLock>> {
        let lock = FileLock::adopt(FileTarget::of_target(target), mode, shared)?;
        Some(Box::new(lock))
    }

    fn wait(&self, target: &Target, wait: Wait, environment: &Environment, talk: &Talk) -> Result<Duration, Stopped> {
        look::wait(&FileTarget::of_target(target), wait, environment, talk)
    }

    fn release(&self, target: &Target, id: &str, talk: &Talk) -> Result<bool, Error> {
        release::release(&FileTarget::of_target(target), id, talk)
    }

    fn not_to_break(&self, target: &Target, seen: &Observation) -> Error {
        look::not_to_break(&FileTarget::of_target(target), seen)
    }
}

impl KernelLock for FileLock {
    fn id(&self) -> String {
        Self::id(self).to_string()
    }

    fn id_of(&self, pid: i32) -> String {
        LockId { pid, ..Self::id(self) }.to_string()
    }

    fn is_nested(&self) -> bool {
        Self::is_nested(self)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Self::file(self).map(AsFd::as_fd)
    }

    fn guard(&self) -> Guard<'_> {
        Guard::Other(Box::new(Watch::over(self)))
    }

    fn age(&self) -> Duration {
        Self::age(self)
    }

    fn acquired(&self, id: &str, trail: &Trail<'_>) {
        said::acquired(self, id, trail);
    }

    fn leave(self: Box<Self>) {
        Self::leave(*self);
    }

    fn end(self: Box<Self>, known: Option<Loss>, why: Why, trail: &Trail<'_>) -> Option<Error> {
        said::end(*self, known, why, trail)
    }
}

pub fn claim_words(mode: Mode) -> ClaimWords {
    let words = ClaimWords::new(|_, _, _| Err(Error::new(Code::Io, "the lock of a file has no record")));
    ClaimWords { mode, ..words }
}

impl FileTarget {
    pub fn of_target(target: &Target) -> Self {
        let file = target.exported.as_bytes().strip_prefix(File.prefix().as_bytes());
        let file = file.map(|file| PathBuf::from(std::ffi::OsStr::from_bytes(file))).unwrap_or_default();
        Self::of_paths(file, target.typed.clone())
    }

    pub fn to_target(&self) -> Target {
        let name = self.lock().file_name().unwrap_or_default();
        // Its lock file has no record, and is never read as one.
        let place = Place::named(self.dir(), name).unwrap_or_else(|| Place::beads(self.dir()));
        let exported = prefixed(File.prefix(), self.file());
        let (given, typed) = (self.given(), self.named().to_owned());
        Target { place, given, typed, exported, database: None, protocol: &File }
    }
}
