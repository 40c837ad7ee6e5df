//! The wait for a lock: blocked in the kernel, in a thread with its own open of the lock file. The kernel is fair to
//! those that wait so; a caller that polls may never see the lock free.
//!
//! A thread that waits in the kernel cannot be called back. When nobody waits for its lock any more, it lets go.
//! Until then it is kept for the next caller that asks for the same: a process that tries for ever has one such thread.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use beadlock_base::own::Own;
use beadlock_core::record::file::Mode;
use nix::{errno::Errno, sys::eventfd::EventFd};

use super::open::{FileId, Flocked, KernelWait, OpenLockFile, failed};
use super::target::FileTarget;
use super::turn::{InTurn, lost_meanwhile};
use crate::error::Error;
use crate::event::{bell, failed_to};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitTarget {
    Lock(Mode),
    /// The turn on the lock file with this inode.
    Turn(FileId),
}

#[derive(Debug)]
pub enum Got {
    Lock(Flocked),
    Turn(InTurn),
}

/// Threads that nobody waits for any more.
static LATE: Own<Vec<Arc<Slot>>> = Own::new();

#[derive(Debug)]
struct Slot {
    target: FileTarget,
    what: WaitTarget,
    bell: EventFd,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    inode: FileId,
    is_awaited: bool,
    has_ended: bool,
    got: Option<Result<Got, Error>>,
}

#[derive(Debug)]
pub struct Blocked(Arc<Slot>);

impl Blocked {
    /// Starts a thread that waits, or takes over one that already waits for the same; the lock file is `inode` now.
    pub fn on(target: &FileTarget, what: WaitTarget, inode: FileId) -> Result<Self, Error> {
        let is_it = |slot: &Arc<Slot>| {
            slot.what == what && slot.target.lock() == target.lock() && slot.state().inode == inode
        };
        let late = LATE.with(|late| {
            late.retain(|slot| !slot.state().has_ended);
            late.iter().position(is_it).map(|at| late.swap_remove(at))
        });
        if let Some(slot) = late {
            let mut state = slot.state();
            if !state.has_ended {
                state.is_awaited = true;
                drop(state);
                return Ok(Self(slot));
            }
        }
        Self::start(target, what, inode)
    }

    fn start(target: &FileTarget, what: WaitTarget, inode: FileId) -> Result<Self, Error> {
        let bell = bell("make an eventfd for the lock")?;
        let state = SlotState {
            inode,
            is_awaited: true,
            has_ended: false,
            got: None,
        };
        let slot = Arc::new(Slot {
            target: target.clone(),
            what,
            bell,
            state: Mutex::new(state),
        });
        let blocked = Arc::clone(&slot);
        let builder = thread::Builder::new()
            .name("file lock".to_owned())
            .stack_size(64 * 1024);
        let spawned = builder.spawn(move || blocked.wait());
        spawned.map_err(|error| failed_to("start the thread that waits for the lock", &error))?;
        Ok(Self(slot))
    }

    pub fn bell(&self) -> BorrowedFd<'_> {
        self.0.bell.as_fd()
    }

    /// The lock or the turn that the thread has obtained, or its error; `None`: it still waits, or was asked before.
    pub fn got(&self) -> Option<Result<Got, Error>> {
        self.0.state().got.take()
    }

    pub fn inode(&self) -> FileId {
        self.0.state().inode
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let got = LATE.with(|late| {
            let mut state = self.0.state();
            state.is_awaited = false;
            if !state.has_ended {
                late.push(Arc::clone(&self.0));
            }
            state.got.take()
        });
        // What came in the last moment is let go.
        drop(got);
    }
}

impl Slot {
    /// Nobody panics with it; and what is there counts, should somebody.
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) {
        loop {
            let got = match OpenLockFile::open(&self.target) {
                Ok(file) if self.goes_on_with(file.inode()) => self.take(file),
                Ok(_) => return,
                Err(error) => Err(error),
            };
            match got {
                // Another file has got the name meanwhile, and that one is meant.
                Ok(Got::Lock(lock)) if !lock.file().is_named_by(&self.target) => {}
                got => return self.give(got),
            }
        }
    }

    /// Notes the inode, and returns whether anybody waits for the thread. False: the thread is to end.
    fn goes_on_with(&self, inode: FileId) -> bool {
        let mut state = self.state();
        state.inode = inode;
        state.has_ended = !state.is_awaited;
        state.is_awaited
    }

    fn take(&self, file: OpenLockFile) -> Result<Got, Error> {
        let taken = match self.what {
            WaitTarget::Lock(mode) => file
                .flock(mode, KernelWait::Blocked)
                .map(|taken| taken.map(Got::Lock)),
            WaitTarget::Turn(inode) if file.inode() != inode => {
                return Err(lost_meanwhile(&self.target));
            }
            WaitTarget::Turn(_) => {
                InTurn::take(file, KernelWait::Blocked).map(|taken| taken.map(Got::Turn))
            }
        };
        // It does not say busy when it may wait.
        let busy = || io::Error::from(Errno::EAGAIN);
        taken
            .and_then(|taken| taken.map_err(|_| busy()))
            .map_err(|error| failed(&self.target, &error))
    }

    fn give(&self, got: Result<Got, Error>) {
        let mut state = self.state();
        state.has_ended = true;
        if state.is_awaited {
            state.got = Some(got);
            drop(state);
            // It cannot be full.
            let _ = self.bell.write(1);
        }
    }
}
