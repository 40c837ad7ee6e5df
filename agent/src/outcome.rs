//! How a cycle ended, for the scheduler and for those who ask how the agent fares.

use std::borrow::Cow;

use beadlock_core::Decision;
use beadlock_git::{HindranceKind, SyncReport};

/// How a cycle ended. The log has said it.
#[derive(Debug)]
pub(crate) enum CycleOutcome {
    /// The work ran, and had no sync to do: `--action none`, or a command that has exited with 0.
    Ran,
    /// A sync through git ran to its end.
    Synced(SyncReport),
    /// The work failed or could not begin, or the cycle ended in a panic.
    Failed(CycleFailure),
    /// The database could not be served.
    NotServed(CycleFailure),
    /// The check left the database alone, by this decision.
    Skipped(Decision),
}

/// Why a cycle failed, or could not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CycleFailure {
    /// One word of a short list, for metrics and for comparing.
    pub(crate) reason: Cow<'static, str>,
    /// One sentence without its full stop.
    pub(crate) why: String,
}

impl CycleFailure {
    pub(crate) fn new(reason: &'static str, why: impl Into<String>) -> Self {
        Self {
            reason: Cow::Borrowed(reason),
            why: why.into(),
        }
    }
}

impl CycleOutcome {
    /// The outcome's word in metrics and in `/status`: one of [`Self::WORDS`].
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Ran => "complete",
            Self::Synced(report) => match &report.hindrance {
                None => "complete",
                Some(hindrance) if hindrance.kind == HindranceKind::Failed => "failed",
                Some(_) => "incomplete",
            },
            Self::Failed(_) | Self::NotServed(_) => "failed",
            Self::Skipped(_) => "skipped",
        }
    }

    pub(crate) const WORDS: [&str; 4] = ["complete", "incomplete", "failed", "skipped"];

    /// The reason of a cycle that failed.
    pub(crate) fn failure(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Failed(failure) | Self::NotServed(failure) => Some(failure.reason.clone()),
            Self::Synced(SyncReport {
                hindrance: Some(hindrance),
                ..
            }) if hindrance.kind == HindranceKind::Failed => {
                Some(Cow::Borrowed(hindrance.reason.as_str()))
            }
            _ => None,
        }
    }
}
