//! A lock that is waited for by a thread, for a task of whichever executor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::{future::Future, pin::Pin, thread};

use beadlock_checker::internal::sys::process_id;

use super::{declaration::CommandLock, guard::CommandGuard, locks::Bell};
use crate::{error::Error, words::of_no_process};

/// The lock is on its way. Dropped, it is given up; a fork's copy gives nothing up, for the wait is its parent's.
#[derive(Debug)]
pub struct Acquiring {
    process: u32,
    bell: Arc<Bell>,
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
    pub fn start(lock: CommandLock) -> Result<Self, Error> {
        let this = Self { process: process_id(), bell: Bell::new()?, parcel: Arc::default() };
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
        let spawned = thread::Builder::new().name("command-lock-wait".to_owned()).spawn(work);
        spawned.map_err(|error| {
            let why = of_no_process(&error);
            Error::io(format!("failed to start the thread that waits for the lock: {why}"), error.kind())
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
    use std::time::Duration;

    use super::*;
    use crate::api::framework::locks::LockAttendant;
    use crate::claim::attendant::Attendant;
    use crate::claim::event::wait_for;

    #[test]
    fn a_fork_s_copy_of_a_wait_does_not_wake_it() {
        let bell = Bell::new().unwrap();
        let rings = || wait_for([LockAttendant(&bell).signals()], Duration::ZERO) == [true];
        let wait = |process| Acquiring { process, bell: Arc::clone(&bell), parcel: Arc::default() };
        drop(wait(process_id() + 1));
        assert!(!rings(), "it was another process's");
        drop(wait(process_id()));
        assert!(rings());
    }
}
