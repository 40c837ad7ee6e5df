//! The last report of a log about a database: by its cycles, and by the agent's lines about its state.

use beadlock_core::log_line::Event as Line;
use serde::{Serialize, Serializer};

use crate::parse::time::LogTime;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CycleCounts {
    pub complete: u64,
    /// Cycles after which not everything was at the remote.
    pub incomplete: u64,
    pub failed: u64,
    pub timed_out: u64,
    /// Cycles without an end in the log.
    pub unfinished: u64,
    pub skips: u64,
    /// Unreadable streaks.
    pub unreadable: u64,
}

/// Last report of the log about the cycles of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SyncState {
    /// Nothing about cycles.
    #[default]
    Unknown,
    Started(LogTime),
    Complete(LogTime),
    /// The last cycle left something undone, for this reason.
    Incomplete(String),
    Failing {
        why: String,
        in_a_row: u64,
    },
    Skipping,
    /// The cause of the skips is gone, and the next cycle is about to begin.
    Resumed(LogTime),
    Stopped(LogTime),
}

/// The state that the agent reported last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedState {
    #[serde(serialize_with = "word")]
    pub state: Line,
    pub since: LogTime,
    pub why: Option<String>,
    pub next: Option<String>,
    /// True when no later line says otherwise.
    #[serde(skip)]
    pub is_current: bool,
}

impl ReportedState {
    /// True when nothing is missing.
    pub fn is_well(&self) -> bool {
        matches!(self.state, Line::StateSynced | Line::StateIdle)
    }

    /// True when a cycle that came after this report says the same.
    pub fn agrees(&self, cycle: &SyncState) -> bool {
        match cycle {
            SyncState::Unknown | SyncState::Started(_) => true,
            SyncState::Complete(_) => self.is_well(),
            SyncState::Incomplete(_) => {
                matches!(self.state, Line::StateLocalOnly | Line::StateBehind)
            }
            SyncState::Failing { .. } => self.state == Line::StateFailed,
            SyncState::Skipping => self.state == Line::StateSkipped,
            SyncState::Resumed(_) => self.state != Line::StateSkipped,
            SyncState::Stopped(_) => false,
        }
    }
}

/// Writes the word of the state: `local_only` of `State: local_only`.
fn word<S: Serializer>(state: &Line, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.state())
}
