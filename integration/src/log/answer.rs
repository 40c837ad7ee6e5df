//! The answer: does it sync now, since when not, because of what, and what to type. Pure.

use std::ffi::OsStr;
use std::time::Duration;

use beadlock_checker::duration::shown;
use beadlock_checker::escape::{escaped, is_harmless};

use super::agents::{Agents, Run};
use super::line::Writer;
use super::story::{Cause, Down, Spell, State, Story};
use super::time::At;
use crate::words::quoted;

/// A cycle may take so long without a line: the default time-out and its grace.
const CYCLE: Duration = Duration::from_secs(130);

/// What is known from outside of the log.
#[derive(Debug, Clone)]
pub struct Around {
    /// The wall clock, or what `--until` says.
    pub end: At,
    /// The database as it is to be typed; `None`: not known.
    pub target: Option<String>,
    /// The log as it is to be typed; `None`: standard input.
    pub file: Option<String>,
    /// This machine's host name.
    pub host: Option<String>,
    pub writer: Option<Writer>,
}

/// A command to type, and what for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Next {
    pub command: String,
    pub why: &'static str,
}

/// What the log amounts to at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// `syncing`, `held`, `unreadable`, `busy`, `failing`, `stopped`, `started`, `in_cycle`, `silent` or `unknown`.
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

/// Of one database.
pub fn answer(story: &Story, agents: &Agents, around: &Around) -> Answer {
    let Some(last) = story.last.filter(|_| !story.is_blank() || story.state != State::Unknown) else {
        return unknown(story);
    };
    let told = Told::new(story, agents, around, last);
    let mut answer = match &story.state {
        State::Stopped(at) => told.stopped(*at),
        State::Skipping => told.skipping(),
        _ if story.in_cycle().is_some() => told.in_cycle(),
        State::Failing { why, in_a_row } => told.failing(why, *in_a_row),
        State::Complete(at) => told.syncing(*at),
        State::Started(at) => told.started(*at),
        State::Unknown => unknown(story),
    };
    answer.as_of = Some(told.as_of);
    answer.silent = told.silent;
    if told.silent.is_some() && answer.state != "silent" {
        answer.more.push(told.silence());
        answer.next.extend(told.next_for_silence());
    }
    if let Some(host) = told.elsewhere()
        && !answer.next.is_empty()
    {
        answer.more.push(format!("the daemon runs on {host}: type there"));
    }
    answer
}

fn unknown(story: &Story) -> Answer {
    let message = match story.last {
        Some(_) => "No cycle in this log: it does not say whether anything syncs",
        None => "Nothing in this log: it does not say whether anything syncs",
    };
    Answer {
        state: "unknown",
        syncing: None,
        since: None,
        is_first: false,
        duration: None,
        as_of: story.last,
        message: message.to_owned(),
        more: Vec::new(),
        next: Vec::new(),
        silent: None,
    }
}

struct Told<'a> {
    story: &'a Story,
    agent: Option<&'a Run>,
    around: &'a Around,
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
        Self { story, agent: agents.latest(), around, last, as_of, silent }
    }

    fn new_answer(&self, state: &'static str, syncing: Option<bool>, message: String) -> Answer {
        Answer {
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

    /// `Not syncing since … UTC (…): BECAUSE`
    fn not_syncing(&self, state: &'static str, because: &str) -> Answer {
        let down = self.story.down.unwrap_or(Down { since: self.last, is_first: true });
        let duration = self.as_of.since(down.since);
        let or_earlier = if down.is_first { " or earlier" } else { "" };
        let as_of = if self.silent.is_some() { " by the end of the log" } else { "" };
        let (since, length) = (down.since, shown(duration));
        let message = format!("Not syncing since {since} UTC{or_earlier} ({length}{as_of}): {because}");
        Answer {
            since: Some(down.since),
            is_first: down.is_first,
            duration: Some(duration),
            more: self.last_complete(),
            ..self.new_answer(state, Some(false), message)
        }
    }

    fn last_complete(&self) -> Vec<String> {
        match self.story.last_complete {
            Some(at) => vec![format!("last complete cycle: {at} ({} ago)", shown(self.around.end.since(at)))],
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
                Answer { next: self.next_for_held(name, spell), ..self.not_syncing("held", &because) }
            }
            Cause::Unreadable(why) => {
                let because = format!("the lock cannot be checked, {skips} skipped");
                let mut answer = self.not_syncing("unreadable", &because);
                answer.more.insert(0, escaped(why).to_string());
                Answer { next: self.next_for_unreadable(why), ..answer }
            }
            Cause::Busy => {
                let because = format!("another cycle or a claim has the gate, {skips} skipped");
                let next = vec![self.beadlock("status", "", "names who has the gate")];
                Answer { next, ..self.not_syncing("busy", &because) }
            }
        };
        if self.story.down.is_some_and(|down| down.since < spell.since) {
            answer.more.insert(
                0,
                format!("this has gone on since {}; before it there was something else", spell.since),
            );
        }
        let claimed = spell.extra.since.as_deref().map(|since| format!("the lock says: claimed {}", escaped(since)));
        let reason = spell.extra.reason.as_deref();
        let reason = reason.map(|reason| meaning(reason).map_or_else(|| escaped(reason).to_string(), str::to_owned));
        answer.more.splice(0..0, reason.into_iter().chain(claimed));
        answer
    }

    fn failing(&self, why: &str, in_a_row: u64) -> Answer {
        let because = match in_a_row {
            1 => format!("the last cycle failed: {}", escaped(why)),
            many => format!("the last {many} cycles failed: {}", escaped(why)),
        };
        let next = self
            .around
            .file
            .iter()
            .map(|file| Next { command: format!("tail -n 50 {file}"), why: "what the cycles' command says" });
        Answer { next: next.collect(), ..self.not_syncing("failing", &because) }
    }

    fn stopped(&self, at: At) -> Answer {
        let by =
            self.agent.and_then(|run| run.signal.as_deref()).map(|signal| format!(" by {}", escaped(signal)));
        let by = by.unwrap_or_default();
        let when = match self.story.down {
            Some(down) if down.since != at => format!(" at {at}"),
            _ => String::new(),
        };
        let because = format!("the daemon{} was stopped{when}{by}", self.daemon());
        Answer { next: vec![self.start("starts it again")], ..self.not_syncing("stopped", &because) }
    }

    fn started(&self, at: At) -> Answer {
        match self.story.down {
            Some(_) => self.not_syncing(
                "started",
                &format!("the daemon{} started at {at}, no cycle since", self.daemon()),
            ),
            None => {
                let message = format!("The daemon{} started at {at} UTC; no cycle since", self.daemon());
                self.new_answer("started", None, message)
            }
        }
    }

    fn in_cycle(&self) -> Answer {
        let at = self.story.in_cycle().unwrap_or(self.last);
        let length = shown(self.around.end.since(at));
        if self.silent.is_some() {
            let message = format!("A cycle began at {at} UTC and has not ended ({length})");
            return Answer {
                since: Some(at),
                duration: Some(self.around.end.since(at)),
                ..self.new_answer("in_cycle", None, message)
            };
        }
        let first = match self.story.down {
            Some(down) => format!(", the first since {}", down.since),
            None => String::new(),
        };
        self.new_answer(
            "in_cycle",
            Some(true),
            format!("Syncing: a cycle runs since {at} UTC ({length}){first}"),
        )
    }

    fn syncing(&self, at: At) -> Answer {
        let ago = shown(self.around.end.since(at));
        if self.silent.is_none() {
            return self.new_answer(
                "syncing",
                Some(true),
                format!("Syncing: the last cycle was complete at {at} UTC ({ago} ago)"),
            );
        }
        let message = format!("Silent since {} UTC: {}", self.last, self.silence());
        Answer {
            since: Some(self.last),
            duration: self.silent,
            next: self.next_for_silence(),
            more: self.last_complete(),
            ..self.new_answer("silent", None, message)
        }
    }

    /// `no line for 2h, and no stop is said: …`
    fn silence(&self) -> String {
        let length = shown(self.silent.unwrap_or_default());
        format!(
            "no line for {length}, and no stop is said: the daemon{} was killed, hangs, or logs elsewhere",
            self.daemon()
        )
    }

    /// ` (PID 77 on ci-3)`
    fn daemon(&self) -> String {
        let Some(run) = self.agent else { return String::new() };
        match (run.pid, &run.host) {
            (Some(pid), Some(host)) => format!(" (PID {pid} on {})", escaped(host)),
            _ => String::new(),
        }
    }

    /// The host where the daemon runs, when it is another one.
    fn elsewhere(&self) -> Option<String> {
        let host = self.agent?.host.as_deref()?;
        let ours = self.around.host.as_deref()?;
        (!host.eq_ignore_ascii_case(ours)).then(|| escaped(host).to_string())
    }

    fn beadlock(&self, command: &str, options: &str, why: &'static str) -> Next {
        let target = self.target();
        let words = ["beadlock", command, target, options].into_iter().filter(|word| !word.is_empty());
        Next { command: words.collect::<Vec<_>>().join(" "), why }
    }

    fn target(&self) -> &str {
        self.around.target.as_deref().unwrap_or_default()
    }

    fn start(&self, why: &'static str) -> Next {
        let command = match (self.around.writer, self.target()) {
            (Some(Writer::Original), _) => "bd daemon start".to_owned(),
            (_, "") => "beadlock-agent".to_owned(),
            (_, target) => format!("beadlock-agent --db {target}"),
        };
        Next { command, why }
    }

    fn next_for_silence(&self) -> Vec<Next> {
        let pid = self.agent.and_then(|run| run.pid);
        let look = pid.map(|pid| Next { command: format!("ps -fp {pid}"), why: "whether the daemon lives" });
        look.into_iter().chain([self.start("when it does not")]).collect()
    }

    fn next_for_held(&self, name: &str, spell: &Spell) -> Vec<Next> {
        let mut next =
            vec![self.beadlock("status", "", "whether the lock is still there, and its holder alive")];
        if let (Some(pid), Some(host)) = (spell.extra.pid, &spell.extra.host) {
            let daemons = self.agent.and_then(|run| run.host.as_deref()).or(self.around.host.as_deref());
            let is_local = daemons.is_some_and(|daemons| daemons.eq_ignore_ascii_case(host));
            next.push(match is_local {
                true => Next { command: format!("ps -fp {pid}"), why: "what it is doing" },
                false => {
                    let host = quoted(OsStr::new(host));
                    Next {
                        command: format!("ssh -- {host} ps -fp {pid}"),
                        why: "whether it lives: nobody else can tell",
                    }
                }
            });
        }
        // What the log has escaped or cut is not the name that is in the lock file.
        let is_itself = name.chars().all(|c| is_harmless(c) && c != '\\') && !name.ends_with('…');
        let options = match (is_itself, name.starts_with('-')) {
            (true, false) => format!("--holder {}", quoted(OsStr::new(name))),
            (true, true) => format!("--holder={}", quoted(OsStr::new(name))),
            (false, _) => "--id ID".to_owned(),
        };
        let why = if is_itself {
            "once you know that it is gone"
        } else {
            "with the id that status shows, once it is gone"
        };
        next.push(self.beadlock("break", &options, why));
        next
    }

    fn next_for_unreadable(&self, why: &str) -> Vec<Next> {
        if why.starts_with("failed to remove stale lock") {
            return vec![self.beadlock("check", "--explain", "tries again, and says what stops it")];
        }
        vec![
            self.beadlock("status", "", "what is wrong with it"),
            self.beadlock("break", "--malformed", "when nobody needs it; keeps a copy"),
        ]
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

/// What a reason of the closed list means for whoever waits.
fn meaning(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "pid_alive" => "pid_alive: its process lives; the lock goes when it ends",
        "pid_not_permitted" => {
            "pid_not_permitted: its process lives and is another user's; the lock goes when it ends"
        }
        "pid_unknown" => {
            "pid_unknown: the system could not say whether its process lives, so it counts as alive"
        }
        "other_host" => {
            "other_host: only that host can tell whether it lives; no daemon here ever removes it"
        }
        "host_unknown" => "host_unknown: this machine has no host name, so no lock is ever removed",
        "other_machine" => "other_machine: another machine of the same name; no daemon here ever removes it",
        "other_pid_namespace" => {
            "other_pid_namespace: its PID is one of another container; no daemon here ever removes it"
        }
        _ => return None,
    })
}

/// `1 cycle`, `2 cycles`.
pub fn plural(count: u64, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
