//! The guards of a lock object, the last one first. A process that was forked has a copy of them, and none of their
//! locks.

use std::mem;
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
                levels: 1,
                since: Instant::now(),
                guard: Some(guard),
            })
        });
    }

    /// Notes that this asker has acquired once more what it has. False: it has nothing.
    pub fn again(&self, py: Python<'_>, asker: Asker) -> bool {
        py.detach(|| {
            let mut guards = self.guards();
            let own = guards.iter_mut().rfind(|owned| owned.is_of(&asker));
            own.map(|owned| owned.levels += 1).is_some()
        })
    }

    /// How often this asker has acquired what it has.
    pub fn levels(&self, py: Python<'_>, asker: Asker) -> usize {
        py.detach(|| {
            let guards = self.guards();
            let own = guards.iter().rfind(|owned| owned.is_of(&asker));
            own.map_or(0, |owned| owned.levels)
        })
    }

    /// Takes off the last guard of this asker, to be ended; without one, the last of all. One that was acquired several
    /// times stays until the last of them, unless it is to end `at_once`. `None`: there is none.
    pub fn pop(&self, py: Python<'_>, asker: Asker, at_once: bool) -> Option<Popped<G>> {
        let take_off = || {
            let mut guards = self.guards();
            let own = guards.iter().rposition(|owned| owned.asker.is_same(&asker));
            let at = own.or(guards.len().checked_sub(1))?;
            if guards[at].levels > 1 && !at_once {
                guards[at].levels -= 1;
                return Some(None);
            }
            Some(Some(guards.remove(at)))
        };
        py.detach(take_off).map(|taken| match taken {
            None => Popped::Kept,
            Some(mut owned) if owned.is_ours() => {
                owned.guard.take().map_or(Popped::OfAnother, Popped::Ours)
            }
            Some(_) => Popped::OfAnother,
        })
    }

    /// For how long this process has had the last guard; `None` where [`Stack::last`] has none.
    pub fn age(&self, py: Python<'_>) -> Option<Duration> {
        py.detach(|| {
            let guards = self.guards();
            let last = guards.last().filter(|owned| owned.is_ours());
            last.map(|owned| owned.since.elapsed())
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
    /// It was acquired more often than released: it stays.
    Kept,
    /// The guard of another process, of which this is a fork: nothing is released here.
    OfAnother,
}

struct Owned<G> {
    pid: u32,
    asker: Asker,
    /// How often it was acquired and not yet released.
    levels: usize,
    since: Instant,
    /// The guard, until it is dropped or taken off.
    guard: Option<G>,
}

impl<G> Owned<G> {
    fn is_ours(&self) -> bool {
        self.pid == process::id()
    }

    fn is_of(&self, asker: &Asker) -> bool {
        self.is_ours() && self.asker.is_same(asker)
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
