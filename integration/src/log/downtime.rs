//! For how long a database did not sync. Pure.

use std::time::Duration;

use super::time::{At, millis};

/// When it stopped syncing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Down {
    pub since: At,
    /// Nothing came before it in the log: it may have been earlier.
    pub is_first: bool,
}

/// All the times when it did not sync.
#[derive(Debug, Default)]
pub struct Downtime {
    now: Option<Down>,
    /// Those that are over, in milliseconds.
    over: i64,
    /// What is asked for begins here.
    from: Option<At>,
}

impl Downtime {
    /// The one that goes on.
    pub fn now(&self) -> Option<Down> {
        self.now
    }

    /// It does not sync from here on, if it still did.
    pub fn begin(&mut self, down: Down) {
        self.now.get_or_insert(down);
    }

    /// It syncs again.
    pub fn end(&mut self, at: At) {
        if let Some(down) = self.now.take() {
            self.over = self.over.saturating_add(self.length(down, at));
        }
    }

    /// What came before `from` is not asked for; what goes on still is.
    pub fn forget(&mut self, from: At) {
        self.over = 0;
        self.from = Some(from);
    }

    /// All of it up to `end`.
    pub fn total(&self, end: At) -> Duration {
        let open = self.now.map_or(0, |down| self.length(down, end));
        Duration::from_millis(u64::try_from(self.over.saturating_add(open)).unwrap_or(0))
    }

    fn length(&self, down: Down, end: At) -> i64 {
        let since = self.from.map_or(down.since, |from| from.max(down.since));
        millis(end.since(since))
    }
}
