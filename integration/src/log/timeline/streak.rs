//! A streak of skipped cycles.

use crate::log::parse::line::LockDetails;
use crate::log::parse::time::LogTime;

/// Why cycles are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkipCause {
    /// This holder has the lock.
    Held(String),
    /// The lock cannot be checked or removed, for this reason.
    Unreadable(String),
    /// Another process has the gate.
    Busy,
}

/// Skips of one cause without a cycle in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkipStreak {
    pub cause: SkipCause,
    pub since: LogTime,
    /// It begins the log, so it may have begun earlier.
    pub is_first: bool,
    pub skips: u64,
    /// The holder, once the log has described it.
    pub lock: LockDetails,
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

/// A streak that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastStreak {
    pub streak: SkipStreak,
    pub until: LogTime,
    pub end: StreakEnd,
}
