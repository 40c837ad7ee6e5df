//! The command locks of this process, and whether it is ending: shared by its threads, the signal thread and `exit`.
//!
//! A lock is here from the wish for it until it is gone. Its claim is not here while somebody claims or releases it, so
//! that the process is never ended between two steps of a claim or a release.

use beadlock_claim::error::Problem;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{thread::sleep, time::Duration};

use beadlock_base::{error::system_words, escape::escaped_path};
use beadlock_core::take::Release;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::Signal;

use crate::hold::Claim;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::wait::Deadline;
use beadlock_supervise::process_tree::ProcessTree;

/// The first step when a signal ends the process: end the children, or release the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOrder {
    /// The children get the signal and end; then the lock is released.
    ForwardFirst,
    /// The lock is released; then the children get the signal.
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
pub enum LockEnding {
    Signal(Signal),
    /// `exit` was called, or `main` has returned.
    Exit,
}

#[derive(Debug)]
struct Lock {
    number: u64,
    path: PathBuf,
    terms: Terms,
    bell: Arc<WaitBell>,
    progress: Progress,
    /// The claim; `None` while it is being made or released.
    claim: Option<Claim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Claiming,
    Standing,
    /// The work under the lock is done while a signal ends the process, and the signal thread releases the lock.
    Returned,
}

#[derive(Debug)]
struct State {
    locks: Vec<Lock>,
    /// Processes below this one, without those that ran before the first of the locks was wanted; `None` before that.
    tree: Option<ProcessTree>,
    last: u64,
}

static STATE: Mutex<State> = Mutex::new(State {
    locks: Vec::new(),
    tree: None,
    last: 0,
});
static CHANGED: Condvar = Condvar::new();

/// Set with [`STATE`] locked, and read without it where a wait is not allowed: in a fork, say.
static ENDING: OnceLock<LockEnding> = OnceLock::new();

/// The PID of the process whose locks these are, 0 at first: a forked child finds them in its memory, and has none.
pub static OWNER: AtomicU32 = AtomicU32::new(0);

/// True when this process is the one whose locks these are, and not a fork of it.
pub fn are_ours() -> bool {
    OWNER.load(Ordering::Relaxed) == std::process::id()
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the wait for a lock.
#[derive(Debug)]
pub struct WaitBell {
    fd: EventFd,
    is_withdrawn: AtomicBool,
}

impl WaitBell {
    pub fn new() -> Result<Arc<Self>, Error> {
        let fd = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(
            |errno| {
                let error = errno.into();
                let why = system_words(&error);
                Error::io(
                    format!("failed to make an eventfd for the wait for a lock: {why}"),
                    error.kind(),
                )
            },
        )?;
        Ok(Arc::new(Self {
            fd,
            is_withdrawn: AtomicBool::new(false),
        }))
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

pub struct LockAttendant<'a>(pub &'a WaitBell);

impl WaitControl for LockAttendant<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.fd.as_fd())
    }

    fn stop_reason(&mut self) -> Option<NotAcquired> {
        match ending() {
            Some(LockEnding::Signal(signal)) => Some(NotAcquired::Signalled(signal)),
            Some(LockEnding::Exit) => Some(too_late().into()),
            None if self.0.is_withdrawn() => {
                Some(Error::new(Code::Io, "nobody waits for the lock any more").into())
            }
            None => None,
        }
    }

    fn advice(&self) -> &'static str {
        "try again"
    }
}

/// The process is in the middle of `exit`: no lock would outlast that.
pub fn too_late() -> Error {
    Error::new(
        Code::Io,
        "the process is ending, and claims no lock any more",
    )
}

/// A lock that is wanted. Dropped before it stands, it is wanted no longer.
#[derive(Debug)]
pub struct PendingLock(u64);

/// Says that this process wants the lock at `path`.
pub fn want(path: &Path, terms: Terms, bell: &Arc<WaitBell>) -> Result<PendingLock, Error> {
    // A wait that was given up just now is over in a moment.
    let is_going = |lock: &Lock| lock.progress == Progress::Claiming && lock.bell.is_withdrawn();
    let mut state = wait_until(SHORTLY, |state| {
        !state
            .locks
            .iter()
            .any(|lock| lock.path == path && is_going(lock))
    });
    if let Some(lock) = state.locks.iter().find(|lock| lock.path == path) {
        let (path, pid) = (escaped_path(path), std::process::id());
        let has = if lock.progress == Progress::Claiming {
            "waits for it already"
        } else {
            "holds it already"
        };
        let message = format!(
            "{path}: this process (PID {pid}) {has}, and would wait for itself; release it first"
        );
        return Err(Error::new(Code::LockHeld, message)
            .detailed(format!("lock_file={path} holder_pid={pid}")));
    }
    if state.locks.is_empty() {
        state.tree = Some(ProcessTree::from_now_on());
    }
    if ending().is_some() {
        bell.ring();
    }
    state.last += 1;
    let number = state.last;
    let (path, bell, progress) = (path.to_owned(), Arc::clone(bell), Progress::Claiming);
    state.locks.push(Lock {
        number,
        path,
        terms,
        bell,
        progress,
        claim: None,
    });
    Ok(PendingLock(number))
}

impl PendingLock {
    /// Enters the lock as standing. `Err`: the process is ending, and the lock was released again.
    pub fn stands(self, claim: Claim) -> Result<u64, LockEnding> {
        let mut state = state();
        if let Some(ending) = ending() {
            drop(state);
            // Nothing was done under it. Until it is gone, the process does not end.
            let _ = claim.end(SHORTLY);
            return Err(ending);
        }
        state.stands(self.0, claim);
        drop(state);
        Ok(self.0)
    }
}

impl Drop for PendingLock {
    fn drop(&mut self) {
        state().remove(|lock| lock.number == self.0 && lock.progress == Progress::Claiming);
    }
}

/// For how long a release at the end of the process waits for the gate.
const SHORTLY: Duration = Duration::from_secs(1);

impl State {
    fn lock(&mut self, number: u64) -> Option<&mut Lock> {
        self.locks.iter_mut().find(|lock| lock.number == number)
    }

    fn stands(&mut self, number: u64, claim: Claim) {
        if let Some(lock) = self.lock(number) {
            (lock.progress, lock.claim) = (Progress::Standing, Some(claim));
        }
        CHANGED.notify_all();
    }

    fn remove(&mut self, is_gone: impl Fn(&Lock) -> bool) {
        self.locks.retain(|lock| !is_gone(lock));
        CHANGED.notify_all();
    }
}

pub fn ending() -> Option<LockEnding> {
    ENDING.get().copied()
}

pub fn is_ended_by_a_signal() -> bool {
    matches!(ending(), Some(LockEnding::Signal(_)))
}

/// Releases a lock whose work is done; `Ok(None)`: it is gone. `None`: a signal ends the process, and the lock.
pub fn release(number: u64, patience: Duration) -> Option<Result<Option<Release>, Error>> {
    let claim = {
        let mut state = state();
        let lock = state.lock(number);
        if is_ended_by_a_signal() {
            lock.into_iter()
                .for_each(|lock| lock.progress = Progress::Returned);
            return None;
        }
        lock.and_then(|lock| lock.claim.take())
    };
    let released = claim.map_or(Ok(None), |claim| end(number, claim, patience));
    // The signal may have come meanwhile.
    (!is_ended_by_a_signal()).then_some(released)
}

fn end(number: u64, claim: Claim, patience: Duration) -> Result<Option<Release>, Error> {
    match claim.end(patience) {
        Ok(release) => {
            state().remove(|lock| lock.number == number);
            Ok(release)
        }
        Err(failed) => {
            let error = Error::new(Code::Io, failed.to_string());
            if let Some(claim) = failed.into_guard() {
                state().stands(number, claim);
            }
            Err(error)
        }
    }
}

/// Asks the claim, where it stands.
pub fn ask<T>(number: u64, question: impl FnOnce(&Claim) -> T) -> Option<T> {
    state().lock(number)?.claim.as_ref().map(question)
}

/// The process is ending from now on: nothing is claimed, and only the caller releases. Answers the cause before.
pub fn begin(cause: LockEnding) -> Option<LockEnding> {
    let state = state();
    let before = ending();
    if ENDING.set(cause).is_ok() {
        state.locks.iter().for_each(|lock| lock.bell.ring());
    }
    before
}

/// Waits until nobody is in the middle of a claim or a release.
pub fn settle(limit: Duration) {
    drop(wait_until(limit, |state| {
        state.locks.iter().all(|lock| lock.claim.is_some())
    }));
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

/// How long children may take to end: the longest of the locks that stand. `None`: none stands.
pub fn kill_after() -> Option<Duration> {
    let state = state();
    state
        .locks
        .iter()
        .filter(|lock| lock.claim.is_some())
        .map(|lock| lock.terms.kill_after)
        .max()
}

pub fn all_returned() -> bool {
    !state()
        .locks
        .iter()
        .any(|lock| lock.claim.is_some() && lock.progress == Progress::Standing)
}

/// Takes out the tree of processes that have come since the first of the locks was wanted, for the thread that ends
/// this process.
pub fn take_tree() -> ProcessTree {
    state().tree.take().unwrap_or_default()
}

/// Releases the locks that stand, the last first: all, or those of this order. Returns the errors.
pub fn release_all(order: Option<ReleaseOrder>) -> Vec<Error> {
    let is_wanted = |lock: &&Lock| order.is_none_or(|order| lock.terms.order == order);
    let numbers: Vec<u64> = state()
        .locks
        .iter()
        .rev()
        .filter(is_wanted)
        .map(|lock| lock.number)
        .collect();
    let release = |number| {
        let claim = state().lock(number)?.claim.take()?;
        end(number, claim, SHORTLY).err()
    };
    numbers.into_iter().filter_map(release).collect()
}

/// Stays until the process has ended: another thread is ending it.
pub fn stay() -> ! {
    loop {
        sleep(Duration::from_secs(3600));
    }
}
