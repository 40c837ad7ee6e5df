//! One database over time: its cycles, its streaks of skips, and their holders.

use std::time::Duration;

use beadlock_core::log_line::Event as Line;

use super::rhythm::{CycleRhythm, GapKind};
use super::spans::{CycleResult, LogSpans, MarkKind};
use super::state::{CycleCounts, ReportedState, SyncState};
use super::streak::{PastStreak, SkipCause, SkipStreak, StreakEnd, SyncOutage, SyncOutages};
use super::{holders::HolderRows, repeats::RepeatedMessages};
use crate::parse::event::{DaemonEvent, StateReport};
use crate::parse::line::{LockDetails, LogWriter};
use crate::parse::reason::failure_kind;
use crate::parse::time::LogTime;

#[derive(Debug)]
struct OpenCycle {
    at: LogTime,
    trouble: Option<String>,
    /// A skip within the cycle. It is output of the cycle's command, unless the daemon describes the holder next.
    skipped: Option<(LogTime, SkipCause)>,
}

#[derive(Debug, Default)]
pub struct DatabaseTimeline {
    /// Name of the database in the log; `None` when the log is about one database only.
    pub name: Option<String>,
    pub counts: CycleCounts,
    pub holders: HolderRows,
    pub spans: LogSpans,
    pub failures: RepeatedMessages,
    pub notices: RepeatedMessages,
    pub rhythm: CycleRhythm,
    pub state: SyncState,
    reported: Option<ReportedState>,
    pub streak: Option<SkipStreak>,
    /// A claim that is over, unless the same holder is met again before a cycle runs.
    ended: Option<PastStreak>,
    pub outages: SyncOutages,
    pub last_complete: Option<LogTime>,
    pub first: Option<LogTime>,
    pub last: Option<LogTime>,
    /// How often the clock went back, and the largest step.
    pub clock_back: (u64, Duration),
    /// The original daemon looks only when something changes; `None`: it does not say.
    pub event_mode: Option<bool>,
    /// The branch to which the original daemon commits in a worktree of its own.
    pub sync_branch: Option<String>,
    cycle: Option<OpenCycle>,
    has_cycles: bool,
}

impl DatabaseTimeline {
    pub fn new(name: Option<String>) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    pub fn is_blank(&self) -> bool {
        !self.has_cycles
    }

    /// The start of the cycle that has not ended.
    pub fn in_cycle(&self) -> Option<LogTime> {
        self.cycle.as_ref().map(|cycle| cycle.at)
    }

    /// The last cycles were skipped for a lock.
    pub fn is_skipped(&self) -> bool {
        let is_reported = |reported: &ReportedState| reported.state == Line::StateSkipped;
        self.state == SyncState::Skipping || self.reported.as_ref().is_some_and(is_reported)
    }

    /// The state that the agent reports, unless a later line says otherwise.
    pub fn reported(&self) -> Option<&ReportedState> {
        self.reported
            .as_ref()
            .filter(|reported| reported.is_current)
    }

    /// Silence is not a sign of trouble: the daemon looks only when something changes.
    pub fn is_event_driven(&self) -> bool {
        self.event_mode == Some(true)
    }

    /// Leaves out all that was over before `from`. A streak, a cycle or an outage that goes on still counts.
    pub fn forget(&mut self, from: LogTime) {
        self.counts = CycleCounts::default();
        self.holders = HolderRows::default();
        self.spans.forget(from);
        self.failures = RepeatedMessages::default();
        self.notices = RepeatedMessages::default();
        self.rhythm.forget();
        self.outages.forget(from);
        self.first = None;
        self.clock_back = Default::default();
    }

    pub fn add(
        &mut self,
        at: LogTime,
        event: &DaemonEvent<'_>,
        message: &str,
        lock: &LockDetails,
        writer: Option<LogWriter>,
    ) {
        let is_agent = writer == Some(LogWriter::Agent);
        self.silence(at, event);
        let before = self.last.replace(at);
        self.first.get_or_insert(at);
        if is_agent && self.is_output(at, event) {
            return;
        }
        match event {
            DaemonEvent::Begun => self.begun(at, is_agent),
            DaemonEvent::Complete => self.complete(at),
            DaemonEvent::Incomplete(why) => {
                self.counts.incomplete += 1;
                let began = self.cycle_ends(at, CycleResult::Incomplete, why);
                self.outage(began);
                self.set(SyncState::Incomplete((*why).to_owned()));
            }
            DaemonEvent::Failed(why) => {
                self.counts.failed += 1;
                self.failed(why, at, CycleResult::Failed);
            }
            DaemonEvent::TimedOut(after) => {
                self.counts.timed_out += 1;
                self.failed(
                    &format!("timed out after {after}"),
                    at,
                    CycleResult::TimedOut,
                );
            }
            DaemonEvent::Trouble(why) => {
                if let Some(cycle) = &mut self.cycle {
                    cycle.trouble = Some((*why).to_owned());
                }
            }
            DaemonEvent::Removed(holder) => self.removed(holder, at),
            DaemonEvent::Held(lock) => self.held(lock),
            DaemonEvent::Resumed => {
                self.end_streak(at, StreakEnd::Released);
                self.set(SyncState::Resumed(at));
            }
            DaemonEvent::State(report) => self.reports(report, lock, at),
            DaemonEvent::EventMode(at_changes) => {
                self.event_mode = Some(*at_changes && self.event_mode != Some(false));
            }
            DaemonEvent::SyncBranch(branch) => self.sync_branch = Some((*branch).to_owned()),
            DaemonEvent::Started(_) => self.started(at, before),
            DaemonEvent::Stopped(_) => self.stopped(at),
            DaemonEvent::Step => self.spans.step(message),
            DaemonEvent::Notice | DaemonEvent::ServedBy(_) => {
                self.notices.add(message, at);
                self.spans.mark(at, MarkKind::Notice, message);
            }
            event => {
                if let Some(cause) = SkipCause::of(event) {
                    self.skipped(cause, lock, at);
                }
            }
        }
        self.has_cycles |= event.is_of_a_cycle();
    }

    pub fn finish(&mut self, end: LogTime) {
        if self
            .cycle
            .as_ref()
            .is_some_and(|cycle| cycle.trouble.is_some())
        {
            self.cut_short(end.min(self.last.unwrap_or(end)));
        }
        // The log says nothing about the time after its last line, once that time is longer than usual.
        let is_silent =
            |last: &LogTime| !self.is_event_driven() && end.since(*last) > self.rhythm.limit();
        let end = self.last.filter(is_silent).unwrap_or(end);
        self.settle();
        if let Some(streak) = self.streak.clone() {
            self.past(streak, end, StreakEnd::Open);
        }
    }

    /// Within a cycle of the agent only the end of the cycle is the agent's own line. The rest is output of the
    /// cycle's command.
    fn is_output(&mut self, at: LogTime, event: &DaemonEvent<'_>) -> bool {
        use DaemonEvent::{Busy, CutOff, Held, Locked, Removed, Resumed, Trouble, Unreadable};
        let Some(cycle) = &mut self.cycle else {
            return false;
        };
        match event {
            Locked(_) | CutOff(_) => {
                cycle.skipped = SkipCause::of(event).map(|cause| (at, cause));
                true
            }
            Held(_) => cycle.skipped.is_none(),
            Busy | Unreadable(_) | Removed(_) | Resumed | Trouble(_) => true,
            _ => false,
        }
    }

    fn silence(&mut self, at: LogTime, event: &DaemonEvent<'_>) {
        let Some(last) = self.last else { return };
        let back = last.since(at);
        if back > Duration::from_secs(1) {
            self.clock_back = (self.clock_back.0 + 1, self.clock_back.1.max(back));
        }
        let kind = match (&self.state, event) {
            (SyncState::Stopped(_), _) => return,
            (_, DaemonEvent::Started(_)) => GapKind::Gone,
            _ if self.cycle.is_some() => GapKind::InCycle,
            _ if self.is_event_driven() => return,
            _ => GapKind::Silent,
        };
        self.rhythm.silence(last, at, kind);
    }

    fn begun(&mut self, at: LogTime, is_agent: bool) {
        self.rhythm.look(at);
        self.cut_short(at);
        if is_agent {
            self.end_streak(at, StreakEnd::Released);
            self.settle();
        }
        self.cycle = Some(OpenCycle {
            at,
            trouble: None,
            skipped: None,
        });
    }

    /// The open cycle has no end in the log, or it ended with an error.
    fn cut_short(&mut self, at: LogTime) {
        let Some(cycle) = &mut self.cycle else { return };
        if let Some(why) = cycle.trouble.take() {
            self.counts.failed += 1;
            self.failed(&why, at, CycleResult::Failed);
        } else {
            self.counts.unfinished += 1;
            self.cycle_ends(at, CycleResult::Unfinished, "");
        }
    }

    /// The open cycle ends, and with it the streak of skips before it. Returns when the cycle began.
    fn cycle_ends(&mut self, at: LogTime, end: CycleResult, why: &str) -> LogTime {
        let began = self.cycle.take().map_or(at, |cycle| cycle.at);
        self.spans.cycle(began, at, end, why);
        self.end_streak(began, StreakEnd::Released);
        self.settle();
        began
    }

    fn complete(&mut self, at: LogTime) {
        self.cycle_ends(at, CycleResult::Complete, "");
        self.counts.complete += 1;
        self.last_complete = Some(at);
        self.outages.end(at);
        self.set(SyncState::Complete(at));
    }

    fn reports(&mut self, report: &StateReport<'_>, lock: &LockDetails, at: LogTime) {
        let of_json = || lock.since.as_deref().and_then(LogTime::parse);
        let since = report.since.or_else(of_json).unwrap_or(at);
        match report.state {
            Line::StateSynced | Line::StateIdle => self.outages.end(at),
            Line::StateStarting => {}
            _ if self
                .outages
                .current
                .is_some_and(|outage| outage.since <= since) => {}
            _ => {
                self.outages.current = Some(SyncOutage {
                    since,
                    is_first: false,
                })
            }
        }
        self.spans.state(report, since);
        let [why, next] = [report.why, report.next].map(|text| text.map(str::to_owned));
        self.reported = Some(ReportedState {
            state: report.state,
            since,
            why,
            next,
            is_current: true,
        });
    }

    fn set(&mut self, state: SyncState) {
        if let Some(reported) = &mut self.reported {
            reported.is_current = reported.agrees(&state);
        }
        self.state = state;
    }

    fn failed(&mut self, why: &str, at: LogTime, end: CycleResult) {
        let kind = failure_kind(why);
        self.failures.add(kind, at);
        let began = self.cycle_ends(at, end, why);
        self.outage(began);
        let in_a_row = match self.state {
            SyncState::Failing { in_a_row, .. } => in_a_row + 1,
            _ => 1,
        };
        self.set(SyncState::Failing {
            why: kind.to_owned(),
            in_a_row,
        });
    }

    fn skipped(&mut self, cause: SkipCause, lock: &LockDetails, at: LogTime) {
        match &self.cycle {
            None => self.rhythm.look(at),
            Some(cycle) if cycle.trouble.is_some() => self.cut_short(at),
            // The original daemon logs that a cycle starts before it logs the skip.
            Some(_) => self.cycle = None,
        }
        self.outage(at);
        self.set(SyncState::Skipping);
        self.counts.skips += 1;
        if let Some(streak) = &mut self.streak {
            // A process that releases or changes the lock has the gate for a moment.
            if streak.is_of(&cause, lock) || cause == SkipCause::Busy {
                streak.skips += 1;
                streak.lock.complete(lock);
                return;
            }
            if matches!(
                (&streak.cause, &cause),
                (SkipCause::Unreadable(_), SkipCause::Unreadable(_))
            ) {
                streak.skips += 1;
                streak.cause = cause;
                return;
            }
        }
        self.end_streak(at, StreakEnd::TakenOver);
        if matches!(cause, SkipCause::Held(_)) {
            let goes_on = |ended: &mut PastStreak| {
                ended.end != StreakEnd::Released && ended.streak.is_of(&cause, lock)
            };
            if let Some(PastStreak { streak, .. }) = self.ended.take_if(goes_on) {
                self.streak = Some(SkipStreak {
                    skips: streak.skips + 1,
                    ..streak
                });
                return;
            }
            self.settle();
        }
        self.streak = Some(SkipStreak {
            cause,
            since: at,
            skips: 1,
            lock: lock.clone(),
        });
    }

    fn removed(&mut self, holder: &str, at: LogTime) {
        self.spans.mark(at, MarkKind::Removed, holder);
        let end = match self.streak.as_ref().map(|streak| &streak.cause) {
            Some(SkipCause::Held(name)) if name != holder => StreakEnd::TakenOver,
            _ => StreakEnd::RemovedStale,
        };
        self.end_streak(at, end);
        match self
            .ended
            .take_if(|ended| ended.streak.cause == SkipCause::Held(holder.to_owned()))
        {
            Some(ended) => self.past(ended.streak, at, StreakEnd::RemovedStale),
            None => self.holders.removed_at_once(holder, at),
        }
        self.set(SyncState::Resumed(at));
    }

    fn held(&mut self, lock: &LockDetails) {
        if let Some((at, cause)) = self.cycle.as_mut().and_then(|cycle| cycle.skipped.take()) {
            // The skip was the daemon's own: the end of the cycle before it is not in the log.
            self.cut_short(at);
            self.skipped(cause, &LockDetails::default(), at);
        }
        if let Some(streak) = &mut self.streak {
            streak.lock.complete(lock);
        }
    }

    fn started(&mut self, at: LogTime, before: Option<LogTime>) {
        if let (false, Some(before)) = (matches!(self.state, SyncState::Stopped(_)), before) {
            // The daemon before was killed; the log shows only its last line.
            self.cut_short(before);
            self.end_streak(before, StreakEnd::AgentStopped);
            if self.has_cycles {
                self.outage(before);
            }
            self.rhythm.was_gone(at);
            self.spans.state_ends(before);
        }
        self.rhythm.restart();
        (self.reported, self.event_mode, self.sync_branch) = (None, None, None);
        self.state = SyncState::Started(at);
    }

    fn stopped(&mut self, at: LogTime) {
        self.cut_short(at);
        self.end_streak(at, StreakEnd::AgentStopped);
        self.outage(at);
        self.spans.state_ends(at);
        self.set(SyncState::Stopped(at));
    }

    fn is_first(&self) -> bool {
        !self.has_cycles && self.state == SyncState::Unknown
    }

    fn outage(&mut self, since: LogTime) {
        let is_first = self.is_first();
        self.outages
            .current
            .get_or_insert(SyncOutage { since, is_first });
    }

    /// Ends the streak of skips. The end of a claim counts once it is [settled](Self::settle).
    fn end_streak(&mut self, until: LogTime, end: StreakEnd) {
        let Some(streak) = self.streak.take() else {
            return;
        };
        if matches!(streak.cause, SkipCause::Held(_)) {
            self.settle();
            self.ended = Some(PastStreak { streak, until, end });
        } else {
            self.past(streak, until, end);
        }
    }

    /// The claim that has ended does not go on: a cycle runs, or another claim has come.
    fn settle(&mut self) {
        let from = self.outages.from;
        if let Some(ended) = self
            .ended
            .take()
            .filter(|ended| from.is_none_or(|from| ended.until >= from))
        {
            self.past(ended.streak, ended.until, ended.end);
        }
    }

    fn past(&mut self, streak: SkipStreak, until: LogTime, end: StreakEnd) {
        match &streak.cause {
            SkipCause::Held(name) => {
                self.holders
                    .held(name, streak.since, until, streak.skips, end)
            }
            SkipCause::Busy => {}
            SkipCause::Unreadable(_) => self.counts.unreadable += 1,
        }
        self.spans.streak(PastStreak { streak, until, end });
    }
}
