//! Waiting for something that can be seen, never longer than a bound.

use std::time::{Duration, Instant};

/// How long a test waits for what should take a moment, on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at what has been waited for so long: a twentieth of that, 2 to 50 ms. Who looks at every turn takes
/// the processor from those that are looked at.
pub fn nap(waited: Duration) {
    std::thread::sleep((waited / 20).clamp(Duration::from_millis(2), Duration::from_millis(50)));
}

/// Polls until `seen` is true, and returns how long that took.
///
/// # Panics
///
/// Names `what` when it has not come within `bound`.
#[track_caller]
pub fn wait_until(bound: Duration, what: &str, mut seen: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    loop {
        if seen() {
            return begun.elapsed();
        }
        assert!(
            begun.elapsed() < bound,
            "waited {bound:?} in vain for: {what}"
        );
        nap(begun.elapsed());
    }
}

/// [`wait_until`] with [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, seen: impl FnMut() -> bool) {
    wait_until(PATIENCE, what, seen);
}

/// The least that a round took, of at most five until one takes less than `limit`. A machine that stands still for a
/// moment spoils one round; a fault spoils all of them.
pub fn fastest(limit: Duration, mut round: impl FnMut() -> Duration) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        fastest = fastest.min(round());
        if fastest < limit {
            break;
        }
    }
    fastest
}
