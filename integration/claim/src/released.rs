//! What the release of a guard has found.

use std::fmt;

use crate::error::{Code, Error};

/// What a release has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The lock stood until now, and is free.
    Ended,
    /// The lock goes on, for it was not this guard's to end: it stands under the `beadlock hold` that this process runs in,
    /// another guard of this process has it too, or this is a copy in a forked process.
    GoesOn,
}

/// A release that ended no lock of ours: it had been lost ([`Code::LockLost`]), or it could not be removed. In the second
/// case the guard comes back, and still holds it.
pub struct ReleaseError<G> {
    error: Error,
    guard: Option<Box<G>>,
}

impl<G> ReleaseError<G> {
    #[doc(hidden)]
    pub fn of(error: Error, guard: Option<G>) -> Self {
        let guard = guard.map(Box::new);
        Self { error, guard }
    }

    /// Why the release has failed.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// True if the lock had been lost: what was done since is not protected.
    pub fn is_lost(&self) -> bool {
        self.error.code() == Code::LockLost
    }

    /// The guard, to try again. `None`: there is nothing left to release.
    pub fn into_guard(self) -> Option<G> {
        self.guard.map(|guard| *guard)
    }
}

impl<G> fmt::Debug for ReleaseError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<G> fmt::Display for ReleaseError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<G> std::error::Error for ReleaseError<G> {}

impl<G> From<ReleaseError<G>> for Error {
    fn from(failed: ReleaseError<G>) -> Self {
        failed.error
    }
}
