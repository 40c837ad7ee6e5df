//! A lock of a file that is to be taken.

use std::path::Path;

use beadlock_checker::internal::dialect::file::{Mode, WAIT};

use super::lock::{FileLock, take};
use super::target::FileTarget;
use crate::claim::attendant::{Stopped, Unattended};
use crate::{claim::asking::Asking, error::Error, settings::wait::Wait};

#[cfg(doc)]
use crate::error::Code;

/// A lock to be taken: on which file, how, and how patiently. 30 seconds and [`Mode::Exclusive`] unless told otherwise.
/// It can be taken any number of times, one after the other.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before `acquire`"]
pub struct Locking {
    /// Found once, so that nothing but the lock itself is left to be done each time.
    target: Result<FileTarget, Error>,
    mode: Mode,
    wait: Wait,
}

impl Locking {
    pub(super) fn of(path: &Path) -> Self {
        Self { target: FileTarget::of(path), mode: Mode::Exclusive, wait: Wait::UpTo(WAIT) }
    }

    /// For how long a holder is waited for.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Together with others who share it; for readers.
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// Takes the lock for this process. Inside a `beadlock hold` of the same file that one's lock is used, and nothing
    /// is released by this guard.
    ///
    /// # Errors
    /// [`Code::LockFailed`] when the wait ran out, when the lock file cannot be opened, or when this process has the
    /// file locked already; [`Code::NoTarget`] where there is no directory, [`Code::Usage`] for what is no file.
    pub fn acquire(&self) -> Result<FileLock, Error> {
        Ok(take(self.target()?, self.mode, self.wait, None, &mut Unattended)?)
    }

    /// [`Locking::acquire`], and every 50 ms of a wait `is_over` is asked whether that is over. `None`: it said so, and
    /// nothing is locked. Fails as [`Locking::acquire`].
    pub fn acquire_unless(&self, mut is_over: impl FnMut() -> bool) -> Result<Option<FileLock>, Error> {
        match take(self.target()?, self.mode, self.wait, None, &mut Asking::whether(&mut is_over)) {
            Ok(lock) => Ok(Some(lock)),
            Err(Stopped::Signalled(_)) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    fn target(&self) -> Result<&FileTarget, Error> {
        self.target.as_ref().map_err(Clone::clone)
    }
}
