//! What the thread of the log is told: lines, when they were said and whose they are, and what has changed about the
//! databases.

use super::Line;

/// What the thread of the log is told, in the order in which it happened.
#[derive(Debug)]
pub(super) enum Message {
    /// What was said together is written together.
    Lines {
        to: To,
        /// Unix time.
        seconds: i64,
        lines: Vec<Line>,
    },
    /// The database with this number has come or gone.
    Turned(u32),
    /// There are new settings.
    Configured,
    /// All lines are told.
    End,
}

/// Whose a line is.
#[derive(Debug, PartialEq)]
pub(super) enum To {
    One(u32),
    /// Everyone's: of those that were served when it was said.
    All(Vec<u32>),
}
