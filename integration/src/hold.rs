//! A lock taken from Rust: a builder, and a guard for the current process.

use beadlock_claim::error::Problem;
use std::path::{Path, PathBuf};
use std::{ffi::OsString, time::Duration};

use beadlock_base::{escape::escaped_path, sys::process_id};
use beadlock_core::Options;
use beadlock_core::facts::random_id;
use beadlock_core::take::{Durability, Held, Release};

#[cfg(any(doc, test))]
use beadlock_claim::error::Code;
use beadlock_claim::error::Error;
use beadlock_claim::loss::{self, Loss};
use beadlock_claim::observe::{NotAcquired, Uninterrupted, WaitControl};
use beadlock_claim::protocol::{Acceptance, directory, resolve};
use beadlock_claim::{
    cancel_check::CancelCheck,
    draft::RecordDraft,
    outer,
    own_claims::OwnClaim,
    release::release,
    released::{ReleaseError, Released},
    request::{ClaimRequest, LockDraft},
    target::Target,
};
use beadlock_claim::{
    environment::Environment,
    labels::{Labels, check_holder},
    wait::Wait,
};
use beadlock_supervise::command::holder_name;

/// A claim to be made: on what, under which name, how patiently.
#[derive(Debug, Clone)]
#[must_use = "nothing is claimed before `claim`"]
pub struct Hold {
    /// The target as a command line names it; `None`: the target that a command line without one finds.
    pub(super) target: Option<OsString>,
    pub(super) holder: String,
    pub(super) labels: Labels,
    pub(super) wait: Wait,
    pub(super) drain: Option<Duration>,
    pub(super) durability: Durability,
    pub(super) options: Options,
}

impl Hold {
    /// A claim on the database in `dir`, in the name of this program. A `redirect` file in it is followed once; one
    /// that git tracks is refused, for everybody who may push would decide what is claimed.
    pub fn on(dir: impl Into<PathBuf>) -> Self {
        Self::of(Some(directory(&dir.into())))
    }

    /// A claim on the target that a command line names so: `.beads`, `beads:DIR` or `lock:PATH`.
    pub fn target(text: impl Into<OsString>) -> Self {
        Self::of(Some(text.into()))
    }

    /// A claim on the target that a command line without one means: `$BEADLOCK_TARGET`, `$BEADS_DIR`, else the nearest
    /// `.beads`.
    pub fn found() -> Self {
        Self::of(None)
    }

    fn of(target: Option<OsString>) -> Self {
        let program = std::env::current_exe().ok();
        let name = program
            .as_deref()
            .and_then(Path::file_name)
            .map(holder_name);
        Self {
            target,
            holder: name.unwrap_or_else(|| "beadlock".to_owned()),
            labels: Labels::default(),
            wait: Wait::DEFAULT,
            drain: None,
            durability: Durability::Synced,
            options: Options::default(),
        }
    }

    /// Sets the name of the holder, 1 to 128 printable characters: the daemon's log says it.
    pub fn holder(mut self, name: impl Into<String>) -> Self {
        self.holder = name.into();
        self
    }

    /// Sets the version of the holder in the lock file, 1 to 128 printable characters; none unless told otherwise. A
    /// tool gives its own: `env!("CARGO_PKG_VERSION")`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.labels.version = Some(version.into());
        self
    }

    /// Sets the address of what the lock is held for, such as a CI run: http or https. Waiting processes show it.
    pub fn about(mut self, address: impl Into<String>) -> Self {
        self.labels.about = Some(address.into());
        self
    }

    /// Sets for how long a holder is waited for; 10 seconds unless told otherwise.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets for how long a running cycle is waited for; unless told otherwise 130 seconds, or 1 second with
    /// [`Wait::No`].
    pub fn drain(mut self, limit: Duration) -> Self {
        self.drain = Some(limit);
        self
    }

    /// Leaves out the sync of the lock file to the disk: for short turns on a `lock:PATH` that need not survive a power
    /// cut in one piece. After a power cut the file may be empty. Then nobody claims it until a person removes it. On a
    /// tmpfs nothing survives anyway, and the sync costs nothing.
    ///
    /// The lock of a database is always synced: an empty one would stop every daemon. [`Hold::claim`] refuses it with
    /// [`Code::Usage`].
    pub fn without_sync(mut self) -> Self {
        self.durability = Durability::Unsynced;
        self
    }

    /// Claims for the current process. Once this returns no cycle runs, and none begins until the release. Another
    /// thread that claims the same waits, as another process does.
    ///
    /// # Errors
    /// [`Code::LockHeld`] when the wait ran out, [`Code::DrainTimeout`] when a cycle did not end,
    /// [`Code::LockUnreadable`] and [`Code::LockStale`] for a lock file that could not be dealt with, and what the
    /// system refused. Nothing is claimed then, and no other's lock was touched. The first and the second come at once
    /// where this thread has claimed the same itself, or is in a cycle of it.
    ///
    /// In a command of `beadlock hold` on the same database the claim is nested: it stands under the outer lock, has
    /// its id, and releases nothing.
    pub fn claim(self) -> Result<Claim, Error> {
        Ok(self.claim_in(&Environment::read(), &mut Uninterrupted)?)
    }

    /// [`Hold::claim`], and every 50 ms of a wait `is_over` is asked whether that is over. `None`: it said so, and
    /// nothing is claimed. Fails as [`Hold::claim`].
    pub fn claim_unless(self, mut is_over: impl FnMut() -> bool) -> Result<Option<Claim>, Error> {
        match self.claim_in(
            &Environment::read(),
            &mut CancelCheck::whether(&mut is_over),
        ) {
            Ok(claim) => Ok(Some(claim)),
            Err(NotAcquired::Signalled(_)) => Ok(None),
            Err(NotAcquired::Failed(error)) => Err(error),
        }
    }

    fn claim_in(
        self,
        environment: &Environment,
        control: &mut dyn WaitControl,
    ) -> Result<Claim, NotAcquired> {
        check_holder(&self.holder)?;
        self.labels.check()?;
        let target = resolve(self.target.as_deref(), environment, Acceptance::Any)?;
        target.for_a_guard().map_err(Error::usage)?;
        target.refuse_tracked()?;
        target.make_directory(environment)?;
        if self.durability == Durability::Unsynced && target.place.names().has_foreign_writers() {
            return Err(always_synced(&target).into());
        }
        self.claim_on(target, environment, control)
    }

    /// Claims this target, or stands under the outer claim that this process runs under.
    pub(super) fn claim_on(
        self,
        target: Target,
        environment: &Environment,
        control: &mut dyn WaitControl,
    ) -> Result<Claim, NotAcquired> {
        let Self {
            holder,
            labels,
            wait,
            durability,
            options,
            ..
        } = self;
        let (process, drain) = (process_id(), wait.drain(self.drain));
        outer::refuse_inside_a_cycle(&target, environment)?;
        if let Some(id) = outer::outer_claim(&target, environment) {
            return Ok(Claim {
                own: None,
                held: None,
                process,
                id,
                target,
                patience: drain,
            });
        }
        let id = random_id();
        let draft = LockDraft::Record(RecordDraft::Process { labels });
        let request = ClaimRequest {
            target,
            holder,
            id,
            outer: None,
            draft,
            wait,
            drain,
            durability,
            options,
        };
        let held = request.acquire(process, control, |_| ())?;
        Ok(Claim {
            own: Some(OwnClaim::note(&request.id)),
            held: Some(held),
            process,
            id: request.id,
            target: request.target,
            patience: drain,
        })
    }
}

fn always_synced(target: &Target) -> Error {
    let file = escaped_path(&target.path());
    Error::usage(format!(
        "{file} is always synced to the disk: after a power cut an empty one would stop every daemon; only a lock:PATH \
         of another name can do without"
    ))
}

/// A lock that this process holds. [`Claim::release`] ends it; dropping it is the net. A process that is forked
/// meanwhile has a copy of it, which releases nothing. It is `Send` and `Sync`, and belongs to no thread: see
/// [`Claim::detach`] for one that another thread than its maker's has.
#[derive(Debug)]
#[must_use = "dropping the claim releases the lock at once"]
pub struct Claim {
    /// The lock; `None` when nested, and once it is released.
    held: Option<Held>,
    /// `None` when nested.
    own: Option<OwnClaim>,
    /// PID of the process that holds it.
    process: u32,
    id: String,
    target: Target,
    patience: Duration,
}

impl Claim {
    /// The random id of this claim, as the lock file has it; the outer claim's when nested.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The database's directory, canonical; of `lock:PATH` the one that the lock file lies in.
    pub fn dir(&self) -> &Path {
        self.target.dir()
    }

    /// The path of the lock file.
    pub fn path(&self) -> PathBuf {
        self.target.path()
    }

    /// Whether the lock is still there and still ours (the outer claim's, when nested): to be asked before a step that
    /// must not happen without it. Takes 100 ms when it is not: one look proves no loss. Fails with [`Code::LockLost`],
    /// with the likely cause.
    pub fn still_held(&self) -> Result<(), Error> {
        let Some(held) = &self.held else {
            let lost = || Loss::Vanished.error(&self.id, None, Duration::ZERO, &self.target);
            return if outer::stands(&self.id, &self.target) {
                Ok(())
            } else {
                Err(lost())
            };
        };
        let Some(loss) = loss::now(held) else {
            return Ok(());
        };
        Err(loss.error(
            &self.id,
            held.broken_as().as_deref(),
            held.age(),
            &self.target,
        ))
    }

    /// The claim, for another thread to have: this one may then wait for it. Without that, the thread that has made a
    /// claim is refused a second one of the same, for it would wait for itself.
    pub fn detach(self) -> Self {
        if let Some(own) = &self.own {
            own.detach();
        }
        self
    }

    /// Ends the claim. A nested one goes on.
    ///
    /// # Errors
    /// [`Code::LockLost`] when the lock was not there any more, or was somebody else's, which is left untouched: what was
    /// done since is not protected. Else the lock could not be removed: the claim comes back with the error, still held.
    pub fn release(self) -> Result<Released, ReleaseError<Self>> {
        let (patience, is_nested) = (self.patience, self.held.is_none());
        let lost = match self.is_ours() || is_nested {
            true => self.still_held().err(),
            // A fork's copy.
            false => None,
        };
        let (age, target, id) = (
            self.held.as_ref().map_or(Duration::ZERO, Held::age),
            self.target.clone(),
            self.id.clone(),
        );
        let gone = |loss: Loss| loss.error(&id, None, age, &target);
        let ended = match self.end(patience)? {
            None => Ok(Released::GoesOn),
            Some(Release::Released) => Ok(Released::Ended),
            Some(Release::Gone) => Err(gone(Loss::Vanished)),
            Some(Release::NotOurs(now)) => Err(gone(Loss::Changed(now))),
        };
        match lost.map_or(ended, Err) {
            Ok(released) => Ok(released),
            Err(lost) => Err(ReleaseError::of(lost, None)),
        }
    }

    /// [`Claim::release`], waiting for the gate at most `patience`. The answer is what was there; of a nested claim
    /// nothing.
    pub(crate) fn end(mut self, patience: Duration) -> Result<Option<Release>, ReleaseError<Self>> {
        let Some(held) = self.take_ours() else {
            return Ok(None);
        };
        match release(held, self.target.dir(), patience, &mut Uninterrupted) {
            Ok(release) => Ok(Some(release)),
            Err(failed) => {
                let (held, error) = *failed;
                self.held = Some(held);
                Err(ReleaseError::of(error, Some(self)))
            }
        }
    }

    /// `None`: there is nothing that this process would have to release.
    fn take_ours(&mut self) -> Option<Held> {
        let is_ours = self.is_ours();
        self.held.take().filter(|_| is_ours)
    }

    /// Whether this is the process that has made it, and no fork of it.
    fn is_ours(&self) -> bool {
        self.process == process_id()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(held) = self.take_ours() {
            // Call `release` to know. The lock is stale when this process is gone.
            let _ = release(
                held,
                self.target.dir(),
                Duration::from_secs(1),
                &mut Uninterrupted,
            );
        }
    }
}

#[cfg(test)]
mod tests;
