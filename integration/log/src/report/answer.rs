//! The answer: whether a database syncs, since when it does not, why, and what to type. Pure.
//!
//! What the agent itself reports comes first, unless it has stopped, fell silent, or a later line says otherwise.
//! Without such a report the answer follows from the cycles.

use std::time::Duration;

use super::advice::explained;
use super::{LogAnswer, LogReport, STATES, Statement, SuggestedCommand};
use crate::here::LockHere;
use crate::parse::event::skipped;
use crate::parse::reason::summary;
use crate::parse::{line::LockDetails, time::LogTime};
use crate::timeline::agents::{AgentEnd, AgentRun};
use crate::timeline::database::DatabaseTimeline;
use crate::timeline::state::{ReportedState, SyncState};
use crate::timeline::streak::{SkipCause, SkipStreak, SyncOutage};
use beadlock_base::duration::shown;
use beadlock_base::escape::escaped;
use beadlock_base::words::counted;
use beadlock_core::agent_process::{AgentProcess, ProcessState};
use beadlock_core::log_line::Event as Line;

/// A cycle may run so long without a line: the default timeout and its grace period.
const CYCLE: Duration = Duration::from_secs(130);

/// A usual difference between two clocks.
const CLOCKS: Duration = Duration::from_secs(60);

/// After this time without a line a daemon that looks only at changes may have been killed.
const QUIET: Duration = Duration::from_secs(300);

/// Facts that an answer follows from.
pub struct AnswerContext<'a> {
    pub report: &'a LogReport,
    pub timeline: &'a DatabaseTimeline,
    /// The lock that is there now.
    pub lock: Option<&'a LockHere>,
    /// The daemon that wrote last.
    pub agent: Option<&'a AgentRun>,
    reported: Option<&'a ReportedState>,
    last: LogTime,
    as_of: LogTime,
    silent: Option<Duration>,
}

pub fn answer(
    report: &LogReport,
    timeline: &DatabaseTimeline,
    lock: Option<&LockHere>,
) -> LogAnswer {
    let is_blank = timeline.is_blank() && timeline.state == SyncState::Unknown;
    let Some(last) = timeline.last.filter(|_| !is_blank) else {
        return unknown(report, timeline);
    };
    if report.log.window.until.is_none() && last.since(report.end) > CLOCKS {
        return of_the_future(last, report.end);
    }
    let context = AnswerContext::new(report, timeline, lock, last);
    let mut answer = context.of_state();
    let of_silence = context
        .silent
        .filter(|_| context.reported.is_some() && !matches!(answer.state, "silent" | "in_cycle"));
    let later = context
        .of_process()
        .or_else(|| of_silence.map(|silent| context.fell_silent(silent)));
    if let Some(later) = later {
        let before = [format!("before that: {}", answer.message)]
            .into_iter()
            .chain(answer.more);
        answer = LogAnswer {
            more: before.collect(),
            ..later
        };
    }
    answer.silent = context.silent;
    if report.log.has_no_times() {
        (answer.since, answer.duration, answer.as_of) = (None, None, None);
        answer.more =
            vec!["no line says when: what is shown as times is the moment of reading".to_owned()];
        return answer;
    }
    answer.as_of = Some(context.as_of);
    let is_said = matches!(answer.state, "silent" | "gone" | "halted");
    if let Some(length) = context.silent.filter(|_| !is_said) {
        let (length, why) = (shown(length), context.why_silent());
        answer
            .more
            .push(format!("no line for {length} since, and no stop: {why}"));
        answer.next.extend(context.for_silence());
    }
    context.add_others(&mut answer);
    answer
}

fn unknown(report: &LogReport, timeline: &DatabaseTimeline) -> LogAnswer {
    let what = match timeline.last {
        _ if report.log.is_all_outside() => "No line in that time",
        Some(_) => "No cycle in this log",
        None => "No line of a daemon in this log",
    };
    let statement = Statement::plain(what, Some("it does not say whether anything syncs"));
    LogAnswer {
        as_of: timeline.last,
        ..LogAnswer::new("unknown", None, statement)
    }
}

/// The last line has a time that has not come yet.
fn of_the_future(last: LogTime, now: LogTime) -> LogAnswer {
    let ahead = shown(last.since(now));
    let statement = Statement::plain(
        format!("The last line is of {last} UTC, {ahead} in the future"),
        Some("a clock or $TZ is wrong, and so the log does not say whether anything syncs"),
    );
    let date = SuggestedCommand {
        command: "date -u".to_owned(),
        why: "what this machine's clock says".into(),
    };
    LogAnswer {
        as_of: Some(now),
        next: vec![date],
        ..LogAnswer::new("unknown", None, statement)
    }
}

impl<'a> AnswerContext<'a> {
    fn new(
        report: &'a LogReport,
        timeline: &'a DatabaseTimeline,
        lock: Option<&'a LockHere>,
        last: LogTime,
    ) -> Self {
        let tail = report.end.since(last);
        let in_cycle = if timeline.in_cycle().is_some() {
            CYCLE
        } else {
            Duration::ZERO
        };
        let is_silent = match timeline.state {
            SyncState::Stopped(_) => false,
            // No line means that nothing has changed, and so that nothing was synced.
            SyncState::Skipping | SyncState::Failing { .. } if timeline.is_event_driven() => false,
            _ if timeline.is_event_driven() => tail > QUIET.max(in_cycle),
            _ => tail > timeline.rhythm.limit().max(in_cycle),
        };
        let as_of = if is_silent {
            last
        } else {
            report.end.max(last)
        };
        let reported = timeline.reported();
        Self {
            report,
            timeline,
            lock,
            agent: report.log.agents.latest(),
            reported,
            last,
            as_of,
            silent: is_silent.then_some(tail),
        }
    }

    /// The answer when the process of the daemon is gone or stands still, whatever it has logged last; else `None`.
    fn of_process(&self) -> Option<LogAnswer> {
        let run = self.agent.filter(|run| run.end != AgentEnd::Stopped)?;
        let (state, what, next) = match run.process {
            ProcessState::Gone => (
                "gone",
                "is gone: it was killed, or crashed",
                self.start("starts it again"),
            ),
            ProcessState::Stopped => (
                "halted",
                "stands still: it was stopped by a signal (state T)",
                self.go_on(run.id.pid?),
            ),
            ProcessState::Runs | ProcessState::Unknown => return None,
        };
        let (since, length) = (self.last, self.report.end.since(self.last));
        let (daemon, ago) = (self.daemon(), shown(length));
        let statement = Statement::of(
            "Not syncing",
            format!(" since {since} UTC ({ago})"),
            format!("the daemon{daemon} {what}"),
        );
        Some(LogAnswer {
            since: Some(since),
            duration: Some(length),
            next: vec![next],
            ..LogAnswer::new(state, Some(false), statement)
        })
    }

    fn of_state(&self) -> LogAnswer {
        let in_cycle = self
            .timeline
            .in_cycle()
            .filter(|_| self.silent.is_some() || self.reported.is_none_or(ReportedState::is_well));
        let state = &self.timeline.state;
        if let Some(at) =
            in_cycle.filter(|_| self.reported.is_some() || *state != SyncState::Skipping)
        {
            return self.in_cycle(at);
        }
        match (self.reported, state) {
            (_, SyncState::Stopped(at)) => self.stopped(*at),
            (None, SyncState::Skipping) => self.skipping(),
            (Some(reported), _) if reported.state == Line::StateSkipped => self.skipping(),
            (Some(reported), _) if reported.state == Line::StateStarting => LogAnswer {
                since: Some(reported.since),
                ..LogAnswer::new(
                    "started",
                    None,
                    self.headline("Starting", reported.since, None),
                )
            },
            (Some(reported), _) if !reported.is_well() => self.reports(reported),
            (_, SyncState::Complete(_))
                if self.silent.is_none() && self.report.log.has_no_times() =>
            {
                LogAnswer::new(
                    "syncing",
                    Some(true),
                    Statement::of("Syncing", " by the last line", "a cycle was complete"),
                )
            }
            (_, SyncState::Complete(at)) => self.syncing(
                "syncing",
                format!(
                    "the last cycle was complete at {at} UTC ({} ago)",
                    self.ago(*at)
                ),
            ),
            (_, SyncState::Resumed(at)) => {
                let ago = self.ago(*at);
                let because = format!(
                    "the cycles run again since {at} UTC ({ago} ago), and none is complete yet"
                );
                self.syncing("resumed", because)
            }
            (Some(reported), _) => self.syncing(
                "syncing",
                format!("nothing is missing since {} UTC", reported.since),
            ),
            (None, SyncState::Failing { why, in_a_row }) => {
                let cycles = if *in_a_row == 1 {
                    "cycle".to_owned()
                } else {
                    format!("{in_a_row} cycles")
                };
                let because = format!("the last {cycles} failed: {}", escaped(why));
                LogAnswer {
                    next: self.for_failing(),
                    ..self.not_syncing("failing", &because)
                }
            }
            (None, SyncState::Incomplete(why)) => self.not_syncing(
                "incomplete",
                &format!("the last cycle was incomplete: {}", escaped(why)),
            ),
            (None, SyncState::Started(at)) => self.started(*at),
            (None, SyncState::Unknown) => unknown(self.report, self.timeline),
        }
    }

    /// Adds notes about other hosts, other daemons, and a daemon that looks only at changes.
    fn add_others(&self, answer: &mut LogAnswer) {
        if self.timeline.is_event_driven()
            && answer.syncing == Some(false)
            && answer.state != "stopped"
        {
            let more = "bd's daemon is in event mode: it looks again only at the next change, even if nothing is in \
                        the way any more";
            answer.more.push(more.to_owned());
        }
        let beside = self.report.log.agents.beside();
        if !beside.is_empty() {
            let daemons: Vec<String> = beside.iter().map(|run| named(run)).collect();
            answer.more.push(format!(
                "{} daemons write this log: {}",
                daemons.len(),
                daemons.join(", ")
            ));
            answer.next.extend(self.for_both(&beside));
        }
        let is_unknown = self.agent.is_some_and(|run| {
            run.process == ProcessState::Unknown
                && run.end == AgentEnd::Running
                && run.id.process.as_ref().is_some_and(AgentProcess::is_marked)
        });
        if is_unknown && self.report.log.window.until.is_none() {
            let daemon = self.daemon();
            answer.more.push(format!(
                "cannot tell from here whether the daemon{daemon} lives: it is of another machine, boot or container"
            ));
        }
        if let Some(host) = self.other_host().filter(|_| !answer.next.is_empty()) {
            answer
                .more
                .push(format!("the daemon runs on {host}: type there"));
        }
    }

    fn ago(&self, at: LogTime) -> String {
        shown(self.report.end.since(at))
    }

    /// `Not pushing since 15:55:57 (45m): BECAUSE`; with the date when that is not today.
    fn headline(&self, verdict: &'static str, since: LogTime, because: Option<&str>) -> Statement {
        let at = match since.is_same_day(self.report.end) {
            true => since.time_of_day(),
            false => since.to_string(),
        };
        Statement {
            verdict,
            rest: format!(" since {at} ({})", shown(self.as_of.since(since))),
            because: because.map(str::to_owned),
        }
    }

    /// `Not syncing since … UTC (…): BECAUSE`, in the words of the state where the agent reports one.
    fn not_syncing(&self, state: &'static str, because: &str) -> LogAnswer {
        let unseen = SyncOutage {
            since: self.last,
            is_first: true,
        };
        let mut outage = self.timeline.outages.current.unwrap_or(unseen);
        let statement = match self.reported {
            Some(ReportedState { since, .. }) => {
                outage = SyncOutage {
                    since: *since,
                    is_first: false,
                };
                let verdict = STATES
                    .iter()
                    .find(|(word, _)| *word == state)
                    .map_or("Not syncing", |(_, verdict)| verdict);
                self.headline(verdict, *since, Some(because))
            }
            None if self.report.log.has_no_times() => Statement::of("Not syncing", "", because),
            None => {
                let or_earlier = if outage.is_first { " or earlier" } else { "" };
                let as_of = if self.silent.is_some() {
                    " by the end of the log"
                } else {
                    ""
                };
                let (since, duration) = (outage.since, shown(self.as_of.since(outage.since)));
                Statement::of(
                    "Not syncing",
                    format!(" since {since} UTC{or_earlier} ({duration}{as_of})"),
                    because,
                )
            }
        };
        LogAnswer {
            since: Some(outage.since),
            is_first: outage.is_first,
            duration: Some(self.as_of.since(outage.since)),
            more: self.last_complete(),
            ..LogAnswer::new(state, Some(false), statement)
        }
    }

    fn last_complete(&self) -> Vec<String> {
        vec![match self.timeline.last_complete {
            Some(at) => format!("last complete cycle: {at} ({} ago)", self.ago(at)),
            None => "no complete cycle in this log".to_owned(),
        }]
    }

    /// The answer when the agent reports that nothing is served, that it fails, or that it does not push or pull.
    fn reports(&self, reported: &ReportedState) -> LogAnswer {
        let state = match reported.state {
            Line::StateNotServing => "not_serving",
            Line::StateLocalOnly => "local_only",
            Line::StateBehind => "behind",
            _ => "failing",
        };
        let why = escaped(
            reported
                .why
                .as_deref()
                .unwrap_or("the log does not say why"),
        )
        .to_string();
        let because = if state == "local_only" {
            summary(&why)
        } else {
            why.clone()
        };
        let mut answer = self.not_syncing(state, &because);
        if because != why {
            answer.more.insert(0, why);
        }
        answer.next = self.for_reported(reported);
        if answer.next.is_empty() && state == "failing" {
            answer.next = self.for_failing();
        }
        answer
    }

    fn skipping(&self) -> LogAnswer {
        let Some(streak) = self
            .timeline
            .streak
            .clone()
            .or_else(|| self.reported.and_then(of_report))
        else {
            return self.not_syncing("busy", "a cycle was skipped");
        };
        let (state, because, next) = match &streak.cause {
            SkipCause::Held(name) => {
                let process = process(streak.lock.pid, streak.lock.host.as_deref());
                (
                    "held",
                    format!("held by {}{process}", escaped(name)),
                    self.for_held(&streak),
                )
            }
            SkipCause::Unreadable(why) => (
                "unreadable",
                "the lock cannot be checked".to_owned(),
                self.for_unreadable(why.doubt),
            ),
            SkipCause::Busy => (
                "busy",
                "another cycle or a claim has the gate".to_owned(),
                self.for_busy(),
            ),
        };
        let skips = match (streak.skips, self.reported) {
            (0, _) => String::new(),
            (skips, None) => format!(", {} skipped", counted(skips, "cycle", "cycles")),
            (skips, Some(_)) => format!(", {}", counted(skips, "skip", "skips")),
        };
        let mut answer = self.not_syncing(state, &format!("{because}{skips}"));
        answer.more.splice(0..0, self.more_about(&streak));
        LogAnswer { next, ..answer }
    }

    fn more_about(&self, streak: &SkipStreak) -> Vec<String> {
        let here = self.lock_of(streak).map(|lock| lock.why.clone());
        let reason = here.or_else(|| streak.lock.reason.as_deref().map(explained));
        let claimed = streak
            .lock
            .since
            .as_deref()
            .map(|since| format!("the lock says: claimed {}", escaped(since)));
        let is_later = self.reported.is_none()
            && self
                .timeline
                .outages
                .current
                .is_some_and(|outage| outage.since < streak.since);
        let before = is_later.then(|| {
            format!(
                "this has gone on since {}; before it there was something else",
                streak.since
            )
        });
        let detail = match &streak.cause {
            SkipCause::Unreadable(why) => Some(escaped(&why.words).to_string()),
            _ => None,
        };
        [reason, claimed, before, detail]
            .into_iter()
            .flatten()
            .collect()
    }

    fn stopped(&self, at: LogTime) -> LogAnswer {
        let signal = self.agent.and_then(|run| run.signal.as_deref());
        let by = signal
            .map(|signal| format!(" by {}", escaped(signal)))
            .unwrap_or_default();
        let is_later = self
            .timeline
            .outages
            .current
            .is_some_and(|outage| outage.since != at);
        let when = if is_later {
            format!(" at {at}")
        } else {
            String::new()
        };
        let because = format!("the daemon{} was stopped{when}{by}", self.daemon());
        LogAnswer {
            next: vec![self.start("starts it again")],
            ..self.not_syncing("stopped", &because)
        }
    }

    fn started(&self, at: LogTime) -> LogAnswer {
        let daemon = self.daemon();
        if self.timeline.outages.current.is_some() {
            return self.not_syncing(
                "started",
                &format!("the daemon{daemon} started at {at}, no cycle since"),
            );
        }
        LogAnswer::new(
            "started",
            None,
            Statement::plain(
                format!("The daemon{daemon} started at {at} UTC; no cycle since"),
                None,
            ),
        )
    }

    fn in_cycle(&self, at: LogTime) -> LogAnswer {
        let length = self.ago(at);
        if self.silent.is_some() {
            let statement = Statement::plain(
                format!("A cycle began at {at} UTC and has not ended ({length})"),
                None,
            );
            return LogAnswer {
                since: Some(at),
                duration: Some(self.report.end.since(at)),
                ..LogAnswer::new("in_cycle", None, statement)
            };
        }
        let outage = self.timeline.outages.current;
        let first = outage
            .map(|outage| format!(", the first since {}", outage.since))
            .unwrap_or_default();
        self.syncing(
            "in_cycle",
            format!("a cycle runs since {at} UTC ({length}){first}"),
        )
    }

    /// `Syncing: BECAUSE`, unless the log went silent.
    fn syncing(&self, state: &'static str, because: String) -> LogAnswer {
        match self.silent {
            Some(silent) => self.fell_silent(silent),
            None => LogAnswer::new(state, Some(true), Statement::of("Syncing", "", because)),
        }
    }

    fn fell_silent(&self, silent: Duration) -> LogAnswer {
        let statement = Statement::of(
            "Silent",
            format!(" since {} UTC ({})", self.last, shown(silent)),
            self.why_silent(),
        );
        LogAnswer {
            since: Some(self.last),
            duration: Some(silent),
            next: self.for_silence(),
            more: self.last_complete(),
            ..LogAnswer::new("silent", None, statement)
        }
    }

    fn why_silent(&self) -> String {
        if self.timeline.is_event_driven() {
            let why = "bd's daemon writes only when something changes (event mode), so either nothing has, or it was \
                       killed";
            return why.to_owned();
        }
        let what = match self.agent.map(|run| run.process) {
            Some(ProcessState::Runs) => "lives, and hangs or logs elsewhere",
            _ => "was killed, hangs, or logs elsewhere",
        };
        format!("the daemon{} {what}", self.daemon())
    }

    fn daemon(&self) -> String {
        self.agent
            .map(|run| process(run.id.pid, run.id.host.as_deref()))
            .unwrap_or_default()
    }

    /// The host of the daemon, when it is not this one.
    fn other_host(&self) -> Option<String> {
        let host = self.agent?.id.host.as_deref()?;
        let ours = self.report.host.as_deref()?;
        (!host.eq_ignore_ascii_case(ours)).then(|| escaped(host).to_string())
    }
}

/// The streak that a reported state is about, where the log has lost its skips.
fn of_report(reported: &ReportedState) -> Option<SkipStreak> {
    let why = format!("{})", reported.why.as_deref()?);
    let cause = SkipCause::of(&skipped(&why)?)?;
    Some(SkipStreak {
        cause,
        since: reported.since,
        skips: 0,
        lock: LockDetails::default(),
    })
}

/// `bd daemon since …`, `beadlock-agent 0.1.0 (PID 7 on ci-3) since …`
fn named(run: &AgentRun) -> String {
    let (id, process) = (&run.id, process(run.id.pid, run.id.host.as_deref()));
    let database = id
        .database
        .as_deref()
        .map(|path| format!(" of {}", escaped(path)))
        .unwrap_or_default();
    let since = run
        .started
        .map(|at| format!(" since {at}"))
        .unwrap_or_default();
    format!("{}{process}{database}{since}", escaped(&id.program))
}

/// ` (PID 77 on ci-3)`
fn process(pid: Option<i64>, host: Option<&str>) -> String {
    match (pid, host) {
        (Some(pid), Some(host)) => format!(" (PID {pid} on {})", escaped(host)),
        (Some(pid), None) => format!(" (PID {pid})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
