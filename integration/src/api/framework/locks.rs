//! The command locks of this process, and whether it is ending: shared by its threads, the signal thread and `exit`.
//!
//! A lock is here from the wish for it until it is gone. Whoever takes a claim out of here says so first
//! (`Phase::Leaving`), so that the process is never ended between two steps of a claim or a release.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{thread::sleep, time::Duration};

use beadlock_checker::Error as CheckerError;
use beadlock_checker::internal::{escape::escaped_path, system_words, take::Release};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;

use crate::claim::attendant::{Attendant, Stopped, Waited};
use crate::error::{Code, Error};
use crate::{api::hold::Claim, claim::tree::Tree, settings::wait::Deadline};

/// What comes first when a signal ends the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOrder {
    /// The children hear of it and end; then the lock is released.
    ForwardFirst,
    /// The lock is released; then the children hear of it.
    ReleaseFirst,
}

/// How a lock ends when a signal ends the process.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub order: ReleaseOrder,
    /// After this long the children that are left are killed.
    pub kill_after: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Signal(Signal),
    /// `exit` was called, or `main` has returned.
    Exit,
}

#[derive(Debug)]
enum Phase {
    Claiming,
    Standing(Claim),
    /// It stands, and the work under it is done: the process is ending, and whoever ends it releases it.
    Returned(Claim),
    Leaving,
}

#[derive(Debug)]
struct Lock {
    number: u64,
    path: PathBuf,
    terms: Terms,
    bell: Arc<Bell>,
    phase: Phase,
}

#[derive(Debug)]
struct State {
    locks: Vec<Lock>,
    ending: Option<Ending>,
    /// What runs below us and not under a lock.
    tree: Option<Tree>,
    last: u64,
}

static STATE: Mutex<State> = Mutex::new(State { locks: Vec::new(), ending: None, tree: None, last: 0 });
static CHANGED: Condvar = Condvar::new();

/// A signal is ending this process: as [`State::ending`] has it, for who must not wait, as a fork must not.
static IS_SIGNALLED: AtomicBool = AtomicBool::new(false);

/// The PID of the process whose locks these are, 0 at first: a forked child finds them in its memory, and has none.
pub static OWNER: AtomicU32 = AtomicU32::new(0);

/// This process is the one whose locks these are, and no fork of it.
pub fn are_ours() -> bool {
    OWNER.load(Ordering::Relaxed) == std::process::id()
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub struct Bell {
    fd: EventFd,
    is_withdrawn: AtomicBool,
}

impl Bell {
    pub fn new() -> Result<Arc<Self>, Error> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(|errno| {
            let error = errno.into();
            let why = system_words(&error);
            Error::io(format!("failed to make an eventfd for the wait for a lock: {why}"), error.kind())
        })?;
        Ok(Arc::new(Self { fd, is_withdrawn: AtomicBool::new(false) }))
    }

    pub fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Relaxed);
        self.ring();
    }

    fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Relaxed)
    }

    fn ring(&self) {
        let _ = self.fd.write(1);
    }
}

pub struct LockAttendant<'a>(pub &'a Bell);

impl Attendant for LockAttendant<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.fd.as_fd())
    }

    fn stopped(&mut self) -> Option<Stopped> {
        let failed = |why: &str| Stopped::Failed(Error::new(Code::Io, why));
        match ending() {
            Some(Ending::Signal(signal)) => Some(Stopped::Signalled(signal)),
            Some(Ending::Exit) => Some(Stopped::Failed(too_late())),
            None => self.0.is_withdrawn().then(|| failed("nobody waits for the lock any more")),
        }
    }

    fn waiting(&mut self, _: &Waited<'_>) {}
    fn no_gate(&mut self, _: &CheckerError) {}

    fn advice(&self) -> &'static str {
        "try again"
    }
}

/// The process is in the middle of `exit`: no lock would outlast that.
pub fn too_late() -> Error {
    Error::new(Code::Io, "the process is ending, and claims no lock any more")
}

/// A lock that is wanted. Dropped before it stands, it is wanted no longer.
#[derive(Debug)]
pub struct PendingLock {
    number: u64,
}

/// Says that this process wants the lock at `path`.
pub fn want(path: &Path, terms: Terms, bell: &Arc<Bell>) -> Result<PendingLock, Error> {
    // A wait that was given up just now is over in a moment.
    let is_going = |lock: &Lock| matches!(lock.phase, Phase::Claiming) && lock.bell.is_withdrawn();
    let mut state = wait_until(SHORTLY, |state| !state.locks.iter().any(|lock| lock.path == path && is_going(lock)));
    if let Some(lock) = state.locks.iter().find(|lock| lock.path == path) {
        return Err(ours_already(lock));
    }
    if state.locks.is_empty() {
        state.tree = Some(Tree::from_now_on());
    }
    if state.ending.is_some() {
        bell.ring();
    }
    state.last += 1;
    let number = state.last;
    let (path, bell) = (path.to_owned(), Arc::clone(bell));
    state.locks.push(Lock { number, path, terms, bell, phase: Phase::Claiming });
    Ok(PendingLock { number })
}

fn ours_already(lock: &Lock) -> Error {
    let (path, pid) = (escaped_path(&lock.path), std::process::id());
    let has = match &lock.phase {
        Phase::Claiming => "waits for it already",
        Phase::Standing(_) | Phase::Returned(_) | Phase::Leaving => "holds it already",
    };
    let message = format!("{path}: this process (PID {pid}) {has}, and would wait for itself; release it first");
    Error::new(Code::LockHeld, message).detailed(format!("lock_file={path} holder_pid={pid}"))
}

impl PendingLock {
    /// It stands. `Err`: the process is ending, and the lock was released again.
    pub fn stands(self, claim: Claim) -> Result<u64, Ending> {
        let number = self.number;
        let mut state = state();
        if let Some(ending) = state.ending {
            drop(state);
            // Nothing was done under it. Until it is gone, the process does not end.
            let _ = claim.end(SHORTLY);
            return Err(ending);
        }
        if let Some(lock) = state.lock(number) {
            lock.phase = Phase::Standing(claim);
        }
        // It is no longer merely wanted.
        std::mem::forget(self);
        Ok(number)
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        state().remove(self.number);
    }
}

/// For how long a release at the end of the process waits for the gate.
pub const SHORTLY: Duration = Duration::from_secs(1);

impl State {
    fn lock(&mut self, number: u64) -> Option<&mut Lock> {
        self.locks.iter_mut().find(|lock| lock.number == number)
    }

    fn remove(&mut self, number: u64) {
        self.locks.retain(|lock| lock.number != number);
        CHANGED.notify_all();
    }

    fn take(&mut self, number: u64) -> Option<Claim> {
        let lock = self.lock(number)?;
        match std::mem::replace(&mut lock.phase, Phase::Leaving) {
            Phase::Standing(claim) | Phase::Returned(claim) => Some(claim),
            other => {
                lock.phase = other;
                None
            }
        }
    }
}

pub fn ending() -> Option<Ending> {
    state().ending
}

/// Releases a lock whose work is done; `Ok(None)`: it is gone. `None`: a signal ends the process, and the lock.
pub fn release(number: u64, patience: Duration) -> Option<Result<Option<Release>, Error>> {
    let claim = {
        let mut state = state();
        let claim = state.take(number);
        match (state.ending, claim) {
            (Some(Ending::Signal(_)), Some(claim)) => {
                if let Some(lock) = state.lock(number) {
                    lock.phase = Phase::Returned(claim);
                }
                return None;
            }
            (_, claim) => claim,
        }
    };
    let released = claim.map_or(Ok(None), |claim| end(number, claim, patience));
    // It may have begun meanwhile.
    (!is_ended_by_a_signal()).then_some(released)
}

pub fn is_ended_by_a_signal() -> bool {
    IS_SIGNALLED.load(Ordering::Relaxed)
}

fn end(number: u64, claim: Claim, patience: Duration) -> Result<Option<Release>, Error> {
    match claim.end(patience) {
        Ok(release) => {
            state().remove(number);
            Ok(release)
        }
        Err(failed) => {
            let error = Error::new(Code::Io, failed.to_string());
            if let Some(lock) = state().lock(number) {
                lock.phase = Phase::Standing(failed.into_claim());
            }
            CHANGED.notify_all();
            Err(error)
        }
    }
}

pub fn ask<T>(number: u64, question: impl FnOnce(&Claim) -> T) -> Option<T> {
    match &state().lock(number)?.phase {
        Phase::Standing(claim) | Phase::Returned(claim) => Some(question(claim)),
        Phase::Claiming | Phase::Leaving => None,
    }
}

/// The process is ending from now on: nothing is claimed, and only who ends it releases. Answers the cause before.
pub fn begin(ending: Ending) -> Option<Ending> {
    let mut state = state();
    let before = state.ending;
    if before.is_none() {
        state.ending = Some(ending);
        IS_SIGNALLED.store(matches!(ending, Ending::Signal(_)), Ordering::Relaxed);
        state.locks.iter().for_each(|lock| lock.bell.ring());
    }
    before
}

/// Waits until nobody is in the middle of a claim or a release.
pub fn settle(limit: Duration) {
    let is_moving = |lock: &Lock| matches!(lock.phase, Phase::Claiming | Phase::Leaving);
    drop(wait_until(limit, |state| !state.locks.iter().any(is_moving)));
}

/// Waits until there are no locks any more.
pub fn wait_for_none(limit: Duration) {
    drop(wait_until(limit, |state| state.locks.is_empty()));
}

fn wait_until(limit: Duration, is_so: impl Fn(&State) -> bool) -> MutexGuard<'static, State> {
    let deadline = Deadline::after(limit);
    let mut state = state();
    while !is_so(&state) && !deadline.is_over() {
        let waited = CHANGED.wait_timeout(state, deadline.left());
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    state
}

pub fn standing() -> Vec<Terms> {
    let state = state();
    let stands = |lock: &&Lock| matches!(lock.phase, Phase::Standing(_) | Phase::Returned(_));
    state.locks.iter().filter(stands).map(|lock| lock.terms).collect()
}

pub fn all_returned() -> bool {
    !state().locks.iter().any(|lock| matches!(lock.phase, Phase::Standing(_)))
}

/// What runs below us and not under a lock, for whoever ends the process.
pub fn take_tree() -> Tree {
    state().tree.take().unwrap_or_default()
}

/// Releases the locks that stand, the last first: all, or those of this order. Answers what failed.
pub fn release_all(order: Option<ReleaseOrder>) -> Vec<Error> {
    let numbers: Vec<u64> = {
        let state = state();
        let wanted = |lock: &&Lock| order.is_none_or(|order| lock.terms.order == order);
        state.locks.iter().rev().filter(wanted).map(|lock| lock.number).collect()
    };
    let release = |number| {
        let claim = state().take(number)?;
        end(number, claim, SHORTLY).err()
    };
    numbers.into_iter().filter_map(release).collect()
}

/// Stays until the process has ended: somebody else is ending it.
pub fn stay() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}
