//! Since when a database is in its state, and what the log knows of that. Pure: the time comes in from outside.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use beadlock_core::record::beads::StartedAt;
use tokio::time::Instant;

use super::{DatabaseState, StateWord, log_time};
use crate::outcome::CycleOutcome;

/// A state of trouble is logged again after this time.
const AGAIN: Duration = Duration::from_secs(60 * 60);

/// The state of one database, since when it holds, and what it has done so far.
#[derive(Debug)]
pub(crate) struct StateHistory {
    pub(crate) state: Arc<DatabaseState>,
    /// Since when the state has this word.
    pub(crate) since: Instant,
    pub(crate) since_wall: StartedAt,
    /// When the log was last told.
    said: Instant,
    /// The times of the remote; `None`: none is known. In a box: most of 10,000 databases may have none.
    remote: Option<Box<RemoteTimes>>,
    /// How many cycles failed, by their reason. `None`: none did.
    pub(crate) failures: Option<Arc<FailureCounts>>,
}

/// The last push, and the last time that the remote told where it is, in Unix seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RemoteTimes {
    last_push: Option<i64>,
    as_of: Option<i64>,
}

/// How many cycles failed, by their reason.
pub(crate) type FailureCounts = BTreeMap<Cow<'static, str>, u64>;

/// How many reasons are counted for a database; further ones are `other`.
const REASONS: usize = 16;

impl StateHistory {
    /// A database that had no cycle yet.
    pub(crate) fn new(now: Instant, wall: StartedAt) -> Self {
        let state = Arc::new(DatabaseState::STARTING);
        Self {
            state,
            since: now,
            since_wall: wall,
            said: now,
            remote: None,
            failures: None,
        }
    }

    /// Counts what a cycle has brought: a push, an answer of the remote, or a failure.
    pub(crate) fn count(&mut self, outcome: &CycleOutcome, wall: StartedAt) {
        if let CycleOutcome::Synced(report) = outcome
            && (report.has_pushed || report.has_asked)
        {
            let remote = self.remote.get_or_insert_default();
            let now = Some(wall.0.as_secs());
            if report.has_pushed {
                remote.last_push = now;
            }
            if report.has_asked {
                remote.as_of = now;
            }
        }
        if let Some(reason) = outcome.failure() {
            let failures = Arc::make_mut(self.failures.get_or_insert_default());
            let is_known = failures.contains_key(&reason) || failures.len() < REASONS;
            let reason = if is_known {
                reason
            } else {
                Cow::Borrowed("other")
            };
            *failures.entry(reason).or_default() += 1;
        }
    }

    /// When the agent has last pushed, in Unix seconds.
    pub(crate) fn last_push(&self) -> Option<i64> {
        self.remote.as_ref()?.last_push
    }

    /// When the remote has last told where it is, in Unix seconds.
    pub(crate) fn as_of(&self) -> Option<i64> {
        self.remote.as_ref()?.as_of
    }

    /// The database is in this state now. Returns whether the log has to be told: the word or the reason is another.
    /// That a database without a sync had its first cycle is not news.
    pub(crate) fn turn(&mut self, state: DatabaseState, now: Instant, wall: StartedAt) -> bool {
        let is_other_word = self.state.word != state.word;
        let is_first_cycle = (self.state.word, state.word)
            == (StateWord::Starting, StateWord::Idle)
            && state.details.is_none();
        let is_news = !is_first_cycle && (is_other_word || self.state.reason() != state.reason());
        if is_other_word {
            (self.since, self.since_wall) = (now, wall);
        }
        if is_news {
            self.said = now;
        }
        if *self.state != state {
            self.state = Arc::new(state);
        }
        is_news
    }

    /// Whether the log has to be told again, since the trouble has lasted for another hour.
    pub(crate) fn is_to_be_said_again(&mut self, now: Instant) -> bool {
        let is_due =
            self.state.word.is_trouble() && now.saturating_duration_since(self.said) >= AGAIN;
        if is_due {
            self.said = now;
        }
        is_due
    }

    /// What follows the word in the log: since when, why, and what to type.
    pub(crate) fn words(&self) -> String {
        format!(
            " since {}{}",
            log_time(self.since_wall),
            self.why_and_next()
        )
    }

    /// `: WHY; type: NEXT`, of which each may be missing.
    pub(crate) fn why_and_next(&self) -> String {
        let Some(details) = &self.state.details else {
            return String::new();
        };
        let next = details
            .next
            .as_ref()
            .map(|next| format!("; type: {next}"))
            .unwrap_or_default();
        format!(": {}{next}", details.why)
    }

    pub(crate) fn word(&self) -> StateWord {
        self.state.word
    }
}
