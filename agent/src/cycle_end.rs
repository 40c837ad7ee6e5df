//! How a cycle's command ended, and the words for it in the log.

use std::fmt::{self, Display};
use std::time::Duration;

use beadlock_base::duration::shown;
use beadlock_core::GateLoss;
use beadlock_core::log_line::Event;
use beadlock_supervise::runner::RunEnd;
use nix::sys::signal::Signal;

/// How a command ended, in the log's words.
#[derive(Debug, PartialEq)]
pub(crate) enum CycleEnd {
    Complete,
    Failed {
        how: RunEnd,
        took: Duration,
    },
    /// The action ran, and could not do all of it: why.
    Incomplete(String),
    /// The action must not, or could not: why, and what to do.
    Refused(String),
    TimedOut {
        after: Duration,
    },
    /// The runner of the command was killed, and so many processes of the command had to be ended.
    RunnerLost {
        ended: usize,
    },
}

impl CycleEnd {
    /// The event of its line.
    pub(crate) fn event(&self) -> Event {
        match self {
            Self::Complete => Event::CycleComplete,
            Self::Incomplete(_) => Event::CycleIncomplete,
            Self::Failed {
                how: RunEnd::TimedOut,
                ..
            }
            | Self::TimedOut { .. } => Event::CycleTimedOut,
            Self::Refused(_) | Self::Failed { .. } | Self::RunnerLost { .. } => Event::CycleFailed,
        }
    }

    /// The reason of the end as one word, for metrics; "" where the cycle is complete.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Complete => "",
            Self::Incomplete(_) => "incomplete",
            Self::Refused(_) => "refused",
            Self::TimedOut { .. }
            | Self::Failed {
                how: RunEnd::TimedOut,
                ..
            } => "timed_out",
            Self::RunnerLost { .. } => "runner_lost",
            Self::Failed {
                how: RunEnd::Exit(_),
                ..
            } => "exit_code",
            Self::Failed {
                how: RunEnd::Signal(_),
                ..
            } => "killed",
            Self::Failed {
                how: RunEnd::NotStarted(_),
                ..
            } => "not_started",
            Self::Failed {
                how: RunEnd::GateLost(_),
                ..
            } => "gate_lost",
            Self::Failed {
                how: RunEnd::FleetLost,
                ..
            } => "fleet_lost",
        }
    }

    /// Why it failed, in words; empty where it did not.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Complete => String::new(),
            Self::Incomplete(why) | Self::Refused(why) => why.clone(),
            Self::TimedOut { after } => format!("timed out {}", after_limit(*after)),
            Self::RunnerLost { ended } => {
                format!("its runner was killed; {ended} processes of the command ended")
            }
            Self::Failed { how, took } => why_failed(how, *took),
        }
    }
}

/// How a command ended that its runner tells of, after this time.
fn why_failed(how: &RunEnd, took: Duration) -> String {
    match how {
        RunEnd::Exit(code) => format!("exit code {code} after {}", shown(took)),
        RunEnd::Signal(signal) => {
            let name = Signal::try_from(*signal).map_or("", Signal::as_str);
            format!("killed by signal {signal} {name} after {}", shown(took))
        }
        RunEnd::NotStarted(why) => format!("the command could not be started: {why}"),
        RunEnd::GateLost(loss) => {
            let what = match loss {
                GateLoss::Replaced => "replaced by another one",
                GateLoss::Vanished => "removed or renamed",
            };
            format!(
                "the database's directory was {what} within {}, as by `git switch`, mv or rm; claims no longer wait \
                 for this cycle, so it was ended; look at what its command changed; to switch between cycles: \
                 beadlock hold -- git switch BRANCH",
                shown(took)
            )
        }
        RunEnd::FleetLost => format!(
            "its right in the fleet was lost after {}, so all that its command had started was ended; look at what \
             it changed",
            shown(took)
        ),
        RunEnd::TimedOut => format!("timed out {}", after_limit(took)),
    }
}

/// How a line goes on that says that the command was ended at its limit.
fn after_limit(limit: Duration) -> String {
    format!("after {}; command ended", shown(limit))
}

impl Display for CycleEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event().beginning())?;
        match self {
            Self::Complete => Ok(()),
            Self::TimedOut { after: limit }
            | Self::Failed {
                how: RunEnd::TimedOut,
                took: limit,
            } => write!(f, " {}", after_limit(*limit)),
            _ => write!(f, ": {}", self.why()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_it_ended() {
        let took = Duration::from_millis(1_250);
        let failed = |how| CycleEnd::Failed { how, took };
        let table = [
            (CycleEnd::Complete, "Sync cycle complete", ""),
            (
                CycleEnd::Incomplete("no upstream".to_owned()),
                "Sync cycle incomplete: no upstream",
                "no upstream",
            ),
            (
                CycleEnd::Refused("no git".to_owned()),
                "Sync cycle failed: no git",
                "no git",
            ),
            (
                failed(RunEnd::Exit(3)),
                "Sync cycle failed: exit code 3 after 1.2s",
                "exit code 3 after 1.2s",
            ),
            (
                failed(RunEnd::Signal(9)),
                "Sync cycle failed: killed by signal 9 SIGKILL after 1.2s",
                "killed by signal 9 SIGKILL after 1.2s",
            ),
            (
                failed(RunEnd::NotStarted("no such file".to_owned())),
                "Sync cycle failed: the command could not be started: no such file",
                "the command could not be started: no such file",
            ),
            (
                failed(RunEnd::GateLost(GateLoss::Replaced)),
                "Sync cycle failed: the database's directory was replaced by another one within 1.2s, as by `git \
                 switch`, mv or rm; claims no longer wait for this cycle, so it was ended; look at what its command \
                 changed; to switch between cycles: beadlock hold -- git switch BRANCH",
                "the database's directory was replaced by another one within 1.2s, as by `git switch`, mv or rm; \
                 claims no longer wait for this cycle, so it was ended; look at what its command changed; to switch \
                 between cycles: beadlock hold -- git switch BRANCH",
            ),
            (
                failed(RunEnd::GateLost(GateLoss::Vanished)),
                "Sync cycle failed: the database's directory was removed or renamed within 1.2s, as by `git switch`, \
                 mv or rm; claims no longer wait for this cycle, so it was ended; look at what its command changed; \
                 to switch between cycles: beadlock hold -- git switch BRANCH",
                "the database's directory was removed or renamed within 1.2s, as by `git switch`, mv or rm; claims \
                 no longer wait for this cycle, so it was ended; look at what its command changed; to switch \
                 between cycles: beadlock hold -- git switch BRANCH",
            ),
            (
                failed(RunEnd::FleetLost),
                "Sync cycle failed: its right in the fleet was lost after 1.2s, so all that its command had started \
                 was ended; look at what it changed",
                "its right in the fleet was lost after 1.2s, so all that its command had started was ended; look at \
                 what it changed",
            ),
            (
                failed(RunEnd::TimedOut),
                "Sync cycle timed out after 1.2s; command ended",
                "timed out after 1.2s; command ended",
            ),
            (
                CycleEnd::TimedOut {
                    after: Duration::from_secs(120),
                },
                "Sync cycle timed out after 2m; command ended",
                "timed out after 2m; command ended",
            ),
            (
                CycleEnd::RunnerLost { ended: 2 },
                "Sync cycle failed: its runner was killed; 2 processes of the command ended",
                "its runner was killed; 2 processes of the command ended",
            ),
        ];
        for (end, line, why) in table {
            assert_eq!((end.to_string().as_str(), end.why().as_str()), (line, why));
        }
    }
}
