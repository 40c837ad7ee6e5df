//! Several who work under one lock, one after the other: nested processes and threads. It is a lock on the bytes of the
//! lock file (`F_OFD_SETLK`), which is independent of the flock.

use crate::error::Problem;
use std::{io, sync::MutexGuard, time::Duration};

use beadlock_base::sys::{Flock, process_id, range_lock};

use super::open::{KernelWait, OpenLockFile, failed};
use super::target::FileTarget;
use crate::error::{Code, Error};
use crate::loss::Loss;

/// The turn to work on a file, until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the turn to the next at once"]
pub struct Turn<'l> {
    /// First: the next thread of this process finds it gone.
    pub(super) _file: Option<InTurn>,
    pub(super) _thread: MutexGuard<'l, ()>,
}

/// The bytes of a lock file, locked. Dropped in a fork, it is closed alone.
#[derive(Debug)]
pub struct InTurn {
    file: OpenLockFile,
    process: u32,
}

impl InTurn {
    /// Locks the bytes of a lock file, which must be open for writing. The inner `Err` gives the file back: the bytes
    /// are locked already. Fails with the error of the system.
    pub fn take(
        file: OpenLockFile,
        patience: KernelWait,
    ) -> io::Result<Result<Self, OpenLockFile>> {
        let how = match patience {
            KernelWait::Try => Flock::Try,
            KernelWait::Blocked => Flock::Wait,
        };
        Ok(if range_lock(&file, how)? {
            Ok(Self {
                file,
                process: process_id(),
            })
        } else {
            Err(file)
        })
    }
}

impl Drop for InTurn {
    /// Not left to the close: a fork may have it open too, and its copy of this ends no turn.
    fn drop(&mut self) {
        if self.process == process_id() {
            let _ = range_lock(&self.file, Flock::Unlock);
        }
    }
}

pub fn lost_meanwhile(target: &FileTarget) -> Error {
    Loss::OtherFile.error("", None, Duration::ZERO, &target.to_target())
}

/// Nobody takes turns where the lock file may not be written.
pub fn not_writable(target: &FileTarget) -> Error {
    let error = failed(target, &nix::errno::Errno::EACCES.into());
    Error::new(
        Code::LockFailed,
        format!("{error}; under a lock of somebody else's it must be writable, too"),
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;

    use beadlock_base::sys::process_id;

    use super::*;

    fn open(path: &Path) -> OpenLockFile {
        OpenLockFile::of(File::options().write(true).open(path).unwrap()).unwrap()
    }

    /// Asked of another open file: the lock on the bytes is the open file's.
    fn is_taken(path: &Path) -> bool {
        InTurn::take(open(path), KernelWait::Try).unwrap().is_err()
    }

    #[test]
    fn a_fork_s_copy_of_a_turn_ends_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("todo.json.lock");
        fs::write(&path, "").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let in_a_fork = OpenLockFile::of(file.try_clone().unwrap()).unwrap();
        let turn = InTurn::take(OpenLockFile::of(file).unwrap(), KernelWait::Try)
            .unwrap()
            .unwrap();
        assert!(is_taken(&path));
        drop(InTurn {
            file: in_a_fork,
            process: process_id() + 1,
        });
        assert!(is_taken(&path), "it was another process's");
        drop(turn);
        assert!(!is_taken(&path));
    }
}
