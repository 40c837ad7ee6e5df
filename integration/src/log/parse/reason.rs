//! Why a lock was not checked, as a line of a log has it.

use beadlock_core::decision::{LoggedDoubt, NotChecked};

/// Why a lock could not be checked, or a stale one not be removed: in the words of the daemon that has written the log,
/// and what they tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedReason {
    /// As the line has them; untrusted.
    pub words: String,
    /// What a reader can tell from them.
    pub doubt: LoggedDoubt,
}

impl LoggedReason {
    /// Of the words after `lock check failed: `.
    pub fn parse(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            doubt: NotChecked::parse(words),
        }
    }
}
