//! Several who work under one lock, one after the other: who is nested in a `beadlock hold` of the file, and the threads of
//! the process that has the lock. It is a lock on the bytes of the lock file (`F_OFD_SETLK`), which an flock knows nothing of.

use std::io;
use std::sync::MutexGuard;
use std::time::Duration;

use beadlock_checker::sys::{Flock, range_lock};

use super::open::{LockFile, Patience, failed};
use super::refused;
use super::target::FileTarget;
use crate::claim::loss::Loss;
use crate::error::{Code, Error};

/// It is this one's turn to work on the file, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the turn to the next at once"]
pub struct Turn<'l> {
    /// First: whoever of this process comes next finds it gone.
    pub(super) _file: Option<InTurn>,
    pub(super) _thread: MutexGuard<'l, ()>,
}

/// The bytes of a lock file, locked.
#[derive(Debug)]
pub struct InTurn(LockFile);

impl InTurn {
    /// Locks them, for which the file must be open for writing; the file comes back when they are.
    ///
    /// # Errors
    /// What the system said.
    pub fn take(file: LockFile, patience: Patience) -> io::Result<Result<Self, LockFile>> {
        let how = match patience {
            Patience::Try => Flock::Try,
            Patience::Blocked => Flock::Wait,
        };
        Ok(if range_lock(&file, how)? { Ok(Self(file)) } else { Err(file) })
    }
}

impl Drop for InTurn {
    /// A fork may have it open too.
    fn drop(&mut self) {
        let _ = range_lock(&self.0, Flock::Unlock);
    }
}

/// The lock file is another by now.
pub fn lost_meanwhile(target: &FileTarget) -> Error {
    refused::lost(target, &Loss::OtherFile, Duration::ZERO)
}

/// Nobody takes turns where the lock file may not be written.
pub fn not_writable(target: &FileTarget) -> Error {
    let error = failed(target, &nix::errno::Errno::EACCES.into());
    Error::new(Code::LockFailed, format!("{error}; under a lock of somebody else's it must be writable, too"))
}
