//! The state of a database: one word, since when, why, and what to type (docs/design.md#states). Pure.
//!
//! A database is always in exactly one state, and the state is the same in the log, in `/status`, in `/metrics`, for
//! the service manager and in the exit code of `--once`. It follows from the last cycle ([`DatabaseState::of`]);
//! [`StateHistory`] knows since when it holds, and what the log has been told.

mod history;

use std::borrow::Cow;
use std::path::Path;

use beadlock_base::shell::{Part, to_type};
use beadlock_core::log_line::Event;
use beadlock_core::record::beads::StartedAt;
use beadlock_core::{Decision, Verdict};
use beadlock_git::{Hindrance, HindranceKind, SyncReport, Unpushed};

pub(crate) use self::history::{FailureCounts, StateHistory};
use crate::outcome::CycleOutcome;

/// The states, the worst first: of those that apply, the first one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StateWord {
    /// The directory has gone, belongs to somebody else, or does not answer; or bd keeps it in Dolt.
    NotServing,
    /// The cycles fail: somebody has to act.
    Failed,
    /// The check skips the database: it is claimed, or its lock cannot be checked.
    Skipped,
    /// The database has commits that are not at the remote.
    LocalOnly,
    /// The remote has commits that are not here, or it is not known whether it has any.
    Behind,
    /// The database had no cycle yet.
    Starting,
    /// The database has no sync through git.
    Idle,
    /// Everything is at the remote, and everything of the remote is here.
    Synced,
}

impl StateWord {
    /// All of them, the worst first.
    pub(crate) const ALL: [Self; 8] = [
        Self::NotServing,
        Self::Failed,
        Self::Skipped,
        Self::LocalOnly,
        Self::Behind,
        Self::Starting,
        Self::Idle,
        Self::Synced,
    ];

    /// The event of its line in the log.
    pub(crate) fn event(self) -> Event {
        match self {
            Self::NotServing => Event::StateNotServing,
            Self::Failed => Event::StateFailed,
            Self::Skipped => Event::StateSkipped,
            Self::LocalOnly => Event::StateLocalOnly,
            Self::Behind => Event::StateBehind,
            Self::Starting => Event::StateStarting,
            Self::Idle => Event::StateIdle,
            Self::Synced => Event::StateSynced,
        }
    }

    /// The word as it stands in the log, in JSON and in labels: `local_only`.
    pub(crate) fn as_str(self) -> &'static str {
        self.event().state()
    }

    /// Work does not arrive where it should.
    pub(crate) fn is_trouble(self) -> bool {
        self < Self::Starting
    }

    /// For too long, it makes the agent unready. A claim may last for as long as its holder lives.
    pub(crate) fn can_be_stale(self) -> bool {
        self.is_trouble() && self != Self::Skipped
    }
}

/// The state of a database at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabaseState {
    pub(crate) word: StateWord,
    /// The reason, the advice and more; `None`: nothing to say. In a box to be small: most databases are fine.
    pub(crate) details: Option<Box<StateDetails>>,
}

/// Why a database is in its state, and what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StateDetails {
    /// One word of a short list, for metrics and for comparing; "" without one.
    pub(crate) reason: Cow<'static, str>,
    /// One sentence without its full stop.
    pub(crate) why: String,
    /// The command to type, where there is one.
    pub(crate) next: Option<String>,
    pub(crate) unpushed: Unpushed,
    /// Files that are not synced because of what they are.
    pub(crate) left_out: Vec<String>,
}

impl DatabaseState {
    /// The state before the first cycle.
    pub(crate) const STARTING: Self = Self {
        word: StateWord::Starting,
        details: None,
    };

    fn new(word: StateWord, details: StateDetails) -> Self {
        Self {
            word,
            details: Some(Box::new(details)),
        }
    }

    /// A database that cannot be served, and why.
    pub(crate) fn not_serving(reason: Cow<'static, str>, why: &str) -> Self {
        let details = StateDetails {
            reason,
            why: why.to_owned(),
            ..StateDetails::default()
        };
        Self::new(StateWord::NotServing, details)
    }

    /// The state after a cycle of the database in `dir` that ended so.
    pub(crate) fn of(outcome: &CycleOutcome, dir: &Path) -> Self {
        match outcome {
            CycleOutcome::Ran => Self {
                word: StateWord::Idle,
                details: None,
            },
            CycleOutcome::NotServed(failure) => {
                Self::not_serving(failure.reason.clone(), &failure.why)
            }
            CycleOutcome::Failed(failure) => {
                let (reason, why) = (failure.reason.clone(), failure.why.clone());
                Self::new(
                    StateWord::Failed,
                    StateDetails {
                        reason,
                        why,
                        ..StateDetails::default()
                    },
                )
            }
            CycleOutcome::Skipped(decision) => Self::skipped(decision, dir),
            CycleOutcome::Synced(report) => Self::synced(report),
        }
    }

    fn skipped(decision: &Decision, dir: &Path) -> Self {
        let details = StateDetails {
            reason: Cow::Borrowed(decision.reason().as_str()),
            why: decision.why().unwrap_or_default(),
            next: Some(to_type("beadlock status {}", &[Part::Path(dir)])),
            ..StateDetails::default()
        };
        Self::new(StateWord::Skipped, details)
    }

    fn synced(report: &SyncReport) -> Self {
        let Some(Hindrance {
            kind,
            reason,
            why,
            next,
        }) = &report.hindrance
        else {
            let why = not_synced(report);
            return Self {
                word: StateWord::Synced,
                details: (!why.is_empty()).then(|| {
                    Box::new(StateDetails {
                        why,
                        left_out: report.left_out.clone(),
                        ..StateDetails::default()
                    })
                }),
            };
        };
        let waits = report.unpushed.commits > 0;
        let word = match kind {
            HindranceKind::Failed => StateWord::Failed,
            HindranceKind::NotPushing => StateWord::LocalOnly,
            HindranceKind::Idle => StateWord::Idle,
            HindranceKind::NotServing => StateWord::NotServing,
            HindranceKind::NotPulling | HindranceKind::Unreachable if waits => StateWord::LocalOnly,
            HindranceKind::NotPulling | HindranceKind::Unreachable => StateWord::Behind,
        };
        let why = match (word, waiting(report.unpushed)) {
            (StateWord::LocalOnly, Some(waiting)) => format!("{why}; {waiting}"),
            _ => why.clone(),
        };
        let (reason, next) = (Cow::Borrowed(reason.as_str()), next.clone());
        Self::new(
            word,
            StateDetails {
                reason,
                why,
                next,
                unpushed: report.unpushed,
                left_out: report.left_out.clone(),
            },
        )
    }

    /// `--once` ends with this code when it is the worst of all: 0; 4 and 5 as `beadlock check`; 1.
    pub(crate) fn exit_code(word: StateWord, last: Option<&CycleOutcome>) -> u8 {
        match (word, last) {
            (StateWord::Idle | StateWord::Synced, _) => 0,
            (StateWord::Skipped, Some(CycleOutcome::Skipped(decision))) => match decision.verdict()
            {
                Verdict::Held(_) => 4,
                _ => 5,
            },
            _ => 1,
        }
    }

    /// The cause in one sentence, where there is one.
    pub(crate) fn why(&self) -> Option<&str> {
        self.details.as_ref().map(|details| details.why.as_str())
    }

    /// The reason; "" where there is none.
    pub(crate) fn reason(&self) -> &str {
        self.details.as_ref().map_or("", |details| &details.reason)
    }
}

/// `2 files are not synced: .beads/x.key, .beads/y.pid`, and what is being written; "" where there is neither.
fn not_synced(report: &SyncReport) -> String {
    let (count, shown) = (report.left_out_count, &report.left_out);
    let named = shown.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
    let more = if count > 3 { ", …" } else { "" };
    let left_out = match count {
        0 => None,
        1 => Some(format!("1 file is not synced: {named}")),
        _ => Some(format!("{count} files are not synced: {named}{more}")),
    };
    let writing =
        (!report.writing.is_empty()).then(|| format!("{} is being written", report.writing));
    left_out
        .into_iter()
        .chain(writing)
        .collect::<Vec<_>>()
        .join("; ")
}

/// `3 commits wait, the oldest since 2026-11-25 15:10:00`; `None` when none waits.
fn waiting(Unpushed { commits, oldest }: Unpushed) -> Option<String> {
    let since = oldest.map(|seconds| log_time(StartedAt::from_unix(seconds, 0)));
    match commits {
        0 => None,
        1 => Some(
            "1 commit waits".to_owned()
                + &since.map(|at| format!(", since {at}")).unwrap_or_default(),
        ),
        commits => {
            let since = since
                .map(|at| format!(", the oldest since {at}"))
                .unwrap_or_default();
            Some(format!("{commits} commits wait{since}"))
        }
    }
}

/// A moment as the log has it: `2026-11-25 15:55:57`, UTC.
pub(crate) fn log_time(at: StartedAt) -> String {
    let time = jiff::Timestamp::from_second(at.0.as_secs()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests;
