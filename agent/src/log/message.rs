//! What the worker is told: lines, when they were said and whose they are, and what has changed about the databases.

use serde::{Deserialize, Serialize};

use super::line::Line;

/// What the worker is told, in the order in which it happened. It takes bytes only: a message is JSON on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<L = Vec<Line>> {
    /// What was said together is written together.
    Lines {
        to: To,
        /// Unix time.
        seconds: i64,
        lines: L,
    },
    /// The database with this number has come or gone.
    Turned(u32),
    /// There are new settings.
    Configured,
    /// All lines are told.
    End,
}

/// Whose a line is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum To {
    One(u32),
    /// Everyone's: of those that were served when it was said.
    All(Vec<u32>),
}
