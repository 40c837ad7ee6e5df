//! Whether a command that goes on by itself has been told to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;

/// The time between two looks at the flag.
const LOOK: Duration = Duration::from_millis(50);

/// Set by SIGINT, SIGTERM and SIGHUP.
#[derive(Debug, Clone, Default)]
pub struct EndFlag(Arc<AtomicBool>);

impl EndFlag {
    /// A flag that is not set. From now on SIGINT, SIGTERM and SIGHUP set it, and do nothing else.
    ///
    /// # Errors
    /// When the system refuses to have a signal handled.
    pub fn new() -> io::Result<Self> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            register(signal, Arc::clone(&flag.0))?;
        }
        Ok(flag)
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for `length`, or until the flag is set. Returns whether the flag is set.
    pub fn wait(&self, length: Duration) -> bool {
        let begun = Instant::now();
        while !self.is_set() {
            let Some(left) = length.checked_sub(begun.elapsed()) else {
                return false;
            };
            thread::sleep(left.min(LOOK));
        }
        true
    }
}
