//! Why a lock was not checked, as a line of a log has it.

use beadlock_core::decision::{LoggedDoubt, NotChecked};

/// Why a lock could not be checked, or a stale one not be removed: in the words of the daemon that has written the log,
/// and what they tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedReason {
    /// The words as the line has them; untrusted.
    pub words: String,
    /// The doubt that a reader can tell from the words.
    pub doubt: LoggedDoubt,
}

impl LoggedReason {
    /// Parses the words after `lock check failed: `.
    pub fn parse(words: &str) -> Self {
        Self {
            words: words.to_owned(),
            doubt: NotChecked::parse(words),
        }
    }
}

/// The kind of failure in the reason of a failed cycle: `exit code 3 after 1.2s` is the same failure as
/// `exit code 3 after 1.3s`. A limit of time belongs to its kind.
pub fn failure_kind(why: &str) -> &str {
    match why.rsplit_once(" after ") {
        Some((kind, _)) if !why.starts_with("timed out") => kind,
        _ => why,
    }
}

/// `origin cannot be reached: DETAIL; 3 commits wait, the oldest since …` without the detail and the time.
pub fn summary(why: &str) -> String {
    let waits =
        |tail: &str| tail.starts_with(|c: char| c.is_ascii_digit()) && tail.contains(" wait");
    let (cause, count) = match why.rsplit_once("; ").filter(|(_, tail)| waits(tail)) {
        Some((cause, tail)) => (
            cause,
            tail.split(',').next().map(|count| format!("; {count}")),
        ),
        None => (why, None),
    };
    let cause = cause.split_once(": ").map_or(cause, |(cause, _)| cause);
    format!("{cause}{}", count.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_same_however_long_it_took() {
        assert_eq!(failure_kind("exit code 3 after 1.2s"), "exit code 3");
        assert_eq!(failure_kind("timed out after 2m"), "timed out after 2m");
        assert_eq!(failure_kind("no git"), "no git");
    }

    #[test]
    fn a_reason_keeps_its_words() {
        let why = "failed to remove stale lock: x";
        let reason = LoggedReason::parse(why);
        assert_eq!(
            (reason.words.as_str(), reason.doubt),
            (why, LoggedDoubt::NotRemoved)
        );
    }
}
