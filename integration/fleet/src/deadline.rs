//! Until when a session counts (docs/fleet.md). All times are points of `CLOCK_BOOTTIME`, which counts sleep and
//! which nobody sets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a lease lives after its last renewal: a constant of the version.
pub const T: Duration = Duration::from_secs(15);

/// How often a lease is renewed, and how often is looked beside the watch.
pub const THIRD: Duration = Duration::from_secs(5);

/// When work under a session must have ended, counted from its last good renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// When the keep-alive of the last good renewal was sent.
    pub renewed: Duration,
    /// From here on the work is asked to end: 0.75 T later.
    pub term: Duration,
    /// From here on the work is killed: 0.875 T later.
    pub kill: Duration,
}

impl Deadlines {
    /// The deadlines after a renewal that was sent at `renewed`.
    pub fn of(renewed: Duration) -> Self {
        Self {
            renewed,
            term: renewed + T * 3 / 4,
            kill: renewed + T * 7 / 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_before_the_lease_can_lapse() {
        let deadlines = Deadlines::of(Duration::from_secs(100));
        assert_eq!(deadlines.term, Duration::from_millis(111_250));
        assert_eq!(deadlines.kill, Duration::from_millis(113_125));
        assert!(deadlines.kill < deadlines.renewed + T);
    }
}
