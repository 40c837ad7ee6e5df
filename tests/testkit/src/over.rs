//! The end of a thread that goes on until somebody says that it is over.

use std::sync::atomic::{AtomicBool, Ordering};

/// Says so when it is dropped: also when the rest has panicked, and a scope would wait for the thread for ever.
pub struct OverAtLast<'a>(pub &'a AtomicBool);

impl Drop for OverAtLast<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
