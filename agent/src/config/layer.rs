//! What one place says of the settings: the command line, a table of the file. Where it says nothing, the place below
//! it is asked, and last the built-in values.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use beadlock_checker::address::Address;

use super::policy::{Action, Policy};
use crate::diagnostics::LogLevel;
use crate::log;

/// No duration is longer: above this some clock or timer cannot count, and nobody can tell the difference.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What one place says of how databases are served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PolicyLayer {
    pub(crate) interval: Option<Duration>,
    pub(crate) debounce: Option<Duration>,
    /// `exec` and `action` are one: each beats the other of a place below.
    pub(crate) action: Option<Action>,
    pub(crate) cycle_timeout: Option<Duration>,
    pub(crate) skip_warn: Option<Duration>,
    pub(crate) reap_proven_dead: Option<bool>,
    pub(crate) allow_worktree: Option<bool>,
}

impl PolicyLayer {
    /// What holds when this place beats the one below.
    pub(crate) fn over(self, below: &Self) -> Self {
        let below = below.clone();
        Self {
            interval: self.interval.or(below.interval),
            debounce: self.debounce.or(below.debounce),
            action: self.action.or(below.action),
            cycle_timeout: self.cycle_timeout.or(below.cycle_timeout),
            skip_warn: self.skip_warn.or(below.skip_warn),
            reap_proven_dead: self.reap_proven_dead.or(below.reap_proven_dead),
            allow_worktree: self.allow_worktree.or(below.allow_worktree),
        }
    }

    /// What holds over the built-in values.
    pub(crate) fn policy(self) -> Policy {
        let duration = |given: Option<Duration>, built_in| given.unwrap_or(built_in).min(LONGEST);
        Policy {
            interval: duration(self.interval, Duration::from_secs(5)),
            debounce: duration(self.debounce, Duration::from_millis(500)),
            action: self.action.unwrap_or(Action::Git),
            cycle_timeout: duration(self.cycle_timeout, Duration::from_secs(120)),
            skip_warn: duration(self.skip_warn, Duration::from_secs(30 * 60)),
            reap_proven_dead: self.reap_proven_dead.unwrap_or(false),
            allow_worktree: self.allow_worktree.unwrap_or(false),
        }
    }
}

/// What one place says of the agent as a whole. Roots are none of it: those of all places add up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AgentLayer {
    pub(crate) jobs: Option<NonZeroUsize>,
    pub(crate) log_file: Option<PathBuf>,
    pub(crate) log_format: Option<log::Format>,
    pub(crate) log_size: Option<u64>,
    pub(crate) log_keep: Option<u32>,
    pub(crate) log_level: Option<LogLevel>,
    pub(crate) audit: Option<PathBuf>,
    /// A relative path in it begins in the directory of the file, or in the one that the agent is started in.
    pub(crate) listen: Option<Address>,
    pub(crate) listen_anywhere: Option<bool>,
    pub(crate) allow_foreign_owner: Option<bool>,
    pub(crate) any_directory: Option<bool>,
}

impl AgentLayer {
    /// What holds when this place beats the one below.
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            jobs: self.jobs.or(below.jobs),
            log_file: self.log_file.or(below.log_file),
            log_format: self.log_format.or(below.log_format),
            log_size: self.log_size.or(below.log_size),
            log_keep: self.log_keep.or(below.log_keep),
            log_level: self.log_level.or(below.log_level),
            audit: self.audit.or(below.audit),
            listen: self.listen.or(below.listen),
            listen_anywhere: self.listen_anywhere.or(below.listen_anywhere),
            allow_foreign_owner: self.allow_foreign_owner.or(below.allow_foreign_owner),
            any_directory: self.any_directory.or(below.any_directory),
        }
    }

    /// How the log is written, over the built-in values.
    pub(crate) fn log(&self) -> log::Settings {
        let built_in = log::Settings::default();
        log::Settings {
            shared: self.log_file.clone(),
            format: self.log_format.unwrap_or(built_in.format),
            size: self.log_size.unwrap_or(built_in.size),
            keep: self.log_keep.unwrap_or(built_in.keep),
            ..built_in
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_beats_the_one_below() {
        let second = Some(Duration::from_secs(1));
        let minute = Some(Duration::from_secs(60));
        let below = PolicyLayer {
            interval: second,
            debounce: second,
            action: Some(Action::Exec("true".into())),
            allow_worktree: Some(true),
            ..PolicyLayer::default()
        };
        let above = PolicyLayer {
            interval: minute,
            action: Some(Action::None),
            allow_worktree: Some(false),
            ..PolicyLayer::default()
        };
        let policy = above.over(&below).policy();
        assert_eq!((Some(policy.interval), Some(policy.debounce)), (minute, second));
        assert_eq!((policy.action, policy.allow_worktree), (Action::None, false));
        assert_eq!(policy.cycle_timeout, Duration::from_secs(120), "built in");
    }

    #[test]
    fn durations_of_ages_are_a_year() {
        let ages = Some(Duration::MAX);
        let layer =
            PolicyLayer { interval: ages, debounce: ages, cycle_timeout: ages, ..PolicyLayer::default() };
        let policy = layer.policy();
        assert_eq!([policy.interval, policy.debounce, policy.cycle_timeout], [LONGEST; 3]);
    }
}
