//! The locks of directories that this process has: by the document it gets one again, and releases it with the last.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use beadlock_checker::Options;
use beadlock_checker::internal::look;

use crate::claim::attendant::{Attendant, Stopped, Unattended};
use crate::claim::{nested, patience};
use crate::error::{Code, Error};
use crate::settings::wait::{Deadline, Wait};
use crate::{
    claim::event::wait_for, claim::keeping::Keeping, claim::lease::heartbeat::HeartbeatEvent, claim::loss::Loss,
    claim::release::release, claim::target::Target,
};

/// How often it is looked whether another thread has done.
const SHORTLY: Duration = Duration::from_millis(5);
/// For how long a release waits for the directory's flock.
const PATIENCE: Duration = Duration::from_secs(5);

static HERE: Mutex<Vec<HeldDirectory>> = Mutex::new(Vec::new());

/// One directory, and what this process has of its lock.
struct HeldDirectory {
    /// A fork has its parent's list, and none of its locks.
    process: u32,
    dir: PathBuf,
    /// Nothing while it is claimed; what is no more while it is released.
    standing: Weak<Standing>,
}

#[derive(Debug)]
pub struct Standing {
    process: u32,
    keeper: Mutex<Option<Keeper>>,
    lost: Mutex<Option<Loss>>,
    id: String,
    target: Target,
}

#[derive(Debug)]
pub enum Keeper {
    /// A thread of this process.
    Ours(Keeping),
    /// The `beadlock hold` that this process runs in.
    Outer,
}

/// What a wish to have a lock has come to, within this process.
#[derive(Debug)]
pub enum DirectoryEntry {
    /// It has it already.
    Again(Arc<Standing>),
    /// It has it not, and nobody else of this process claims it now.
    First(DirectoryTurn),
}

/// The turn to claim the lock of one directory, among the threads of this process.
#[derive(Debug)]
pub struct DirectoryTurn {
    dir: PathBuf,
    has_stood: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn leave(dir: &Path) {
    let process = std::process::id();
    locked(&HERE).retain(|entry| entry.process != process || entry.dir != dir);
}

/// Has the lock of this directory once more, or gets the turn to claim it; waits for the threads that have it.
pub fn enter(target: &Target, wait: Wait, attendant: &mut impl Attendant) -> Result<DirectoryEntry, Stopped> {
    let (process, dir) = (std::process::id(), target.dir());
    let deadline = Deadline::after(wait.limit());
    loop {
        {
            let mut here = locked(&HERE);
            match here.iter().find(|entry| entry.process == process && entry.dir == dir) {
                None => {
                    here.push(HeldDirectory { process, dir: dir.to_owned(), standing: Weak::new() });
                    return Ok(DirectoryEntry::First(DirectoryTurn { dir: dir.to_owned(), has_stood: false }));
                }
                Some(entry) => {
                    if let Some(standing) = entry.standing.upgrade() {
                        return Ok(DirectoryEntry::Again(standing));
                    }
                }
            }
        }
        if deadline.is_over() {
            return Err(patience::held(target, &look(&target.place, &Options::default()), wait).into());
        }
        let [signalled] = wait_for([attendant.signals()], SHORTLY);
        if signalled && let Some(stopped) = attendant.stopped() {
            return Err(stopped);
        }
    }
}

impl DirectoryTurn {
    pub fn stands(mut self, keeper: Keeper, id: String, target: Target) -> Arc<Standing> {
        let process = std::process::id();
        let (keeper, lost) = (Mutex::new(Some(keeper)), Mutex::new(None));
        let standing = Arc::new(Standing { process, keeper, lost, id, target });
        let mut here = locked(&HERE);
        if let Some(entry) = here.iter_mut().find(|entry| entry.process == process && entry.dir == self.dir) {
            entry.standing = Arc::downgrade(&standing);
        }
        self.has_stood = true;
        standing
    }
}

impl Drop for DirectoryTurn {
    fn drop(&mut self) {
        if !self.has_stood {
            leave(&self.dir);
        }
    }
}

impl Standing {
    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it is still there and still ours.
    pub fn still_held(&self) -> Result<(), Error> {
        let mut lost = locked(&self.lost);
        match &*locked(&self.keeper) {
            Some(Keeper::Ours(Keeping::Beating(beats))) => {
                for news in beats.news() {
                    if let HeartbeatEvent::Lost(loss, _) = news {
                        *lost = Some(loss);
                    }
                }
            }
            Some(Keeper::Ours(Keeping::Watched(..))) => {}
            Some(Keeper::Outer) | None => {}
        }
        if lost.is_none() && !nested::stands(&self.id, &self.target) {
            *lost = Some(Loss::Vanished);
        }
        match &*lost {
            None => Ok(()),
            Some(loss) => Err(loss.error(&self.id, None, Duration::ZERO, &self.target)),
        }
    }

    pub fn end(self) -> Result<(), Error> {
        self.release()
    }

    fn release(&self) -> Result<(), Error> {
        let Some(keeper) = locked(&self.keeper).take() else { return Ok(()) };
        if self.process != std::process::id() {
            // The parent's, whose threads are not here.
            std::mem::forget(keeper);
            return Ok(());
        }
        let released = match keeper {
            Keeper::Outer => Ok(()),
            Keeper::Ours(keeping) => match keeping.end() {
                Some(held) => {
                    release(held, self.target.dir(), PATIENCE, &mut Unattended).map(|_| ()).map_err(|failed| failed.1)
                }
                None => {
                    Err(Error::new(Code::Io, format!("{} does not answer; it goes stale by itself", self.target.given)))
                }
            },
        };
        leave(self.target.dir());
        released
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // Whoever wants to know calls `release`.
        let _ = self.release();
    }
}
