//! What everybody has done, by their own word.

use std::collections::BTreeMap;
use std::time::SystemTime;

/// From, to: nanoseconds of the wall clock.
pub type Span = (u128, u128);

#[derive(Debug, Default)]
pub struct Ledger {
    /// Lines written to files that everybody shares, by path.
    pub lines: BTreeMap<String, Vec<String>>,
    /// Lines written to files that never leave a clone, by clone and path.
    pub own_lines: BTreeMap<(char, String), Vec<String>>,
    /// Subjects of commits made by hand, by clone.
    pub commits: BTreeMap<char, Vec<String>>,
    /// How many of these have been pushed by hand.
    pub pushed: BTreeMap<char, usize>,
    /// When somebody had a claim: clone, kind, span.
    pub claims: Vec<(char, &'static str, Span)>,
    /// What somebody came upon that must not be: a lost claim, a git that fails where nobody disturbs it.
    pub found: Vec<String>,
    /// What else is counted.
    pub counts: BTreeMap<String, usize>,
}

impl Ledger {
    pub fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    pub fn counted(&self, what: &str) -> usize {
        self.counts.get(what).copied().unwrap_or_default()
    }
}

/// Nanoseconds of the wall clock, as `date +%s%N` has them.
pub fn now() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is right")
        .as_nanos()
}

/// The words of a text with one space between them.
pub fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
