//! The times in which a database did not sync.

use std::time::Duration;

use crate::log::parse::time::LogTime;

/// A time in which a database does not sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncOutage {
    pub since: LogTime,
    /// It begins the log, so it may have begun earlier.
    pub is_first: bool,
}

/// All outages of a database.
#[derive(Debug, Default)]
pub struct SyncOutages {
    pub current: Option<SyncOutage>,
    /// The length of the past ones.
    past: Duration,
    /// The time before this does not count.
    from: Option<LogTime>,
}

impl SyncOutages {
    /// It syncs again.
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
        let current = self.current.map(|outage| end.since(outage.since.max(self.from.unwrap_or(outage.since))));
        self.past.saturating_add(current.unwrap_or_default())
    }
}
