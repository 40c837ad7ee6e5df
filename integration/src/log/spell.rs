//! A streak of skipped cycles: what it comes from, who is behind it.

use super::holders::SpellEnd;
use super::line::Extra;
use super::time::At;

/// What skips a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The lock of this holder.
    Held(String),
    /// A lock that cannot be checked, or not be removed: why.
    Unreadable(String),
    /// Somebody has the gate.
    Busy,
}

/// Skips of one cause without a cycle in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spell {
    pub cause: Cause,
    pub since: At,
    /// Nothing came before it in the log: it may have begun earlier.
    pub is_first: bool,
    pub skips: u64,
    /// Who holds it, once the log has said so.
    pub extra: Extra,
}

/// A spell that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    pub spell: Spell,
    pub until: At,
    pub end: SpellEnd,
}
