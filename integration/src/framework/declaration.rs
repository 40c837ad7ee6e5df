//! The lock that a command declares, and the wait for it: by a thread where a task waits.

use beadlock_claim::error::Problem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::{ffi::OsStr, future::Future, path::PathBuf, pin::Pin, thread, time::Duration};

use beadlock_base::{escape::escaped, sys::process_id};
use beadlock_core::Options;
use beadlock_core::record::beads::holder_name_is_fit;
use beadlock_core::take::Durability;

use super::locks::{self, LockAttendant, LockEnding, ReleaseOrder, Terms, WaitBell};
use super::{dir::Directory, ending, guard::CommandGuard};
use crate::hold::Hold;
use beadlock_claim::labels::Labels;
use beadlock_claim::observe::NotAcquired;
use beadlock_claim::{environment::Environment, wait::Wait};
use beadlock_claim::{error::Error, protocol::lock_at, words::of_no_process};
use beadlock_supervise::command::holder_name;

/// The lock of a command: of which tool, under which name, how patiently, and what happens at its end.
///
/// ```no_run
/// use beadlock::framework::CommandLock;
/// use std::time::Duration;
///
/// let lock = CommandLock::new("mytool", "deploy").version(env!("CARGO_PKG_VERSION"));
/// let lock = lock.timeout(Duration::from_secs(30));
/// println!("{}", lock.path()?.display()); // /run/user/1000/mytool/locks/deploy.lock
/// # Ok::<(), beadlock::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is claimed before `run`, `run_async`, `acquire` or `acquire_async`"]
pub struct CommandLock {
    tool: String,
    name: String,
    directory: Option<PathBuf>,
    labels: Labels,
    timeout: Duration,
    terms: Terms,
}

impl CommandLock {
    /// The lock `name` of `tool`: declarations of the same two wait for one another. Both become parts of a path.
    pub fn new(tool: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            name: name.into(),
            directory: None,
            labels: Labels::default(),
            timeout: Duration::from_secs(10),
            terms: Terms {
                order: ReleaseOrder::ForwardFirst,
                kill_after: Duration::from_secs(10),
            },
        }
    }

    /// Sets the version of the tool in the lock file, 1 to 128 printable characters; none unless told otherwise. A tool
    /// gives its own: `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.labels.version = Some(version.into());
        self
    }

    /// Sets the address of what the lock is held for, such as a CI run: http or https. Waiting processes show it.
    pub fn about(mut self, address: impl Into<String>) -> Self {
        self.labels.about = Some(address.into());
        self
    }

    /// Sets the directory of the lock, in place of the user's own; a relative one is meant from the working directory.
    /// Where it is missing it is made for this user alone (0700). A user that may write it can take the lock.
    ///
    /// A lock between users needs a directory that was made for them, writable by all of them and without the sticky
    /// bit (`chmod 2770`). In a sticky one nobody but root takes over what another user's crashed tool has left.
    pub fn directory(mut self, dir: impl Into<PathBuf>) -> Self {
        self.directory = Some(dir.into());
        self
    }

    /// For how long a holder is waited for: 10 seconds unless told otherwise. Zero does not wait.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// How long the children may take to end after a signal: 10 seconds unless told otherwise. What is left then is
    /// killed.
    pub fn kill_after(mut self, limit: Duration) -> Self {
        self.terms.kill_after = limit;
        self
    }

    /// On a signal the lock is released before the children hear of it, as REQ-F-013 has it; else when they have ended.
    /// See [which order to use](super#which-order-to-use).
    pub fn release_before_forwarding(mut self) -> Self {
        self.terms.order = ReleaseOrder::ReleaseFirst;
        self
    }

    /// The lock file. It need not be there, nor its directory. Fails with [`Code::Usage`](crate::Code::Usage) for a
    /// tool or a name that cannot be part of a path.
    pub fn path(&self) -> Result<PathBuf, Error> {
        let environment = Environment::read();
        let dir = self.where_it_lies(&environment)?.path();
        Ok(environment.of_database().cwd.join(dir).join(self.file()))
    }

    /// Waits for the lock, and takes it: for tools that print what they have to say themselves. A signal ends the
    /// process, in the wait with nothing claimed, later as [`run`](Self::run) does.
    ///
    /// In a command of `beadlock hold` on the same lock it stands under the outer claim, and releases nothing.
    ///
    /// # Errors
    /// [`Code::LockHeld`](crate::Code::LockHeld) when the wait ran out, and at once when this process has the lock
    /// already. [`Code::Usage`](crate::Code::Usage) as [`path`](Self::path).
    /// [`Code::NotPermitted`](crate::Code::NotPermitted) for a directory of its own that others could change, and one
    /// that is closed to this user. [`Code::LockUnreadable`](crate::Code::LockUnreadable) and
    /// [`Code::LockStale`](crate::Code::LockStale) for a lock file that could not be dealt with, and what the system
    /// refused. Nothing is claimed then.
    pub fn acquire(self) -> Result<CommandGuard, Error> {
        let bell = WaitBell::new()?;
        self.acquire_heeding(&bell)
    }

    /// [`acquire`](Self::acquire) without blocking the executor, whichever it is: a thread waits. Dropped before it is
    /// ready, the future claims nothing, or releases what it has just claimed; the same lock can be wanted again at
    /// once. Fails as [`acquire`](Self::acquire).
    pub async fn acquire_async(self) -> Result<CommandGuard, Error> {
        Acquiring::start(self)?.await
    }

    fn acquire_heeding(self, bell: &Arc<WaitBell>) -> Result<CommandGuard, Error> {
        self.labels.check()?;
        let environment = Environment::read();
        let directory = self.where_it_lies(&environment)?;
        directory.make()?;
        let path = directory.path().join(self.file());
        let target = lock_at(&path, &environment)?;
        ending::watch()?;
        let wanted = locks::want(&target.path(), self.terms, bell)?;
        let hold = Hold {
            target: None,
            holder: holder_name(OsStr::new(&format!("{} {}", self.tool, self.name))),
            labels: self.labels,
            wait: if self.timeout.is_zero() {
                Wait::No
            } else {
                Wait::UpTo(self.timeout)
            },
            drain: Some(self.timeout.max(SHORTEST_DRAIN)),
            durability: Durability::Synced,
            // A crashed holder counts as dead, be it a zombie or a PID that is another's by now.
            options: Options {
                reap_proven_dead: true,
                ..Options::default()
            },
        };
        let claim = match hold.claim_on(target.clone(), &environment, &mut LockAttendant(bell)) {
            Ok(claim) => claim,
            Err(NotAcquired::Failed(error)) => return Err(error),
            Err(NotAcquired::Signalled(_)) => {
                drop(wanted);
                locks::stay();
            }
        };
        let id = claim.id().to_owned();
        match wanted.stands(claim) {
            Ok(number) => Ok(CommandGuard::new(number, id, target)),
            // It may be this very thread that ends it, in an exit handler of the tool's.
            Err(LockEnding::Exit) => Err(locks::too_late()),
            // Until the process is gone.
            Err(LockEnding::Signal(_)) => locks::stay(),
        }
    }

    fn where_it_lies(&self, environment: &Environment) -> Result<Directory, Error> {
        for (what, text) in [("tool", &self.tool), ("lock", &self.name)] {
            if !is_part_of_a_path(text) {
                let shown = escaped(text);
                return Err(Error::usage(format!(
                    "\"{shown}\" is no name for a {what}: 1 to 128 printable characters without a slash, and not . or \
                     .."
                )));
            }
        }
        let given = self.directory.clone().map(Directory::Given);
        Ok(given.unwrap_or_else(|| Directory::of(&self.tool, environment)))
    }

    fn file(&self) -> String {
        format!("{}.lock", self.name)
    }
}

/// A change of another lock of the same directory is waited for at least this long.
const SHORTEST_DRAIN: Duration = Duration::from_secs(1);

fn is_part_of_a_path(text: &str) -> bool {
    !text.contains('/') && ![".", ".."].contains(&text) && holder_name_is_fit(text)
}

/// The lock is on its way. Dropped, it is given up; a fork's copy gives nothing up, for the wait is its parent's.
#[derive(Debug)]
struct Acquiring {
    process: u32,
    bell: Arc<WaitBell>,
    parcel: Arc<Mutex<Parcel>>,
}

#[derive(Debug, Default)]
struct Parcel {
    come: Option<Result<CommandGuard, Error>>,
    waker: Option<Waker>,
}

fn open(parcel: &Mutex<Parcel>) -> MutexGuard<'_, Parcel> {
    parcel.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Acquiring {
    /// Starts the thread that waits.
    fn start(lock: CommandLock) -> Result<Self, Error> {
        let this = Self {
            process: process_id(),
            bell: WaitBell::new()?,
            parcel: Arc::default(),
        };
        let (bell, parcel) = (Arc::clone(&this.bell), Arc::clone(&this.parcel));
        let work = move || {
            let acquired = lock.acquire_heeding(&bell);
            let waker = {
                let mut parcel = open(&parcel);
                parcel.come = Some(acquired);
                parcel.waker.take()
            };
            waker.into_iter().for_each(Waker::wake);
            // Where the wait was given up meanwhile, the parcel ends here, and releases the lock.
        };
        let spawned = thread::Builder::new()
            .name("command-lock-wait".to_owned())
            .spawn(work);
        spawned.map_err(|error| {
            let why = of_no_process(&error);
            Error::io(
                format!("failed to start the thread that waits for the lock: {why}"),
                error.kind(),
            )
        })?;
        Ok(this)
    }
}

impl Future for Acquiring {
    type Output = Result<CommandGuard, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut parcel = open(&self.parcel);
        if let Some(acquired) = parcel.come.take() {
            return Poll::Ready(acquired);
        }
        parcel.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        if self.process != process_id() {
            return;
        }
        self.bell.withdraw();
        let come = open(&self.parcel).come.take();
        // Claimed just before: released.
        drop(come);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::poll::wait_for;
    use beadlock_claim::observe::WaitControl;

    #[test]
    fn a_fork_s_copy_of_a_wait_does_not_wake_it() {
        let bell = WaitBell::new().unwrap();
        let rings = || wait_for([LockAttendant(&bell).signals()], Duration::ZERO) == [true];
        let wait = |process| Acquiring {
            process,
            bell: Arc::clone(&bell),
            parcel: Arc::default(),
        };
        drop(wait(process_id() + 1));
        assert!(!rings(), "it was another process's");
        drop(wait(process_id()));
        assert!(rings());
    }
}
