//! The gate: an advisory flock on the database's directory (docs/design.md#the-gate).
//!
//! > Every cycle holds the gate from before its check until its work has ended. Every change that beadlock makes
//! > to a lock file is made with the gate held.
//!
//! Order: the gate first, then leases. `LOCK_UN` comes before `close`, on every path. A daemon that never heard
//! of the gate is not kept out by it; it obeys the lock file. Reach: one kernel and one mount view.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{path::Path, path::PathBuf, thread::sleep, time::Duration, time::Instant};

use nix::{fcntl::OFlag, fcntl::open, sys::stat::Mode};

use crate::{
    gate_loss::{self, GateLoss},
    gates::{GateHolder, Gates},
};
use beadlock_base::error::{Error, Result};
use beadlock_base::sys::{self, Flock, flock, process_id};

/// The gate of one database, held until this is dropped. A forked process has a copy of it, which opens nothing.
#[derive(Debug)]
#[must_use = "dropping the gate lets it go at once"]
pub struct Gate {
    dir: OwnedFd,
    path: PathBuf,
    /// The process that has taken it.
    process: u32,
}

impl Gate {
    /// Takes the gate of the database in `dir`, without waiting. `Ok(None)`: somebody has it.
    /// Fails when the directory cannot be opened for reading, or its file system knows no flock: there is no gate then.
    pub fn try_take(dir: &Path) -> Result<Option<Self>> {
        let fd = open_dir(dir)?;
        let taken = try_lock(&fd, dir)?;
        Ok(taken.then(|| Self::taken(fd, dir.to_owned())))
    }

    /// The same for a directory that is open for reading already. It comes back where there can be no gate.
    pub(crate) fn try_take_opened(
        dir: OwnedFd,
        path: PathBuf,
    ) -> std::result::Result<Option<Self>, (Error, OwnedFd)> {
        match try_lock(&dir, &path) {
            Ok(taken) => Ok(taken.then(|| Self::taken(dir, path))),
            Err(error) => Err((error, dir)),
        }
    }

    /// Takes the gate, blocked in flock(2) for as long as it takes: for a thread of its own.
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

    /// Tries for `patience`: for a check, which must not wait for a whole cycle.
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

    /// Another descriptor of the same open gate, for a runner: it keeps the gate shut until either side lets go.
    pub fn share(&self) -> Result<OwnedFd> {
        self.dir
            .try_clone()
            .map_err(|error| Error::new("share the gate of", &self.path, error))
    }

    /// A descriptor of the same open gate for the command of a cycle, and for all that it starts: they keep the gate
    /// shut also when every process of beadlock was killed. See [`sys::pass_on`].
    pub fn for_command(&self) -> Result<OwnedFd> {
        sys::to_pass_on(&self.dir)
            .map_err(|error| Error::new("share the gate of", &self.path, error))
    }

    /// Lets all that this process starts from now on inherit the gate.
    pub fn pass_on(&self) -> Result<PassedOn> {
        let fd = self.for_command()?;
        sys::pass_on(&fd).map_err(|error| Error::new("share the gate of", &self.path, error))?;
        Ok(PassedOn { _fd: fd })
    }

    /// What became of the directory while the gate was held: `Some` where its path leads elsewhere by now, seen
    /// twice, so that claims no longer wait for this gate. Takes 100 ms then.
    pub fn lost(&self) -> Option<GateLoss> {
        gate_loss::twice(&self.dir, &self.path)
    }

    /// The directory, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets go of a gate that came as a bare descriptor, for all who share it.
    pub fn unlock(fd: impl AsFd) {
        // The close that follows unlocks as well, when it is the last one.
        let _ = flock(fd, Flock::Unlock);
    }

    /// The processes that have the gate of `dir` now, as far as `/proc` shows (Linux).
    pub fn holders(dir: &Path) -> Vec<GateHolder> {
        Gates::now().holders(dir)
    }

    /// The processes that wait for the gate of `dir` now, blocked in flock(2), as far as `/proc` shows (Linux).
    pub fn waiters(dir: &Path) -> Vec<GateHolder> {
        Gates::now().waiters(dir)
    }
}

/// What is started before this is dropped inherits the gate.
#[derive(Debug)]
#[must_use = "dropping it ends the inheritance"]
pub struct PassedOn {
    _fd: OwnedFd,
}

impl Drop for Gate {
    /// A panic does not end a cycle: a process that shares the gate keeps it shut until its work has ended. In a fork
    /// this is a copy, and the cycle goes on in the process that has taken the gate: there the descriptor is closed
    /// alone.
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
