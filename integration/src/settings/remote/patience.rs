//! For how long a command waits for a file system to answer.

use std::time::Duration;

use crate::settings::wait::Wait;

/// A command that does not wait for a holder.
const LOOK: Duration = Duration::from_secs(2);

/// No command gives up sooner: a busy server is not a dead one.
const SHORTEST: Duration = Duration::from_secs(1);

/// How long an answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// The command looks, and waits for no holder.
    Look,
    /// The command waits for a holder, this long where the command line says so, and this long for a running cycle.
    Waits { wait: Option<Wait>, drain: Option<Duration> },
}

impl Patience {
    /// Where a claim of the target waits for `default` unless told otherwise. A drain counts where it alone is given,
    /// and is the shorter one.
    pub fn limit(self, default: Wait) -> Duration {
        let limit = match self {
            Self::Look => return LOOK,
            Self::Waits { wait: Some(wait), .. } => wait.limit(),
            Self::Waits { wait: None, drain } => drain.map_or(default.limit(), |drain| drain.min(default.limit())),
        };
        limit.max(SHORTEST)
    }

    /// For what is no target of a claim.
    pub fn of_a_look(self) -> Duration {
        LOOK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_bounds_it_and_a_second_is_the_least() {
        let seconds = Duration::from_secs;
        let waits = |wait, drain| Patience::Waits { wait, drain }.limit(Wait::DEFAULT);
        assert_eq!(Patience::Look.limit(Wait::DEFAULT), seconds(2));
        assert_eq!(waits(None, None), seconds(10));
        assert_eq!(waits(Some(Wait::UpTo(seconds(60))), None), seconds(60));
        assert_eq!(waits(Some(Wait::UpTo(seconds(60))), Some(seconds(3))), seconds(60));
        assert_eq!(waits(None, Some(seconds(3))), seconds(3));
        assert_eq!(waits(None, Some(seconds(130))), seconds(10));
        for least in [Wait::No, Wait::UpTo(Duration::ZERO), Wait::UpTo(Duration::from_millis(20))] {
            assert_eq!(waits(Some(least), Some(seconds(9))), seconds(1));
        }
        assert_eq!(Patience::Waits { wait: None, drain: None }.limit(Wait::No), seconds(1));
    }
}
