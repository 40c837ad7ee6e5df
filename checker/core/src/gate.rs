//! The gate: an advisory flock on the database's directory (docs/design.md#the-gate).
//!
//! > Every cycle holds the gate from before its check until its work has ended. Every change that beadlock makes
//! > to a lock file is made with the gate held.
//!
//! Without the gate a cycle runs beside a claim, and two removers delete each other's new lock (docs/model.md#no-gate).
//!
//! Order: the gate first, then leases. `LOCK_UN` comes before `close`, on every path: a process that was just forked
//! may have a copy of the descriptor, and a close would not release the gate then.
//!
//! Limits: a daemon that does not use the gate is not kept out by it, and obeys the lock file alone. A gate covers one
//! kernel and one view of the mounts (docs/design.md#its-reach).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{path::Path, path::PathBuf, thread::sleep, time::Duration, time::Instant};

use nix::{fcntl::OFlag, fcntl::open, sys::stat::Mode};

use crate::{
    gate_holders::{GateHolder, GateHolders},
    gate_loss::{self, GateLoss},
};
use beadlock_base::error::{Error, Result};
use beadlock_base::sys::{self, Flock, flock, process_id};

/// Gate of one database, held until this value is dropped. A forked process has a copy of the value; dropping the copy
/// does not release the gate.
#[derive(Debug)]
#[must_use = "dropping the gate lets it go at once"]
pub struct Gate {
    dir: OwnedFd,
    path: PathBuf,
    /// PID of the process that has taken the gate.
    process: u32,
}

impl Gate {
    /// Takes the gate of the database in `dir`, without waiting. `Ok(None)`: the gate is busy.
    ///
    /// Errors: the directory cannot be opened for reading, or its file system has no flock. Where
    /// [`Error::means_no_gate`] is true, the directory can have no gate.
    pub fn try_take(dir: &Path) -> Result<Option<Self>> {
        let fd = open_dir(dir)?;
        let taken = try_lock(&fd, dir)?;
        Ok(taken.then(|| Self::taken(fd, dir.to_owned())))
    }

    /// Takes the gate of a directory that is open for reading, without waiting. `Ok(None)`: the gate is busy. The error
    /// comes with the open directory.
    pub(crate) fn try_take_opened(
        dir: OwnedFd,
        path: PathBuf,
    ) -> std::result::Result<Option<Self>, (Error, OwnedFd)> {
        match try_lock(&dir, &path) {
            Ok(taken) => Ok(taken.then(|| Self::taken(dir, path))),
            Err(error) => Err((error, dir)),
        }
    }

    /// Takes the gate, blocked in flock(2) without a limit. Call it in a thread of its own.
    ///
    /// A claimer that polls may never find the gate free beside an agent that takes it again at once
    /// (docs/design.md#the-drain). Errors: those of [`Gate::try_take`].
    pub fn take_blocking(dir: &Path) -> Result<Self> {
        let fd = open_dir(dir)?;
        flock(&fd, Flock::Wait).map_err(|error| Error::new("lock the directory", dir, error))?;
        Ok(Self::taken(fd, dir.to_owned()))
    }

    fn taken(dir: OwnedFd, path: PathBuf) -> Self {
        Self {
            dir,
            path,
            process: process_id(),
        }
    }

    /// Tries to take the gate for `patience`, every 2 ms: for a check, which must not wait for a whole cycle.
    /// `Ok(None)`: the gate stayed busy.
    pub(crate) fn take_within(dir: &Path, patience: Duration) -> Result<Option<Self>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(gate) = Self::try_take(dir)? {
                return Ok(Some(gate));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep(Duration::from_millis(2));
        }
    }

    /// Returns another descriptor of the same open gate, for a runner. The gate stays shut until one side calls
    /// [`Gate::unlock`], or every descriptor is closed.
    ///
    /// The runner keeps the gate shut while the work of a killed daemon goes on (docs/model.md#v10).
    pub fn share(&self) -> Result<OwnedFd> {
        self.dir
            .try_clone()
            .map_err(|error| Error::new("share the gate of", &self.path, error))
    }

    /// Returns another descriptor of the same open gate, for the command of a cycle to inherit. The command and its
    /// descendants keep the gate shut when every process of beadlock is killed (docs/design.md#work-keeps-the-gate).
    /// See [`sys::pass_on`].
    pub fn for_command(&self) -> Result<OwnedFd> {
        sys::to_pass_on(&self.dir)
            .map_err(|error| Error::new("share the gate of", &self.path, error))
    }

    /// Lets every process that this one starts inherit the gate, until the result is dropped.
    pub fn pass_on(&self) -> Result<PassedOn> {
        let fd = self.for_command()?;
        sys::pass_on(&fd).map_err(|error| Error::new("share the gate of", &self.path, error))?;
        Ok(PassedOn { _fd: fd })
    }

    /// Looks whether the directory is still the one at its path. `Some`: two looks have shown that the path leads
    /// elsewhere, so claims no longer wait for this gate (docs/design.md#its-reach). The second look takes 100 ms.
    pub fn lost(&self) -> Option<GateLoss> {
        gate_loss::twice(&self.dir, &self.path)
    }

    /// Path of the directory, as the caller named it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Releases a gate that is known by a descriptor only, for every process that shares it (`LOCK_UN`).
    pub fn unlock(fd: impl AsFd) {
        // After an error the last close releases the gate.
        let _ = flock(fd, Flock::Unlock);
    }

    /// Processes that hold the gate of `dir` now, as far as `/proc` shows (Linux): [`GateHolders::holders`].
    pub fn holders(dir: &Path) -> Vec<GateHolder> {
        GateHolders::now().holders(dir)
    }

    /// Processes that wait for the gate of `dir` now, blocked in flock(2), as far as `/proc` shows (Linux).
    pub fn waiters(dir: &Path) -> Vec<GateHolder> {
        GateHolders::now().waiters(dir)
    }
}

/// Inheritance of a gate by new processes, until this value is dropped ([`Gate::pass_on`]).
#[derive(Debug)]
#[must_use = "dropping it ends the inheritance"]
pub struct PassedOn {
    _fd: OwnedFd,
}

impl Drop for Gate {
    /// Releases the gate for every process that shares it, with two exceptions that only close the descriptor.
    ///
    /// - In a panic the cycle's work may go on in a process that shares the gate.
    /// - In a forked process the value is a copy, and the cycle goes on in the process that has taken the gate.
    fn drop(&mut self) {
        if self.process == process_id() && !std::thread::panicking() {
            Self::unlock(&self.dir);
        }
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn try_lock(fd: &OwnedFd, path: &Path) -> Result<bool> {
    flock(fd, Flock::Try).map_err(|error| Error::new("lock the directory", path, error))
}

fn open_dir(dir: &Path) -> Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    open(dir, flags, Mode::empty()).map_err(|errno| Error::new("open the directory", dir, errno))
}

#[cfg(test)]
mod tests;
