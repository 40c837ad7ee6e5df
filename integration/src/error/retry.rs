//! When to come back to a lock that was refused: the `retry_after_ms` of every `LOCK_HELD` (REQ-F-033).
//!
//! A lock that has been held for long is likely to be held for longer, so that the pause grows with the holder's age;
//! and it is a little different for each who asks, lest all of them come back together.

use std::time::Duration;

use crate::words::millis;

const LEAST_MS: u64 = 1000;
const MOST_MS: u64 = 30_000;
/// Where the holder's age is not known.
const UNKNOWN_MS: u64 = 3000;

/// A quarter of the holder's age, at least 1 and at most 30 seconds, 3 seconds when it is unknown; give or take up to a
/// fifth of that, by `random`, without leaving the bounds. Every value in reach is as likely as the others.
pub fn after(age: Option<Duration>, random: u64) -> Duration {
    let base = age.map_or(UNKNOWN_MS, |age| (millis(age) / 4).clamp(LEAST_MS, MOST_MS));
    let least = (base - base / 5).max(LEAST_MS);
    let most = (base + base / 5).min(MOST_MS);
    let room = u128::from(most - least + 1);
    Duration::from_millis(least + ((room * u128::from(random)) >> 64) as u64)
}

#[cfg(test)]
mod tests;
