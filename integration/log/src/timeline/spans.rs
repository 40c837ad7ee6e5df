//! The spans of a timeline: when each cycle ran, who held the lock from when to when, and which state the agent
//! reported. The report's lists and the page of `--html` are made of them.
//!
//! They are bounded. Of very many cycles two that ended alike become one run; of other spans the latest are kept.

use beadlock_core::log_line::Event as Line;

use super::streak::{PastStreak, SkipCause};
use crate::parse::{event::StateReport, time::LogTime};

/// Most runs of cycles that are kept for each database; then neighbours are joined.
const RUNS: usize = 100_000;

/// Most streaks, states and marks that are kept: the latest.
const KEPT: usize = 20_000;

/// Most lines of one cycle's work that are kept.
const STEPS: usize = 8;

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CycleResult {
    Complete,
    Incomplete,
    Failed,
    TimedOut,
    /// The log does not show an end.
    Unfinished,
}

/// A cycle, or several in a row that ended alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CycleRun {
    pub from: LogTime,
    pub to: LogTime,
    pub end: CycleResult,
    pub count: u64,
    /// More words of the log: the work that was done, or why it failed. Of several cycles the last words.
    pub words: String,
}

/// A state that the agent has reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateSpan {
    pub from: LogTime,
    /// `None`: it holds at the end of the log.
    pub to: Option<LogTime>,
    pub state: Line,
    /// The cause, as it was reported last.
    pub why: String,
}

/// A moment that is worth a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMark {
    pub at: LogTime,
    pub kind: MarkKind,
    /// The words of the log.
    pub words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A stale lock was removed; the words are its holder.
    Removed,
    Notice,
}

/// How many spans are not kept. The counts of a timeline have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedSpans {
    pub streaks: usize,
    pub states: usize,
    pub marks: usize,
}

/// The spans of one database, each list in the order of its ends.
#[derive(Debug, Default)]
pub struct LogSpans {
    pub cycles: Vec<CycleRun>,
    /// Past streaks of skips; after the end of the log the one that goes on, too.
    pub streaks: Vec<PastStreak>,
    pub states: Vec<StateSpan>,
    pub marks: Vec<LogMark>,
    /// How many of the earliest were dropped.
    pub dropped: DroppedSpans,
    /// Work of the open cycle so far, in the words of the log.
    steps: Vec<String>,
}

impl LogSpans {
    /// Drops the spans that were over before `from`, and all past streaks.
    pub fn forget(&mut self, from: LogTime) {
        self.cycles.retain(|run| run.to >= from);
        self.streaks.clear();
        self.dropped = DroppedSpans::default();
        self.states
            .retain(|span| span.to.is_none_or(|to| to >= from));
        self.marks.retain(|mark| mark.at >= from);
    }

    /// Notes that the open cycle has made a commit, a pull or a push.
    pub fn step(&mut self, words: &str) {
        if self.steps.len() < STEPS {
            self.steps.push(words.to_owned());
        }
    }

    /// Adds a cycle that has ended; `why` is empty where all is well.
    pub fn cycle(&mut self, from: LogTime, to: LogTime, end: CycleResult, why: &str) {
        let mut words = std::mem::take(&mut self.steps);
        words.extend(Some(why.to_owned()).filter(|why| !why.is_empty()));
        self.cycles.push(CycleRun {
            from,
            to: to.max(from),
            end,
            count: 1,
            words: words.join("; "),
        });
        if self.cycles.len() > RUNS {
            self.cycles = joined(std::mem::take(&mut self.cycles), RUNS / 2);
        }
    }

    pub fn streak(&mut self, past: PastStreak) {
        self.dropped.streaks += push(&mut self.streaks, past);
    }

    /// The streaks in which the lock could not be checked, the oldest first.
    pub fn unreadable(&self) -> impl DoubleEndedIterator<Item = &PastStreak> {
        self.streaks
            .iter()
            .filter(|past| matches!(past.streak.cause, SkipCause::Unreadable(_)))
    }

    /// Notes a reported state that holds since `since`, and ends the one before.
    pub fn state(&mut self, report: &StateReport<'_>, since: LogTime) {
        let why = report.why.unwrap_or_default().to_owned();
        if let Some(last) = self.states.last_mut().filter(|last| last.to.is_none()) {
            if last.state == report.state {
                last.why = why;
                return;
            }
            last.to = Some(since.max(last.from));
        }
        self.dropped.states += push(
            &mut self.states,
            StateSpan {
                from: since,
                to: None,
                state: report.state,
                why,
            },
        );
    }

    /// Ends the reported state, because the agent has ended.
    pub fn state_ends(&mut self, at: LogTime) {
        if let Some(last) = self.states.last_mut().filter(|last| last.to.is_none()) {
            last.to = Some(at.max(last.from));
        }
    }

    pub fn mark(&mut self, at: LogTime, kind: MarkKind, words: &str) {
        self.dropped.marks += push(
            &mut self.marks,
            LogMark {
                at,
                kind,
                words: words.to_owned(),
            },
        );
    }
}

/// Adds to a list; of very many the latest half is kept. Returns how many were dropped.
fn push<T>(list: &mut Vec<T>, one: T) -> usize {
    let dropped = if list.len() == KEPT { KEPT / 2 } else { 0 };
    list.drain(..dropped);
    list.push(one);
    dropped
}

/// Joins neighbours that ended alike until at most `limit` are left, or nothing more can be joined.
pub fn joined(mut runs: Vec<CycleRun>, limit: usize) -> Vec<CycleRun> {
    while runs.len() > limit.max(1) {
        let before = runs.len();
        let mut fewer: Vec<CycleRun> = Vec::with_capacity(before / 2 + 1);
        let mut has_joined = false;
        for run in runs {
            match fewer
                .last_mut()
                .filter(|last| !has_joined && last.end == run.end)
            {
                Some(last) => {
                    last.to = last.to.max(run.to);
                    last.count += run.count;
                    if !run.words.is_empty() {
                        last.words = run.words;
                    }
                    has_joined = true;
                }
                None => {
                    fewer.push(run);
                    has_joined = false;
                }
            }
        }
        runs = fewer;
        if runs.len() == before {
            // No two neighbours ended alike.
            let surplus = before - limit.max(1);
            runs.drain(..surplus);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> LogTime {
        LogTime(seconds * 1000)
    }

    #[test]
    fn of_very_many_cycles_none_is_lost_while_neighbours_end_alike() {
        let mut spans = LogSpans::default();
        let count = i64::try_from(RUNS).unwrap() * 3;
        for number in 0..count {
            let end = if number % 1000 == 999 {
                CycleResult::Failed
            } else {
                CycleResult::Complete
            };
            spans.cycle(at(number * 10), at(number * 10 + 1), end, "");
        }
        assert!(spans.cycles.len() <= RUNS);
        assert_eq!(
            spans.cycles.iter().map(|run| run.count).sum::<u64>(),
            u64::try_from(count).unwrap()
        );
        assert_eq!(
            spans
                .cycles
                .iter()
                .filter(|run| run.end == CycleResult::Failed)
                .map(|run| run.count)
                .sum::<u64>(),
            300
        );
        assert!(
            spans
                .cycles
                .windows(2)
                .all(|pair| pair[0].to <= pair[1].from),
            "they stay in order"
        );
        let ends = [CycleResult::Complete, CycleResult::Failed];
        let run = |number: usize| CycleRun {
            from: LogTime(0),
            to: LogTime(1),
            end: ends[number % 2],
            count: 1,
            words: String::new(),
        };
        assert_eq!(
            joined((0..100).map(run).collect(), 10).len(),
            10,
            "the latest, where none can be joined"
        );
    }

    #[test]
    fn what_is_dropped_is_counted() {
        let mut spans = LogSpans::default();
        for number in 0..=i64::try_from(KEPT).unwrap() {
            spans.mark(at(number), MarkKind::Notice, "");
        }
        assert_eq!(
            (spans.dropped.marks, spans.marks.len()),
            (KEPT / 2, KEPT / 2 + 1)
        );
        spans.forget(at(0));
        assert_eq!(spans.dropped.marks, 0, "a window begins anew");
    }

    #[test]
    fn a_state_lasts_until_another_one_is_reported_or_the_agent_ends() {
        let mut spans = LogSpans::default();
        let report = |state, why| StateReport {
            state,
            since: None,
            why,
            next: None,
        };
        spans.state(
            &report(Line::StateLocalOnly, Some("1 commit waits")),
            at(10),
        );
        spans.state(
            &report(Line::StateLocalOnly, Some("2 commits wait")),
            at(10),
        );
        spans.state(&report(Line::StateSynced, None), at(50));
        spans.state_ends(at(60));
        spans.state_ends(at(70));
        let seen: Vec<_> = spans
            .states
            .iter()
            .map(|span| (span.from, span.to, span.why.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (at(10), Some(at(50)), "2 commits wait"),
                (at(50), Some(at(60)), "")
            ]
        );
    }
}
