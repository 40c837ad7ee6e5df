//! Streaks of skipped cycles, and the times in which a database did not sync.

use std::time::Duration;

use crate::parse::{event::DaemonEvent, line::LockDetails, reason::LoggedReason, time::LogTime};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipCause {
    Held(String),
    /// The lock cannot be checked or removed, for this reason.
    Unreadable(LoggedReason),
    Busy,
}

impl SkipCause {
    /// The cause of the skip that an event reports. A holder's name that ends with `…` is cut off.
    pub fn of(event: &DaemonEvent<'_>) -> Option<Self> {
        Some(match event {
            DaemonEvent::Locked(name) => Self::Held((*name).to_owned()),
            DaemonEvent::CutOff(name) => Self::Held(format!("{name}…")),
            DaemonEvent::Unreadable(why) => Self::Unreadable(LoggedReason::parse(why)),
            DaemonEvent::Busy => Self::Busy,
            _ => return None,
        })
    }
}

/// Skips of one cause without a cycle in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipStreak {
    pub cause: SkipCause,
    pub since: LogTime,
    pub skips: u64,
    /// The holder, once the log has described it.
    pub lock: LockDetails,
}

impl SkipStreak {
    /// True when a skip for `cause` and `lock` belongs to this claim, as far as the log tells.
    pub fn is_of(&self, cause: &SkipCause, lock: &LockDetails) -> bool {
        let is_other_claim =
            self.lock.since.is_some() && lock.since.is_some() && self.lock.since != lock.since;
        self.cause == *cause && !is_other_claim
    }
}

/// How a streak ended. The discriminants index [`StreakEnds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreakEnd {
    /// The next cycle ran without the removal of a stale lock.
    Released,
    /// The daemon removed the lock of a dead holder.
    RemovedStale,
    /// Another lock came without a cycle in between, or the same lock became unreadable.
    TakenOver,
    /// The daemon was stopped or killed during the streak.
    AgentStopped,
    /// The log ends during the streak.
    Open,
}

/// A number or a word for each [`StreakEnd`], in the order of its variants.
pub type StreakEnds<T> = [T; 5];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastStreak {
    pub streak: SkipStreak,
    pub until: LogTime,
    pub end: StreakEnd,
}

/// A time in which a database does not sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncOutage {
    pub since: LogTime,
    /// True when the outage begins the log, so that it may have begun earlier.
    pub is_first: bool,
}

#[derive(Debug, Default)]
pub struct SyncOutages {
    pub current: Option<SyncOutage>,
    /// Length of all past outages.
    past: Duration,
    /// The time before this does not count.
    pub from: Option<LogTime>,
}

impl SyncOutages {
    pub fn end(&mut self, at: LogTime) {
        self.past = self.total(at);
        self.current = None;
    }

    /// The time before `from` does not count.
    pub fn forget(&mut self, from: LogTime) {
        self.past = Duration::ZERO;
        self.from = Some(from);
    }

    /// The length of all outages up to `end`.
    pub fn total(&self, end: LogTime) -> Duration {
        let current = self
            .current
            .map(|outage| end.since(outage.since.max(self.from.unwrap_or(outage.since))));
        self.past.saturating_add(current.unwrap_or_default())
    }
}
