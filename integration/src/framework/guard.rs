//! A command's lock that stands, and what the work under it may ask.

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{ffi::OsString, time::Duration};

use beadlock_core::take::Release;

use super::locks;
use crate::hold::Claim;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::{environment::Environment, outer, target::Target};

/// A command's lock that this process holds. [`CommandGuard::release`] ends it; dropping it is the net, and a signal or
/// `exit` releases it too.
///
/// While a signal ends the process, a thread that releases or drops a guard stays in that call until the process is
/// gone.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock at once"]
pub struct CommandGuard {
    running: Running,
    is_over: bool,
}

impl CommandGuard {
    /// A guard of the lock with this number; `id` is the claim's.
    pub(super) fn new(number: u64, id: String, target: Target) -> Self {
        let (path, warnings) = (target.path(), Mutex::default());
        Self {
            running: Running(Arc::new(Shared {
                number,
                id,
                target,
                path,
                warnings,
            })),
            is_over: false,
        }
    }

    /// A handle to the lock for the work under it, also in other threads.
    pub fn running(&self) -> Running {
        self.running.clone()
    }

    /// The path of the lock file, absolute.
    pub fn path(&self) -> &Path {
        self.running.path()
    }

    /// Ends the claim. Someone else's lock in its place is left untouched, and that is not an error. Fails when the
    /// lock could not be removed: it stands until this process ends, which tries again.
    pub fn release(mut self) -> Result<(), Error> {
        self.end().unwrap_or_else(|| locks::stay()).map(|_| ())
    }

    /// Releases the lock, and returns what was there; in a fork, or once more, nothing (`Ok(None)`). `None`: a signal
    /// is ending the process.
    pub(super) fn end(&mut self) -> Option<Result<Option<Release>, Error>> {
        if std::mem::replace(&mut self.is_over, true) || !locks::are_ours() {
            return Some(Ok(None));
        }
        locks::release(self.running.0.number, PATIENCE)
    }
}

/// For how long a release waits for a change of another lock in the same directory.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for CommandGuard {
    fn drop(&mut self) {
        if self.end().is_none() {
            locks::stay();
        }
    }
}

/// A command's lock, as the work under it sees it: questions about the lock, and a place for warnings. Cheap to clone,
/// for other threads.
#[derive(Debug, Clone)]
pub struct Running(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    number: u64,
    id: String,
    target: Target,
    path: PathBuf,
    warnings: Mutex<Vec<String>>,
}

impl Running {
    /// The path of the lock file, absolute.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The random id of this claim, as the lock file has it; the outer claim's in a command of `beadlock hold` on the
    /// same lock.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// True when a signal is ending the process: work that goes on by itself, in a loop or in threads, is to come to
    /// its end. It has 200 ms from when the last child has ended. A child that is started then hears of the signal at
    /// once: the process has to do the cleaning up by itself.
    pub fn is_ending(&self) -> bool {
        locks::is_ended_by_a_signal()
    }

    /// Whether the lock is still there and still ours: to be asked before a step that must not happen without it. Takes
    /// 100 ms when it is not: one look proves no loss. Fails with [`Code::LockLost`], with the likely cause.
    pub fn still_held(&self) -> Result<(), Error> {
        locks::ask(self.0.number, Claim::still_held).unwrap_or_else(|| {
            let path = self.path().display();
            Err(Error::new(
                Code::LockLost,
                format!("{path} was released: the work under it is over"),
            ))
        })
    }

    /// A line for `warnings` in the envelope of [`run`](super::CommandLock::run).
    pub fn warn(&self, line: impl Into<String>) {
        self.0
            .warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line.into());
    }

    /// Variables for the environment of a child (`Command::envs`) that may want the same lock: it runs under this one,
    /// instead of waiting for it.
    pub fn environment(&self) -> [(&'static str, OsString); 3] {
        let ids = outer::ids_inside(self.id(), &self.0.target, &Environment::read());
        [
            ("BEADLOCK_HELD_TARGET", self.0.target.absolute()),
            ("BEADLOCK_HELD_ID", self.id().into()),
            ("BEADLOCK_HELD_IDS", ids.into()),
        ]
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.0
            .warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
