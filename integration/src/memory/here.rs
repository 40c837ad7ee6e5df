//! The locks of directories that this process has: by the document it gets one again, and releases it with the last.

use beadlock_claim::error::Problem;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::sleep;
use std::time::Duration;

use beadlock_base::deadline::boottime;
use beadlock_core::Options;
use beadlock_core::look::look;
use beadlock_core::take::Release;

use beadlock_base::poll::wait_for;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, Uninterrupted, WaitControl};
use beadlock_claim::wait::{Deadline, Wait};
use beadlock_claim::{
    kept_lock::KeptLock, lease::renewal_thread::HeartbeatEvent, loss::Loss, outer, retry,
};
use beadlock_claim::{release::release, released::Released, target::Target};

/// How often it is looked whether another thread has done.
const SHORTLY: Duration = Duration::from_millis(5);
/// For how long the heartbeats are asked for the cause of a loss; they look twice, 100 ms apart.
const TOLD_WITHIN: Duration = Duration::from_secs(1);
/// For how long a release waits for the directory's flock.
const PATIENCE: Duration = Duration::from_secs(5);

/// By process and directory, for a fork has its parent's list, and none of its locks. A lock that is being claimed or
/// released cannot be upgraded.
static HERE: Mutex<BTreeMap<(u32, PathBuf), Weak<Standing>>> = Mutex::new(BTreeMap::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer to a wish for a lock, within this process.
#[derive(Debug)]
pub enum DirectoryEntry {
    /// This process has the lock already.
    Again(Arc<Standing>),
    /// This process does not have the lock, and no other thread of it claims it now.
    First(DirectoryTurn),
}

/// The entry of one directory among the locks of this process, from before the claim until after the release.
#[derive(Debug)]
pub struct DirectoryTurn {
    process: u32,
    dir: PathBuf,
}

/// Gets the lock of this directory once more, or the turn to claim it; waits for threads that claim or release it.
pub fn enter(
    target: &Target,
    wait: Wait,
    control: &mut dyn WaitControl,
) -> Result<DirectoryEntry, NotAcquired> {
    let (process, dir) = (std::process::id(), target.dir().to_owned());
    let deadline = Deadline::after(wait.limit());
    loop {
        {
            let mut here = locked(&HERE);
            match here.get(&(process, dir.clone())).map(Weak::upgrade) {
                None => {
                    here.insert((process, dir.clone()), Weak::new());
                    return Ok(DirectoryEntry::First(DirectoryTurn { process, dir }));
                }
                Some(Some(standing)) => return Ok(DirectoryEntry::Again(standing)),
                Some(None) => {}
            }
        }
        if deadline.is_over() {
            return Err(
                retry::held(target, &look(&target.place, &Options::default()), wait).into(),
            );
        }
        let [signalled] = wait_for([control.signals()], SHORTLY);
        control.check_stop(signalled)?;
    }
}

impl DirectoryTurn {
    /// Enters the lock as standing, kept up by `keeping`; `None`: by the `beadlock hold` that this process runs in.
    pub fn stands(self, keeping: Option<KeptLock>, id: String, target: Target) -> Arc<Standing> {
        let entry = (self.process, self.dir.clone());
        let standing = Arc::new(Standing {
            keeping: Mutex::new(keeping),
            since: boottime(),
            lost: Mutex::default(),
            id,
            target,
            turn: self,
        });
        locked(&HERE).insert(entry, Arc::downgrade(&standing));
        standing
    }
}

impl Drop for DirectoryTurn {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            locked(&HERE).remove(&(self.process, std::mem::take(&mut self.dir)));
        }
    }
}

#[derive(Debug)]
pub struct Standing {
    /// The upkeep of the lock; `None` where it is an outer claim's, and once it is released.
    keeping: Mutex<Option<KeptLock>>,
    /// When the lock was acquired, by the clock that nobody sets.
    since: Duration,
    lost: Mutex<Option<LostLock>>,
    pub id: String,
    pub target: Target,
    /// Dropped after the release.
    turn: DirectoryTurn,
}

/// How the lock was lost, where somebody who broke it keeps its record, and how old it was.
#[derive(Debug)]
struct LostLock {
    loss: Loss,
    kept: Option<PathBuf>,
    age: Duration,
}

impl Standing {
    /// Whether the lock is still there and still ours.
    pub fn still_held(&self) -> Result<(), Error> {
        let mut lost = locked(&self.lost);
        if lost.is_none() {
            *lost = self.told();
        }
        if lost.is_none() && !outer::stands(&self.id, &self.target) {
            *lost = Some(self.told_soon());
        }
        match &*lost {
            None => Ok(()),
            Some(LostLock { loss, kept, age }) => {
                Err(loss.error(&self.id, kept.as_deref(), *age, &self.target))
            }
        }
    }

    /// The loss that the heartbeats have told.
    fn told(&self) -> Option<LostLock> {
        let keeping = locked(&self.keeping);
        let Some(KeptLock::Beating(beats)) = &*keeping else {
            return None;
        };
        let lost = |news| match news {
            HeartbeatEvent::Lost(loss, kept) => Some(self.lost(loss, kept)),
            _ => None,
        };
        beats.news().into_iter().filter_map(lost).last()
    }

    /// The loss of a lock that is gone: its heartbeats know the cause before long. An outer claim has none here.
    fn told_soon(&self) -> LostLock {
        let deadline = Deadline::after(TOLD_WITHIN);
        while locked(&self.keeping).is_some() && !deadline.is_over() {
            if let Some(lost) = self.told() {
                return lost;
            }
            sleep(SHORTLY);
        }
        self.lost(Loss::Vanished, None)
    }

    fn lost(&self, loss: Loss, kept: Option<PathBuf>) -> LostLock {
        let age = boottime().saturating_sub(self.since);
        LostLock { loss, kept, age }
    }

    /// Releases the lock. In a fork nothing is released: the lock is the parent's, whose threads are not there.
    pub fn release(&mut self) -> Result<Released, Error> {
        let Some(keeping) = locked(&self.keeping).take() else {
            return Ok(Released::GoesOn);
        };
        if !self.is_ours() {
            std::mem::forget(keeping);
            return Ok(Released::GoesOn);
        }
        let Some(held) = keeping.end() else {
            let message = format!(
                "{} does not answer; it goes stale by itself",
                self.target.given
            );
            return Err(Error::new(Code::Io, message));
        };
        let ended = release(held, self.target.dir(), PATIENCE, &mut Uninterrupted);
        let loss = match ended.map_err(|failed| failed.1)? {
            Release::Released => return Ok(Released::Ended),
            Release::Gone => Loss::Vanished,
            Release::NotOurs(now) => Loss::Changed(now),
        };
        let age = boottime().saturating_sub(self.since);
        Err(loss.error(&self.id, None, age, &self.target))
    }

    /// Whether this process has made it, and is no fork of that one.
    pub fn is_ours(&self) -> bool {
        self.turn.process == std::process::id()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // A caller that wants to know calls `release`.
        let _ = self.release();
    }
}
