//! How a cycle ended, for the scheduler and for who asks how the agent fares.

use beadlock_checker::Decision;

/// How a cycle ended. The log has said it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It ran and did its work.
    Complete,
    /// It ran, and failed, or could not run at all.
    Failed,
    /// It left the database alone.
    Skipped(Decision),
}

impl Outcome {
    /// Its word in metrics and in `/status`.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Skipped(_) => "skipped",
        }
    }
}
