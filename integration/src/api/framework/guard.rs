//! A command's lock that stands.

use std::{path::Path, time::Duration};

use beadlock_checker::internal::take::Release;

use super::{locks, running::Running};
use crate::error::Error;

/// A command's lock that this process holds. [`CommandGuard::release`] ends it; dropping it is the net, and a signal or
/// `exit` releases it too.
///
/// While a signal ends the process, whoever releases or drops a guard stays in that call until the process is gone.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock at once"]
pub struct CommandGuard {
    number: u64,
    /// The process that holds it: not a fork of it.
    owner: u32,
    running: Running,
    is_over: bool,
}

impl CommandGuard {
    pub(super) fn new(number: u64, running: Running) -> Self {
        Self { number, owner: std::process::id(), running, is_over: false }
    }

    /// What the work under the lock may want to know, for other threads.
    pub fn running(&self) -> Running {
        self.running.clone()
    }

    /// The lock file, absolute.
    pub fn path(&self) -> &Path {
        self.running.path()
    }

    /// Ends the claim. Someone else's lock in its place is left untouched, and that is no error. Fails when the lock
    /// could not be removed: it stands until this process ends, which tries again.
    pub fn release(mut self) -> Result<(), Error> {
        self.end().unwrap_or_else(|| locks::stay()).map(|_| ())
    }

    pub(super) fn is_a_forks(&self) -> bool {
        self.owner != std::process::id()
    }

    /// Releases it, and answers what was there; of a fork nothing. `None`: a signal is ending the process.
    pub(super) fn end(&mut self) -> Option<Result<Option<Release>, Error>> {
        if std::mem::replace(&mut self.is_over, true) || self.is_a_forks() {
            return Some(Ok(None));
        }
        locks::release(self.number, PATIENCE)
    }
}

/// For how long a release waits for whoever changes another lock in the same directory.
const PATIENCE: Duration = Duration::from_secs(10);

impl Drop for CommandGuard {
    fn drop(&mut self) {
        if self.end().is_none() {
            locks::stay();
        }
    }
}
