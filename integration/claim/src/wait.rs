//! The wait policy: for how long a claim waits for the holder of the lock, and how often it looks
//! (docs/design.md#waiting).

use crate::error::Problem;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use beadlock_base::duration::{parse_or_forever, shown};

use crate::error::Error;

/// A cycle's time-out and its grace: by then a gate is free again that a cycle holds.
pub(crate) const CYCLE: Duration = Duration::from_secs(130);

/// Whether a claim waits for the holder of a lock, and for how long. `Display` ends up in the error.
///
/// It is read from a duration in the words of `beadlock --wait`: `10s`, `500ms`, `1h30m`. A number without a unit is
/// seconds, with or without a fraction. Zero, in any unit, is [`Wait::No`], and `forever` is [`Wait::FOREVER`]. So an
/// option of a tool may have this type:
///
/// ```
/// use beadlock::Wait;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), beadlock::Error> {
/// let wait: Wait = "1m30s".parse()?;
/// assert_eq!(wait, Wait::UpTo(Duration::from_secs(90)));
/// assert_eq!(wait.limit(), Duration::from_secs(90));
/// assert_eq!("0".parse::<Wait>()?, Wait::No);
/// assert_eq!("forever".parse::<Wait>()?, Wait::FOREVER);
/// assert_eq!("soon".parse::<Wait>().unwrap_err().code(), beadlock::Code::Usage);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all. The gate is waited for at most a second, unless a drain was given.
    No,
    /// At most this long.
    UpTo(Duration),
}

impl Wait {
    /// The default of `hold`.
    pub const DEFAULT: Self = Self::UpTo(Duration::from_secs(10));

    /// Until the lock is free, however long that takes. The gate is waited for without an end as well, unless a drain
    /// was given.
    pub const FOREVER: Self = Self::UpTo(Duration::MAX);

    /// The longest time that it waits: zero for [`Wait::No`], [`Duration::MAX`] for [`Wait::FOREVER`].
    pub fn limit(self) -> Duration {
        match self {
            Self::No => Duration::ZERO,
            Self::UpTo(limit) => limit,
        }
    }

    /// This wait, but no longer than `left`.
    #[doc(hidden)]
    pub fn at_most(self, left: Duration) -> Self {
        match self {
            Self::No => Self::No,
            Self::UpTo(limit) => Self::UpTo(limit.min(left)),
        }
    }

    /// For how long the gate is waited for: as given, else without an end where the holder is waited for so, else a
    /// cycle's time-out and its grace.
    #[doc(hidden)]
    pub fn drain(self, given: Option<Duration>) -> Duration {
        given.unwrap_or(match self {
            Self::No => Duration::from_secs(1),
            Self::FOREVER => Duration::MAX,
            Self::UpTo(_) => CYCLE,
        })
    }
}

impl FromStr for Wait {
    type Err = Error;

    /// Reads a duration, or `forever`. Zero is [`Wait::No`].
    ///
    /// # Errors
    /// [`Code::Usage`](crate::error::Code::Usage), with examples in the message: the text is not a duration, is
    /// negative, or is longer than the clock can count.
    fn from_str(text: &str) -> Result<Self, Error> {
        let limit = parse_or_forever(text).map_err(Error::usage)?;
        Ok(if limit.is_zero() {
            Self::No
        } else {
            Self::UpTo(limit)
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::No => f.write_str("did not wait"),
            Self::FOREVER => f.write_str("waited without a time limit"),
            Self::UpTo(limit) => write!(f, "gave up after {}", shown(limit)),
        }
    }
}

/// A point in time that may be so far away that it never comes.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// The point in time at `limit` from now; one that never comes where the clock does not count that far.
    pub fn after(limit: Duration) -> Self {
        Self(Instant::now().checked_add(limit))
    }

    /// The earlier one of the two; this one where there is no other.
    pub fn sooner(self, other: Option<Self>) -> Self {
        other
            .filter(|other| other.left() < self.left())
            .unwrap_or(self)
    }

    /// The time from now to then: zero once it is over, [`Duration::MAX`] where it never comes.
    pub fn left(self) -> Duration {
        self.0.map_or(Duration::MAX, |at| {
            at.saturating_duration_since(Instant::now())
        })
    }

    /// True once that point in time has come.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }
}

/// Pauses between looks, beside the events: 0, 100, 200, 400, 800, 1600 … capped at 2000 ms. Each is shortened at
/// random by up to a quarter, so that many waiting processes do not look at the same moment.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    round: u32,
}

impl Backoff {
    const CAP: u64 = 2000;

    pub fn next(&mut self) -> Duration {
        let mut byte = [0];
        // Without randomness there is no jitter.
        let _ = getrandom::fill(&mut byte);
        self.next_with(byte[0])
    }

    fn next_with(&mut self, random: u8) -> Duration {
        let full = if self.round == 0 {
            0
        } else {
            (100 << (self.round - 1).min(10)).min(Self::CAP)
        };
        self.round = self.round.saturating_add(1);
        Duration::from_millis(full - full * u64::from(random) / 1024)
    }

    /// Begins the schedule of pauses again at 0, as after an event.
    pub fn restart(&mut self) {
        self.round = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_of_the_contract() {
        let mut backoff = Backoff::default();
        let schedule: Vec<u64> = (0..8)
            .map(|_| backoff.next_with(0).as_millis() as u64)
            .collect();
        assert_eq!(schedule, [0, 100, 200, 400, 800, 1600, 2000, 2000]);
        backoff.restart();
        assert_eq!(backoff.next_with(255), Duration::ZERO);
        assert!((75..=100).contains(&backoff.next_with(255).as_millis()));
    }

    #[test]
    fn a_policy_says_itself() {
        assert_eq!(Wait::DEFAULT.to_string(), "gave up after 10s");
        assert_eq!(Wait::No.to_string(), "did not wait");
        assert_eq!(Wait::No.drain(None), Duration::from_secs(1));
        assert_eq!(Wait::DEFAULT.drain(None), Duration::from_secs(130));
        assert_eq!(Wait::FOREVER.drain(None), Duration::MAX);
        assert_eq!(Wait::FOREVER.drain(Some(Duration::ZERO)), Duration::ZERO);
        assert_eq!(
            Wait::No.drain(Some(Duration::from_secs(7))),
            Duration::from_secs(7)
        );
    }

    #[test]
    fn a_policy_is_read_as_the_option_is() {
        for (text, millis) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("10", 10_000),
            (" 1.5 ", 1_500),
        ] {
            let wait: Wait = text.parse().unwrap();
            assert_eq!(
                (wait, wait.limit()),
                (Wait::UpTo(wait.limit()), Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in ["0", "0s", "0ms", "0.0"] {
            let wait: Wait = text.parse().unwrap();
            assert_eq!((wait, wait.limit()), (Wait::No, Duration::ZERO), "{text}");
        }
        let forever: Wait = "forever".parse().unwrap();
        assert_eq!((forever, forever.limit()), (Wait::FOREVER, Duration::MAX));
        for text in ["", "soon", "-1s", "1d", "no", "99999999999999999999"] {
            let error = text.parse::<Wait>().unwrap_err();
            assert_eq!(error.code(), crate::error::Code::Usage, "{text}");
            let words = format!(
                "{text:?} is no duration; examples: 10s, 500ms, 1h30m, 90 (seconds), forever"
            );
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn a_limit_beyond_all_clocks_never_ends() {
        assert!(!Deadline::after(Duration::MAX).is_over());
        assert!(Deadline::after(Duration::ZERO).is_over());
    }
}
