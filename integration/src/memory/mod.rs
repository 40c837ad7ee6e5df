//! The one lock of a directory, `memory:DIR`: judged by its process and by its age, as the clawdbot document has it.
//!
//! ```
//! use beadlock::memory::{MemoryLock, WAIT};
//!
//! # fn main() -> Result<(), beadlock::Error> {
//! # let dir = std::env::temp_dir().join(format!("beadlock-doc-{}", std::process::id()));
//! let lock = MemoryLock::in_dir(&dir).session("main");
//! let guard = lock.acquire("write:tasks.json", WAIT)?;
//! // Nobody else who asks writes here, and the lock is refreshed every 3 s.
//! guard.release()?;
//! # std::fs::remove_dir(&dir).ok();
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//! - A lock that is held and refreshed is never broken by beadlock, and what beadlock writes the document's programs
//!   understand.
//! - A stale one is removed only if it is still the one that was judged, under the directory's flock.
//! - A process that has the lock has it again at once; it is released with the last guard. Threads of one process do
//!   not keep each other out: that is the document's rule.
//!
//! # Limits
//! The document's own programs look and then write: two of them may have the lock at once, and one of them may write
//! over a lock that was made between its look and its write. The holder of ours then learns that it is lost
//! ([`Guard::still_held`]).

mod broken;
mod here;

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};
use std::{cell::RefCell, ffi::OsStr, sync::Arc, time::Duration};

use beadlock_core::record::memory::UNKNOWN;
use beadlock_core::take::Durability;
use beadlock_core::{Options, Verdict};
use beadlock_core::{facts::random_id, look::look};

use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, Uninterrupted, WaitControl};
use beadlock_claim::protocol::memory::{self, make};
use beadlock_claim::{
    cancel_check::CancelCheck,
    draft::RecordDraft,
    kept_lock::KeptLock,
    loss::WatchStart,
    outer,
    request::{ClaimRequest, LockDraft},
};
use beadlock_claim::{environment::Environment, wait::Wait};
use beadlock_claim::{
    release::release,
    released::{ReleaseError, Released},
    target::Target,
};
use here::{DirectoryEntry, Standing};

pub use beadlock_claim::protocol::memory::{WAIT, status::Status};
pub use beadlock_core::record::memory::{Limits, Record};
pub use broken::{BreakLimit, BrokenLock};

/// For how long the directory's flock is waited for, which others have for moments only.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a claim treats a stale lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stale {
    /// The claim breaks the lock, and takes its place.
    #[default]
    Break,
    /// The claim lets the lock stand, as if it were held.
    Keep,
}

/// The one lock of a directory, which is to be acquired.
#[derive(Debug, Clone)]
#[must_use = "nothing is held before it is acquired"]
pub struct MemoryLock {
    dir: PathBuf,
    session: Option<String>,
    stale: Stale,
    limits: Limits,
}

impl MemoryLock {
    /// The lock `.lock` in `dir`, in the name of the session `$CLAWDBOT_SESSION_ID`, else of `unknown`. The directory
    /// is made when the lock is acquired.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            session: None,
            stale: Stale::default(),
            limits: Limits::default(),
        }
    }

    /// Sets the session in whose name the lock is acquired.
    pub fn session(self, name: impl Into<String>) -> Self {
        Self {
            session: Some(name.into()),
            ..self
        }
    }

    /// Sets how a stale lock is treated; it is broken unless told otherwise.
    pub fn stale(self, stale: Stale) -> Self {
        Self { stale, ..self }
    }

    /// Sets how old a lock may be; the document's 30 and 10 seconds unless told otherwise.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Acquires the lock for the current process, waiting for its holder. A process that has the lock already gets it
    /// once more: the lock is released with the last guard.
    ///
    /// # Errors
    /// [`Code::LockHeld`] when the wait ran out, in the document's words; [`Code::LockUnreadable`] and
    /// [`Code::LockStale`] for a lock file that could not be dealt with; and what the system refused. Nothing is held
    /// then.
    pub fn acquire(&self, operation: &str, wait: Wait) -> Result<Guard, Error> {
        Ok(self.acquire_in(operation, wait, &mut Uninterrupted)?)
    }

    /// [`MemoryLock::acquire`], and every 50 ms of a wait `is_over` is asked whether that is over. `None`: it said so,
    /// and nothing is held. Fails as [`MemoryLock::acquire`].
    pub fn acquire_unless(
        &self,
        operation: &str,
        wait: Wait,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Option<Guard>, Error> {
        match self.acquire_in(operation, wait, &mut CancelCheck::whether(&mut is_over)) {
            Ok(guard) => Ok(Some(guard)),
            Err(NotAcquired::Signalled(_)) => Ok(None),
            Err(NotAcquired::Failed(error)) => Err(error),
        }
    }

    /// Acquires the lock when nobody has it. `None`: somebody has it. Fails as [`MemoryLock::acquire`], but for a lock
    /// that is held.
    pub fn try_acquire(&self, operation: &str) -> Result<Option<Guard>, Error> {
        match self.acquire(operation, Wait::No) {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.code() == Code::LockHeld => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The holder, as the document says it. Changes nothing. Fails with [`Code::LockUnreadable`] for what cannot be
    /// read, and when the directory cannot be reached.
    pub fn status(&self) -> Result<Status, Error> {
        let environment = Environment::read();
        let target = self.target(&environment)?;
        let look = look(&target.place, &self.options());
        if let Verdict::Unreadable(_) = look.verdict {
            return Err(Error::new(Code::LockUnreadable, look.detail()));
        }
        let is_ours = look
            .record
            .as_ref()
            .is_some_and(|record| record.pid() == i64::from(std::process::id()));
        let we_hold_it = is_ours || outer::outer_claim(&target, &environment).is_some();
        Ok(Status::of(&look, &self.limits, we_hold_it))
    }

    fn options(&self) -> Options {
        Options {
            keep_stale: self.stale == Stale::Keep,
            limits: self.limits,
            ..Options::default()
        }
    }

    fn target(&self, environment: &Environment) -> Result<Target, Error> {
        Ok(memory::target(&self.dir, &environment.of_database().cwd)?)
    }

    fn acquire_in(
        &self,
        operation: &str,
        wait: Wait,
        control: &mut dyn WaitControl,
    ) -> Result<Guard, NotAcquired> {
        let environment = Environment::read();
        make(&self.target(&environment)?)?;
        // Once more: now its directory is there, and has a path without links.
        let target = self.target(&environment)?;
        outer::refuse_inside_a_cycle(&target, &environment)?;
        let turn = match here::enter(&target, wait, control)? {
            DirectoryEntry::Again(standing) => {
                return Ok(Guard {
                    standing,
                    broken: Vec::new(),
                });
            }
            DirectoryEntry::First(turn) => turn,
        };
        if let Some(id) = outer::outer_claim(&target, &environment) {
            return Ok(Guard {
                standing: turn.stands(None, id, target),
                broken: Vec::new(),
            });
        }
        let named = || {
            environment
                .get("CLAWDBOT_SESSION_ID")
                .and_then(OsStr::to_str)
        };
        let session = self
            .session
            .as_deref()
            .or_else(named)
            .filter(|name| !name.is_empty())
            .unwrap_or(UNKNOWN);
        let draft = LockDraft::Record(RecordDraft::Memory {
            operation: operation.to_owned(),
            about: None,
        });
        let request = ClaimRequest {
            target,
            holder: session.to_owned(),
            id: random_id(),
            outer: None,
            draft,
            wait,
            drain: wait.drain(None).min(PATIENCE),
            durability: Durability::Synced,
            options: self.options(),
        };
        let target = &request.target;
        let broken = RefCell::new(Vec::new());
        let held = request.acquire(std::process::id(), control, |removed| {
            broken.borrow_mut().extend(target.removed(removed))
        })?;
        let (id, lease) = (held.id().to_owned(), target.lease(&held));
        let keeping = KeptLock::begin(held, lease, WatchStart::Later).map_err(|failed| {
            let (held, error) = *failed;
            // It is stale by itself before long.
            let _ = release(held, target.dir(), PATIENCE, &mut Uninterrupted);
            error
        })?;
        Ok(Guard {
            standing: turn.stands(Some(keeping), id, request.target),
            broken: broken.into_inner(),
        })
    }
}

/// The lock of a directory, held by this process and refreshed every 3 s. Dropping the last guard of it releases it. It
/// is `Send` and `Sync`.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock at once"]
pub struct Guard {
    standing: Arc<Standing>,
    broken: Vec<String>,
}

impl Guard {
    /// The directory, canonical.
    pub fn dir(&self) -> &Path {
        self.standing.target.dir()
    }

    /// The claim's id, as the lock file has it; the outer claim's inside a `beadlock hold`.
    pub fn id(&self) -> &str {
        &self.standing.id
    }

    /// The document's log lines about the stale locks that were broken to make room for this one, such as
    /// `[LOCK] Breaking stale lock: process 12345 is dead`.
    pub fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Whether the lock is still held: to be asked before a step that must not happen without it. Fails with
    /// [`Code::LockLost`], with the likely cause.
    pub fn still_held(&self) -> Result<(), Error> {
        self.standing.still_held()
    }

    /// Releases the lock, where this is the last guard.
    ///
    /// # Errors
    /// [`Code::LockLost`] when the lock was not there any more, or was somebody else's, which is left untouched. Else the
    /// lock could not be removed: it is stale 30 seconds later.
    pub fn release(self) -> Result<Released, ReleaseError<Self>> {
        let Some(mut last) = Arc::into_inner(self.standing) else {
            return Ok(Released::GoesOn);
        };
        let lost = match last.is_ours() {
            true => last.still_held().err(),
            false => None,
        };
        match last.release().and_then(|ended| lost.map_or(Ok(ended), Err)) {
            Ok(released) => Ok(released),
            Err(error) => Err(ReleaseError::of(error, None)),
        }
    }
}

#[cfg(test)]
mod tests;
