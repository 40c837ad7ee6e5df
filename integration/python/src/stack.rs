//! The guards of a lock object, the last one first. A process that was forked has a copy of them, and none of their
//! locks.

use std::mem;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use beadlock::Asker;
use pyo3::marker::Python;

/// Guards, each of the process that has made it.
pub struct Stack<G>(Mutex<Vec<Owned<G>>>);

/// Work under a guard may take long: it is waited for without the GIL.
impl<G: Send> Stack<G> {
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Adds a guard of this process, which this asker has.
    pub fn push(&self, py: Python<'_>, asker: Asker, guard: G) {
        py.detach(|| {
            self.guards().push(Owned {
                pid: process::id(),
                asker,
                guard: Some(guard),
            })
        });
    }

    /// Takes off the last guard of this asker, to be ended; without one, the last of all. `None`: there is none.
    pub fn pop(&self, py: Python<'_>, asker: Asker) -> Option<Popped<G>> {
        let take_off = || {
            let mut guards = self.guards();
            let own = guards.iter().rposition(|owned| owned.asker.is_same(&asker));
            let at = own.or(guards.len().checked_sub(1))?;
            Some(guards.remove(at))
        };
        py.detach(take_off).map(|mut owned| match owned.is_ours() {
            true => owned.guard.take().map_or(Popped::OfAnother, Popped::Ours),
            false => Popped::OfAnother,
        })
    }

    /// The result of `work` on the last guard, without the GIL; `None` where it is not this process's, or there is
    /// none.
    pub fn last<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&G) -> T + Send) -> Option<T> {
        py.detach(|| {
            let guards = self.guards();
            guards
                .last()
                .filter(|owned| owned.is_ours())
                .and_then(|owned| owned.guard.as_ref())
                .map(work)
        })
    }

    /// The guards, also where another thread has panicked with them.
    fn guards(&self) -> MutexGuard<'_, Vec<Owned<G>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard that was taken off the stack.
pub enum Popped<G> {
    Ours(G),
    /// The guard of another process, of which this is a fork: nothing is released here.
    OfAnother,
}

struct Owned<G> {
    pid: u32,
    asker: Asker,
    /// The guard, until it is dropped or taken off.
    guard: Option<G>,
}

impl<G> Owned<G> {
    fn is_ours(&self) -> bool {
        self.pid == process::id()
    }
}

impl<G> Drop for Owned<G> {
    /// In a fork the guard is forgotten: it must not release what its parent holds.
    fn drop(&mut self) {
        let guard = self.guard.take();
        if !self.is_ours() {
            mem::forget(guard);
        }
    }
}
