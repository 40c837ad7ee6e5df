//! The answer: whether a database syncs, since when it does not, why, and what to type. Pure.

use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;
use serde::Serialize;

use super::LogReport;
use super::advice::explained;
use crate::log::parse::time::LogTime;
use crate::log::timeline::agents::AgentRun;
use crate::log::timeline::database::{DatabaseTimeline, SyncState};
use crate::log::timeline::outages::SyncOutage;
use crate::log::timeline::streak::{SkipCause, SkipStreak};

/// A cycle may run so long without a line: the default timeout and its grace period.
const CYCLE: Duration = Duration::from_secs(130);

/// A usual difference between two clocks.
const CLOCKS: Duration = Duration::from_secs(60);

/// What the log says about a database at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogAnswer {
    /// `syncing`, `held`, `unreadable`, `busy`, `failing`, `stopped`, `started`, `resumed`, `in_cycle`, `silent` or
    /// `unknown`.
    pub state: &'static str,
    /// `None`: the log cannot say.
    pub syncing: Option<bool>,
    /// Since when it does not sync, or is silent.
    pub since: Option<LogTime>,
    /// The log begins at that time, so it may have been earlier.
    pub is_first: bool,
    /// The time from [`LogAnswer::since`] to [`LogAnswer::as_of`].
    pub duration: Option<Duration>,
    /// The log speaks for the time up to here.
    pub as_of: Option<LogTime>,
    /// One sentence.
    pub message: String,
    /// More sentences, a line each.
    pub more: Vec<String>,
    pub next: Vec<NextCommand>,
    /// The time without a line, where that is too long.
    pub silent: Option<Duration>,
}

/// A command to type, and its purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NextCommand {
    pub command: String,
    pub why: &'static str,
}

/// What an answer follows from.
pub struct AnswerContext<'a> {
    pub report: &'a LogReport,
    pub timeline: &'a DatabaseTimeline,
    /// The daemon that wrote last.
    pub agent: Option<&'a AgentRun>,
    last: LogTime,
    as_of: LogTime,
    silent: Option<Duration>,
}

/// The answer for one database.
pub fn answer(report: &LogReport, timeline: &DatabaseTimeline) -> LogAnswer {
    let is_blank = timeline.is_blank() && timeline.state == SyncState::Unknown;
    let Some(last) = timeline.last.filter(|_| !is_blank) else { return unknown(report, timeline) };
    if report.log.window.until.is_none() && last.since(report.end) > CLOCKS {
        return of_the_future(last, report.end);
    }
    let context = AnswerContext::new(report, timeline, last);
    let mut answer = match &timeline.state {
        SyncState::Stopped(at) => context.stopped(*at),
        SyncState::Skipping => context.skipping(),
        _ if timeline.in_cycle().is_some() => context.in_cycle(),
        SyncState::Failing { why, in_a_row } => context.failing(why, *in_a_row),
        SyncState::Complete(at) => context.complete(*at),
        SyncState::Started(at) => context.started(*at),
        SyncState::Resumed(at) => context.resumed(*at),
        SyncState::Unknown => unknown(report, timeline),
    };
    answer.silent = context.silent;
    if report.log.has_no_times() {
        (answer.since, answer.duration, answer.as_of) = (None, None, None);
        answer.more = vec!["no line says when: what is shown as times is the moment of reading".to_owned()];
        return answer;
    }
    answer.as_of = Some(context.as_of);
    if let Some(length) = context.silent.filter(|_| answer.state != "silent") {
        let (length, why) = (shown(length), context.why_silent());
        answer.more.push(format!("no line for {length} since, and no stop: {why}"));
        answer.next.extend(context.for_silence());
    }
    if let Some(host) = context.other_host().filter(|_| !answer.next.is_empty()) {
        answer.more.push(format!("the daemon runs on {host}: type there"));
    }
    answer
}

/// The log says nothing about this database.
fn unknown(report: &LogReport, timeline: &DatabaseTimeline) -> LogAnswer {
    let what = match timeline.last {
        _ if report.log.is_all_outside() => "No line in that time",
        Some(_) => "No cycle in this log",
        None => "No line of a daemon in this log",
    };
    let message = format!("{what}: it does not say whether anything syncs");
    LogAnswer { as_of: timeline.last, ..LogAnswer::new("unknown", None, message) }
}

/// The last line has a time that has not come yet.
fn of_the_future(last: LogTime, now: LogTime) -> LogAnswer {
    let ahead = shown(last.since(now));
    let message = format!(
        "The last line is of {last} UTC, {ahead} in the future: a clock or $TZ is wrong, and so the log does not say \
         whether anything syncs"
    );
    let date = NextCommand { command: "date -u".to_owned(), why: "what this machine's clock says" };
    LogAnswer { as_of: Some(now), next: vec![date], ..LogAnswer::new("unknown", None, message) }
}

impl LogAnswer {
    fn new(state: &'static str, syncing: Option<bool>, message: String) -> Self {
        Self { state, syncing, message, ..Self::default() }
    }
}

impl<'a> AnswerContext<'a> {
    fn new(report: &'a LogReport, timeline: &'a DatabaseTimeline, last: LogTime) -> Self {
        let tail = report.end.since(last);
        let in_cycle = if timeline.in_cycle().is_some() { CYCLE } else { Duration::ZERO };
        let has_stopped = matches!(timeline.state, SyncState::Stopped(_));
        let silent = (tail > timeline.rhythm.limit().max(in_cycle) && !has_stopped).then_some(tail);
        let as_of = if silent.is_some() { last } else { report.end.max(last) };
        Self { report, timeline, agent: report.log.agents.latest(), last, as_of, silent }
    }

    /// The time from `at` to the end of the report.
    fn ago(&self, at: LogTime) -> String {
        shown(self.report.end.since(at))
    }

    /// `Not syncing since … UTC (…): BECAUSE`
    fn not_syncing(&self, state: &'static str, because: &str) -> LogAnswer {
        let unseen = SyncOutage { since: self.last, is_first: true };
        let SyncOutage { since, is_first } = self.timeline.outages.current.unwrap_or(unseen);
        let duration = self.as_of.since(since);
        let or_earlier = if is_first { " or earlier" } else { "" };
        let as_of = if self.silent.is_some() { " by the end of the log" } else { "" };
        let message = match self.report.log.has_no_times() {
            false => {
                format!("Not syncing since {since} UTC{or_earlier} ({}{as_of}): {because}", shown(duration))
            }
            true => format!("Not syncing: {because}"),
        };
        LogAnswer {
            since: Some(since),
            is_first,
            duration: Some(duration),
            more: self.last_complete(),
            ..LogAnswer::new(state, Some(false), message)
        }
    }

    fn last_complete(&self) -> Vec<String> {
        vec![match self.timeline.last_complete {
            Some(at) => format!("last complete cycle: {at} ({} ago)", self.ago(at)),
            None => "no complete cycle in this log".to_owned(),
        }]
    }

    fn skipping(&self) -> LogAnswer {
        let Some(streak) = &self.timeline.streak else {
            return self.not_syncing("busy", "a cycle was skipped");
        };
        let skips = plural(streak.skips, "cycle");
        let (state, because, next) = match &streak.cause {
            SkipCause::Held(name) => {
                let process = process(streak.lock.pid, streak.lock.host.as_deref());
                ("held", format!("held by {}{process}", escaped(name)), self.for_held(name, streak))
            }
            SkipCause::Unreadable(why) => {
                ("unreadable", "the lock cannot be checked".to_owned(), self.for_unreadable(why))
            }
            SkipCause::Busy => ("busy", "another cycle or a claim has the gate".to_owned(), self.for_busy()),
        };
        let mut answer = self.not_syncing(state, &format!("{because}, {skips} skipped"));
        answer.more.splice(0..0, self.more_about(streak));
        LogAnswer { next, ..answer }
    }

    fn more_about(&self, streak: &SkipStreak) -> Vec<String> {
        let reason = streak.lock.reason.as_deref().map(explained);
        let claimed = streak.lock.since.as_deref().map(escaped);
        let is_later = self.timeline.outages.current.is_some_and(|outage| outage.since < streak.since);
        let before =
            is_later.then(|| format!("this has gone on since {}; before it there was something else", streak.since));
        let detail = match &streak.cause {
            SkipCause::Unreadable(why) => Some(escaped(why).to_string()),
            _ => None,
        };
        let claimed = claimed.map(|since| format!("the lock says: claimed {since}"));
        [reason, claimed, before, detail].into_iter().flatten().collect()
    }

    fn failing(&self, why: &str, in_a_row: u64) -> LogAnswer {
        let because = match in_a_row {
            1 => format!("the last cycle failed: {}", escaped(why)),
            many => format!("the last {many} cycles failed: {}", escaped(why)),
        };
        LogAnswer { next: self.for_failing(), ..self.not_syncing("failing", &because) }
    }

    fn stopped(&self, at: LogTime) -> LogAnswer {
        let signal = self.agent.and_then(|run| run.signal.as_deref());
        let by = signal.map(|signal| format!(" by {}", escaped(signal))).unwrap_or_default();
        let is_later = self.timeline.outages.current.is_some_and(|outage| outage.since != at);
        let when = if is_later { format!(" at {at}") } else { String::new() };
        let because = format!("the daemon{} was stopped{when}{by}", self.daemon());
        LogAnswer { next: vec![self.start("starts it again")], ..self.not_syncing("stopped", &because) }
    }

    fn started(&self, at: LogTime) -> LogAnswer {
        let daemon = self.daemon();
        if self.timeline.outages.current.is_some() {
            return self.not_syncing("started", &format!("the daemon{daemon} started at {at}, no cycle since"));
        }
        let message = format!("The daemon{daemon} started at {at} UTC; no cycle since");
        LogAnswer::new("started", None, message)
    }

    fn in_cycle(&self) -> LogAnswer {
        let at = self.timeline.in_cycle().unwrap_or(self.last);
        let length = self.ago(at);
        if self.silent.is_some() {
            let message = format!("A cycle began at {at} UTC and has not ended ({length})");
            return LogAnswer {
                since: Some(at),
                duration: Some(self.report.end.since(at)),
                ..LogAnswer::new("in_cycle", None, message)
            };
        }
        let outage = self.timeline.outages.current;
        let first = outage.map(|outage| format!(", the first since {}", outage.since)).unwrap_or_default();
        self.syncing("in_cycle", format!("a cycle runs since {at} UTC ({length}){first}"))
    }

    fn complete(&self, at: LogTime) -> LogAnswer {
        if self.silent.is_none() && self.report.log.has_no_times() {
            let message = "Syncing by the last line: a cycle was complete".to_owned();
            return LogAnswer::new("syncing", Some(true), message);
        }
        let ago = self.ago(at);
        self.syncing("syncing", format!("the last cycle was complete at {at} UTC ({ago} ago)"))
    }

    fn resumed(&self, at: LogTime) -> LogAnswer {
        let ago = self.ago(at);
        let because = format!("the cycles run again since {at} UTC ({ago} ago), and none is complete yet");
        self.syncing("resumed", because)
    }

    /// `Syncing: BECAUSE`, unless the log went silent.
    fn syncing(&self, state: &'static str, because: String) -> LogAnswer {
        let Some(silent) = self.silent else {
            return LogAnswer::new(state, Some(true), format!("Syncing: {because}"));
        };
        let (length, why) = (shown(silent), self.why_silent());
        let message = format!("Silent since {} UTC ({length}): {why}", self.last);
        LogAnswer {
            since: Some(self.last),
            duration: self.silent,
            next: self.for_silence(),
            more: self.last_complete(),
            ..LogAnswer::new("silent", None, message)
        }
    }

    fn why_silent(&self) -> String {
        format!("the daemon{} was killed, hangs, or logs elsewhere", self.daemon())
    }

    fn daemon(&self) -> String {
        self.agent.map(|run| process(run.id.pid, run.id.host.as_deref())).unwrap_or_default()
    }

    /// The host of the daemon, when it is not this one.
    fn other_host(&self) -> Option<String> {
        let host = self.agent?.id.host.as_deref()?;
        let ours = self.report.host.as_deref()?;
        (!host.eq_ignore_ascii_case(ours)).then(|| escaped(host).to_string())
    }
}

/// ` (PID 77 on ci-3)`
fn process(pid: Option<i64>, host: Option<&str>) -> String {
    match (pid, host) {
        (Some(pid), Some(host)) => format!(" (PID {pid} on {})", escaped(host)),
        (Some(pid), None) => format!(" (PID {pid})"),
        _ => String::new(),
    }
}

/// `1 cycle`, `2 cycles`.
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[cfg(test)]
mod tests;
