//! The answer: does it sync now, since when not, because of what, and what to type. Pure.

use std::path::PathBuf;
use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;

use super::advice::{Advice, Next, meaning};
use super::agents::Agents;
use super::downtime::Down;
use super::line::Writer;
use super::spell::{Cause, Spell};
use super::story::{State, Story};
use super::time::At;
use crate::words::Part;

/// A cycle may take so long without a line: the default time-out and its grace.
const CYCLE: Duration = Duration::from_secs(130);

/// So far apart two clocks may be without anybody's fault.
const CLOCKS: Duration = Duration::from_secs(60);

/// What is known from outside of the log.
#[derive(Debug, Clone)]
pub struct Around {
    /// The wall clock, or what `--until` says.
    pub end: At,
    /// What `--until` says.
    pub until: Option<At>,
    /// The log has lines, and none in the time that is asked for.
    pub all_outside: bool,
    /// The words that name the database in a command; `None`: not known.
    pub target: Option<Part<'static>>,
    /// The log; `None`: standard input.
    pub file: Option<PathBuf>,
    /// This machine's host name.
    pub host: Option<String>,
    pub writer: Option<Writer>,
    /// No line says when.
    pub no_times: bool,
}

/// What the log amounts to at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `syncing`, `held`, `unreadable`, `busy`, `failing`, `stopped`, `started`, `resumed`, `in_cycle`, `silent` or
    /// `unknown`.
    pub state: &'static str,
    /// `None`: the log cannot say.
    pub syncing: Option<bool>,
    /// Since when it does not sync, or is silent.
    pub since: Option<At>,
    /// The log begins there: it may have been earlier.
    pub is_first: bool,
    /// How long that is, up to [`Answer::as_of`].
    pub duration: Option<Duration>,
    /// The log speaks for the time up to here.
    pub as_of: Option<At>,
    /// One sentence.
    pub message: String,
    /// More of it, a line each.
    pub more: Vec<String>,
    pub next: Vec<Next>,
    /// For how long nothing was written, where that is too long.
    pub silent: Option<Duration>,
}

impl Answer {
    /// With nothing but its sentence.
    fn new(state: &'static str, syncing: Option<bool>, message: String) -> Self {
        Self {
            state,
            syncing,
            since: None,
            is_first: false,
            duration: None,
            as_of: None,
            message,
            more: Vec::new(),
            next: Vec::new(),
            silent: None,
        }
    }
}

/// Of one database.
pub fn answer(story: &Story, agents: &Agents, around: &Around) -> Answer {
    let Some(last) = story.last.filter(|_| !story.is_blank() || story.state != State::Unknown) else {
        return unknown(nothing_heard(story, around), story.last);
    };
    if around.until.is_none() && last.since(around.end) > CLOCKS {
        return of_the_future(last, around.end);
    }
    let told = Told::new(story, agents, around, last);
    let mut answer = match &story.state {
        State::Stopped(at) => told.stopped(*at),
        State::Skipping => told.skipping(),
        _ if story.in_cycle().is_some() => told.in_cycle(),
        State::Failing { why, in_a_row } => told.failing(why, *in_a_row),
        State::Complete(at) => told.syncing(*at),
        State::Started(at) => told.started(*at),
        State::Resumed(at) => told.resumed(*at),
        State::Unknown => unknown(nothing_heard(story, around), story.last),
    };
    answer.as_of = Some(told.as_of);
    answer.silent = told.silent;
    if around.no_times {
        (answer.since, answer.duration, answer.as_of) = (None, None, None);
        answer.more = vec!["no line says when: what is shown as times is the moment of reading".to_owned()];
        return answer;
    }
    if told.silent.is_some() && answer.state != "silent" {
        let length = shown(told.silent.unwrap_or_default());
        answer.more.push(format!("no line for {length} since, and no stop: {}", told.why_silent()));
        answer.next.extend(told.advice.for_silence());
    }
    if let Some(host) = told.elsewhere()
        && !answer.next.is_empty()
    {
        answer.more.push(format!("the daemon runs on {host}: type there"));
    }
    answer
}

fn nothing_heard(story: &Story, around: &Around) -> String {
    let what = match story.last {
        _ if around.all_outside => "No line in that time",
        Some(_) => "No cycle in this log",
        None => "No line of a daemon in this log",
    };
    format!("{what}: it does not say whether anything syncs")
}

/// What the last line says has not happened yet.
fn of_the_future(last: At, now: At) -> Answer {
    let ahead = shown(last.since(now));
    let message = format!(
        "The last line is of {last} UTC, {ahead} in the future: a clock or $TZ is wrong, and so the log does not say \
         whether anything syncs"
    );
    let date = Next { command: "date -u".to_owned(), why: "what this machine's clock says" };
    Answer { next: vec![date], ..unknown(message, Some(now)) }
}

fn unknown(message: String, as_of: Option<At>) -> Answer {
    Answer { as_of, ..Answer::new("unknown", None, message) }
}

struct Told<'a> {
    story: &'a Story,
    advice: Advice<'a>,
    last: At,
    as_of: At,
    silent: Option<Duration>,
}

impl<'a> Told<'a> {
    fn new(story: &'a Story, agents: &'a Agents, around: &'a Around, last: At) -> Self {
        let tail = around.end.since(last);
        let limit = story.rhythm.limit().max(if story.in_cycle().is_some() { CYCLE } else { Duration::ZERO });
        let has_stopped = matches!(story.state, State::Stopped(_));
        let silent = (tail > limit && !has_stopped).then_some(tail);
        let as_of = if silent.is_some() { last } else { around.end.max(last) };
        Self { story, advice: Advice { agent: agents.latest(), around }, last, as_of, silent }
    }

    /// `Not syncing since … UTC (…): BECAUSE`
    fn not_syncing(&self, state: &'static str, because: &str) -> Answer {
        let down = self.story.downtime.now().unwrap_or(Down { since: self.last, is_first: true });
        let duration = self.as_of.since(down.since);
        let or_earlier = if down.is_first { " or earlier" } else { "" };
        let as_of = if self.silent.is_some() { " by the end of the log" } else { "" };
        let (since, length) = (down.since, shown(duration));
        let message = match self.advice.around.no_times {
            false => format!("Not syncing since {since} UTC{or_earlier} ({length}{as_of}): {because}"),
            true => format!("Not syncing: {because}"),
        };
        Answer {
            since: Some(down.since),
            is_first: down.is_first,
            duration: Some(duration),
            more: self.last_complete(),
            ..Answer::new(state, Some(false), message)
        }
    }

    fn last_complete(&self) -> Vec<String> {
        match self.story.last_complete {
            Some(at) => {
                vec![format!("last complete cycle: {at} ({} ago)", shown(self.advice.around.end.since(at)))]
            }
            None => vec!["no complete cycle in this log".to_owned()],
        }
    }

    fn skipping(&self) -> Answer {
        let Some(spell) = &self.story.spell else {
            return self.not_syncing("busy", "a cycle was skipped");
        };
        let skips = plural(spell.skips, "cycle");
        let mut answer = match &spell.cause {
            Cause::Held(name) => {
                let because = format!("held by {}{}, {skips} skipped", escaped(name), who(spell));
                Answer { next: self.advice.for_held(name, spell), ..self.not_syncing("held", &because) }
            }
            Cause::Unreadable(why) => {
                let because = format!("the lock cannot be checked, {skips} skipped");
                let mut answer = self.not_syncing("unreadable", &because);
                answer.more.insert(0, escaped(why).to_string());
                Answer { next: self.advice.for_unreadable(why), ..answer }
            }
            Cause::Busy => {
                let because = format!("another cycle or a claim has the gate, {skips} skipped");
                Answer { next: self.advice.for_busy(), ..self.not_syncing("busy", &because) }
            }
        };
        if self.story.downtime.now().is_some_and(|down| down.since < spell.since) {
            answer.more.insert(
                0,
                format!("this has gone on since {}; before it there was something else", spell.since),
            );
        }
        let claimed =
            spell.extra.since.as_deref().map(|since| format!("the lock says: claimed {}", escaped(since)));
        let reason = spell.extra.reason.as_deref();
        let reason =
            reason.map(|reason| meaning(reason).map_or_else(|| escaped(reason).to_string(), str::to_owned));
        answer.more.splice(0..0, reason.into_iter().chain(claimed));
        answer
    }

    fn failing(&self, why: &str, in_a_row: u64) -> Answer {
        let because = match in_a_row {
            1 => format!("the last cycle failed: {}", escaped(why)),
            many => format!("the last {many} cycles failed: {}", escaped(why)),
        };
        Answer { next: self.advice.for_failing(), ..self.not_syncing("failing", &because) }
    }

    fn stopped(&self, at: At) -> Answer {
        let by = self
            .advice
            .agent
            .and_then(|run| run.signal.as_deref())
            .map(|signal| format!(" by {}", escaped(signal)));
        let by = by.unwrap_or_default();
        let when = match self.story.downtime.now() {
            Some(down) if down.since != at => format!(" at {at}"),
            _ => String::new(),
        };
        let because = format!("the daemon{} was stopped{when}{by}", self.daemon());
        Answer { next: vec![self.advice.start("starts it again")], ..self.not_syncing("stopped", &because) }
    }

    fn started(&self, at: At) -> Answer {
        match self.story.downtime.now() {
            Some(_) => self.not_syncing(
                "started",
                &format!("the daemon{} started at {at}, no cycle since", self.daemon()),
            ),
            None => {
                let message = format!("The daemon{} started at {at} UTC; no cycle since", self.daemon());
                Answer::new("started", None, message)
            }
        }
    }

    fn in_cycle(&self) -> Answer {
        let at = self.story.in_cycle().unwrap_or(self.last);
        let length = shown(self.advice.around.end.since(at));
        if self.silent.is_some() {
            let message = format!("A cycle began at {at} UTC and has not ended ({length})");
            return Answer {
                since: Some(at),
                duration: Some(self.advice.around.end.since(at)),
                ..Answer::new("in_cycle", None, message)
            };
        }
        let first = match self.story.downtime.now() {
            Some(down) => format!(", the first since {}", down.since),
            None => String::new(),
        };
        Answer::new("in_cycle", Some(true), format!("Syncing: a cycle runs since {at} UTC ({length}){first}"))
    }

    fn syncing(&self, at: At) -> Answer {
        let ago = shown(self.advice.around.end.since(at));
        match self.silent {
            None => Answer::new(
                "syncing",
                Some(true),
                match self.advice.around.no_times {
                    false => format!("Syncing: the last cycle was complete at {at} UTC ({ago} ago)"),
                    true => "Syncing by the last line: a cycle was complete".to_owned(),
                },
            ),
            Some(_) => self.went_silent(),
        }
    }

    fn resumed(&self, at: At) -> Answer {
        let ago = shown(self.advice.around.end.since(at));
        match self.silent {
            None => Answer::new(
                "resumed",
                Some(true),
                format!("Syncing: the cycles run again since {at} UTC ({ago} ago), and none is complete yet"),
            ),
            Some(_) => self.went_silent(),
        }
    }

    fn went_silent(&self) -> Answer {
        let (length, why) = (shown(self.silent.unwrap_or_default()), self.why_silent());
        let message = format!("Silent since {} UTC ({length}): {why}", self.last);
        Answer {
            since: Some(self.last),
            duration: self.silent,
            next: self.advice.for_silence(),
            more: self.last_complete(),
            ..Answer::new("silent", None, message)
        }
    }

    fn why_silent(&self) -> String {
        format!("the daemon{} was killed, hangs, or logs elsewhere", self.daemon())
    }

    /// ` (PID 77 on ci-3)`
    fn daemon(&self) -> String {
        let Some(run) = self.advice.agent else { return String::new() };
        match (run.pid, &run.host) {
            (Some(pid), Some(host)) => format!(" (PID {pid} on {})", escaped(host)),
            _ => String::new(),
        }
    }

    /// The host where the daemon runs, when it is another one.
    fn elsewhere(&self) -> Option<String> {
        let host = self.advice.agent?.host.as_deref()?;
        let ours = self.advice.around.host.as_deref()?;
        (!host.eq_ignore_ascii_case(ours)).then(|| escaped(host).to_string())
    }
}

/// ` (PID 77 on ci-3)`
fn who(spell: &Spell) -> String {
    match (spell.extra.pid, &spell.extra.host) {
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
