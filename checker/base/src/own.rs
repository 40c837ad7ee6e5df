//! Values that belong to one process. A fork has a copy of them, but neither the locks nor the threads that they stand
//! for. So a fork begins with empty ones.

use std::mem;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::sys::process_id;

/// A value of this process: empty at first, and empty again in each fork.
#[derive(Debug)]
pub struct Own<T>(OnceLock<Box<Slot<T>>>);

/// The value of one process. A fork has one of its own: a thread that is not there any more may have kept the mutex of
/// this one for ever.
#[derive(Debug)]
struct Slot<T> {
    of: u32,
    value: Mutex<T>,
    of_fork: Own<T>,
}

impl<T: Default> Own<T> {
    /// The value, empty as each process begins with it.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Runs `work` on this process's value, and returns its result. Other threads wait meanwhile.
    ///
    /// A fork that another thread makes in the middle of a process's very first call waits for ever in its own first one.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.with_that_of(process_id(), work)
    }

    fn with_that_of<R>(&self, me: u32, work: impl FnOnce(&mut T) -> R) -> R {
        let mut slot = self.slot(me);
        while slot.of != me {
            // What it had open is closed here, unless a thread was at it.
            if let Ok(mut copy) = slot.value.try_lock() {
                drop(mem::take(&mut *copy));
            }
            slot = slot.of_fork.slot(me);
        }
        // Nobody panics with it; and what is there counts, should somebody.
        work(&mut slot.value.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn slot(&self, me: u32) -> &Slot<T> {
        self.0.get_or_init(|| {
            Box::new(Slot {
                of: me,
                value: Mutex::default(),
                of_fork: Self::new(),
            })
        })
    }
}

impl<T: Default> Default for Own<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn what_is_another_process_s_is_not_there() {
        let own = Own::<Vec<&str>>::new();
        own.with_that_of(1, |words| words.push("mine"));
        assert_eq!(own.with_that_of(1, |words| words.len()), 1);
        assert_eq!(own.with_that_of(2, |words| words.len()), 0);
        own.with_that_of(2, |words| words.push("the fork's"));
        assert_eq!(own.with_that_of(2, |words| words.len()), 1);
        assert_eq!(own.with_that_of(3, |words| words.len()), 0);
    }

    #[test]
    fn a_fork_does_not_wait_for_a_thread_that_it_does_not_have() {
        let own = Own::<Vec<&str>>::new();
        let (begun, is_begun) = channel();
        let (end, is_to_end) = channel();
        thread::scope(|scope| {
            let own = &own;
            scope.spawn(move || {
                own.with_that_of(1, |_| {
                    begun.send(()).unwrap();
                    is_to_end.recv().unwrap();
                });
            });
            is_begun.recv().unwrap();
            assert_eq!(own.with_that_of(2, |words| words.len()), 0);
            end.send(()).unwrap();
        });
    }
}
