//! Values that belong to one process. A fork has a copy of them, but neither the locks nor the threads that they stand
//! for. So a fork begins with empty ones.

use std::sync::{Mutex, PoisonError};

use crate::sys::process_id;

/// A value of this process: empty at first, and empty again in each fork.
#[derive(Debug)]
pub struct Own<T>(Mutex<(u32, T)>);

impl<T: Default> Own<T> {
    /// The value, empty as each process begins with it.
    pub const fn new(empty: T) -> Self {
        Self(Mutex::new((0, empty)))
    }

    /// Runs `work` on this process's value, and returns its result. Other threads wait meanwhile.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // Nobody panics with it; and what is there counts, should somebody.
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let me = process_id();
        if own.0 != me {
            *own = (me, T::default());
        }
        work(&mut own.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_another_process_s_is_not_there() {
        let own = Own::new(Vec::new());
        own.with(|words| words.push("mine"));
        assert_eq!(own.with(|words| words.len()), 1);
        own.0.lock().unwrap().0 += 1;
        assert_eq!(own.with(|words| words.len()), 0);
    }
}
