//! The answer: does it sync now, since when not, because of what, and what to type. Pure.

use std::time::Duration;

use beadlock_checker::duration::shown;
use beadlock_checker::escape::escaped;

use super::advice::{Advice, Next, meaning};
use super::agents::Agents;
use super::line::Writer;
use super::spell::{Cause, Spell};
use super::story::{Down, State, Story};
use super::time::At;

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
    /// The database as it is to be typed; `None`: not known.
    pub target: Option<String>,
    /// The log as it is to be typed; `None`: standard input.
    pub file: Option<String>,
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
    Answer {
        state: "unknown",
        syncing: None,
        since: None,
        is_first: false,
        duration: None,
        as_of,
        message,
        more: Vec::new(),
        next: Vec::new(),
        silent: None,
    }
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
        let message = match self.advice.around.no_times {
            false => format!("Not syncing since {since} UTC{or_earlier} ({length}{as_of}): {because}"),
            true => format!("Not syncing: {because}"),
        };
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
        if self.story.down.is_some_and(|down| down.since < spell.since) {
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
        let when = match self.story.down {
            Some(down) if down.since != at => format!(" at {at}"),
            _ => String::new(),
        };
        let because = format!("the daemon{} was stopped{when}{by}", self.daemon());
        Answer { next: vec![self.advice.start("starts it again")], ..self.not_syncing("stopped", &because) }
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
        let length = shown(self.advice.around.end.since(at));
        if self.silent.is_some() {
            let message = format!("A cycle began at {at} UTC and has not ended ({length})");
            return Answer {
                since: Some(at),
                duration: Some(self.advice.around.end.since(at)),
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
        let ago = shown(self.advice.around.end.since(at));
        match self.silent {
            None => self.new_answer(
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
            None => self.new_answer(
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
            ..self.new_answer("silent", None, message)
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
mod tests {
    use super::super::stream::{Stream, Window};
    use super::*;
    use beadlock_checker::escape::is_harmless;

    const START: &str = "[2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 7, host ci-3";
    const CYCLES: [&str; 4] = [
        "[2026-02-01 10:00:00] Starting sync cycle...",
        "[2026-02-01 10:00:01] Sync cycle complete",
        "[2026-02-01 10:00:05] Starting sync cycle...",
        "[2026-02-01 10:00:06] Sync cycle complete",
    ];

    fn answer_to(lines: &[&str], end: &str) -> Answer {
        let mut stream = Stream::new(Window::default(), At(0));
        stream.begin(lines.join("\n").as_bytes());
        for line in lines {
            stream.hear(line.as_bytes(), false);
        }
        let end = At::parse(&format!("2026-02-01T{end}Z")).unwrap();
        let story = stream.finish(end).remove(0);
        let around = Around {
            end,
            until: None,
            all_outside: false,
            target: Some(".beads".to_owned()),
            file: Some(".beads/daemon.log".to_owned()),
            host: Some("CI-3".to_owned()),
            writer: stream.writer,
            no_times: stream.has_no_times(),
        };
        answer(&story, &stream.agents, &around)
    }

    fn after_cycles(lines: &[&str], end: &str) -> Answer {
        answer_to(&[&[START], &CYCLES[..], lines].concat(), end)
    }

    fn commands(answer: &Answer) -> Vec<&str> {
        answer.next.iter().map(|next| next.command.as_str()).collect()
    }

    #[test]
    fn it_syncs() {
        let answer = after_cycles(&[], "10:00:08");
        assert_eq!(
            answer.message,
            "Syncing: the last cycle was complete at 2026-02-01 10:00:06 UTC (2s ago)"
        );
        assert_eq!((answer.state, answer.syncing, commands(&answer)), ("syncing", Some(true), vec![]));
        let answer = after_cycles(&["[2026-02-01 10:00:10] Starting sync cycle..."], "10:02:00");
        assert_eq!(answer.message, "Syncing: a cycle runs since 2026-02-01 10:00:10 UTC (1m 50s)");
    }

    #[test]
    fn it_is_held() {
        let lines = [
            "[2026-02-01 10:00:10] Skipping database (locked by make)",
            "[2026-02-01 10:00:10] Held since 2026-02-01T10:00:07Z by PID 77 on ci-3 (pid_alive)",
            "[2026-02-01 10:00:15] Skipping database (locked by make)",
        ];
        let answer = after_cycles(&lines, "10:00:17");
        assert_eq!(
            answer.message,
            "Not syncing since 2026-02-01 10:00:10 UTC (7s): held by make (PID 77 on ci-3), 2 cycles skipped"
        );
        assert_eq!(
            commands(&answer),
            ["beadlock status .beads", "ps -fp 77", "beadlock break .beads --holder make --even-if-live"]
        );
        assert_eq!(answer.more[0], "pid_alive: its process lives; the lock goes when it ends");
        assert_eq!(
            answer.more[1..],
            [
                "the lock says: claimed 2026-02-01T10:00:07Z",
                "last complete cycle: 2026-02-01 10:00:06 (11s ago)"
            ]
        );
    }

    #[test]
    fn it_is_held_elsewhere_since_before_the_log() {
        let lines = [
            "[2026-02-01 10:00:10] Skipping database (locked by make)",
            "[2026-02-01 10:00:10] Held since 2026-02-01T10:00:07Z by PID 77 on big box (other_host)",
        ];
        let answer = answer_to(&lines, "10:00:17");
        assert!(
            answer
                .message
                .starts_with("Not syncing since 2026-02-01 10:00:10 UTC or earlier (7s): held by make"),
            "{answer:?}"
        );
        assert_eq!(commands(&answer)[1], "ssh -- 'big box' ps -fp 77");
        assert!(answer.more.contains(&"no complete cycle in this log".to_owned()), "{answer:?}");
    }

    #[test]
    fn a_name_that_is_not_what_the_lock_says_is_not_typed() {
        let of = |name: &str| {
            let answer = after_cycles(
                &[&format!("[2026-02-01 10:00:10] Skipping database (locked by {name})")],
                "10:00:12",
            );
            assert!(answer.message.chars().all(is_harmless), "{answer:?}");
            commands(&answer).last().unwrap().to_string()
        };
        assert_eq!(of("it's me"), r"beadlock break .beads --holder 'it'\''s me' --even-if-live");
        assert_eq!(of("-x"), "beadlock break .beads --holder=-x --even-if-live");
        assert_eq!(of(r"a\nb"), "beadlock break .beads --id ID --even-if-live");
        assert_eq!(of("long…"), "beadlock break .beads --id ID --even-if-live");
        let cut = "[2026-02-01 10:00:10] Skipping database (locked by a), proceeding";
        let answer = after_cycles(&[cut], "10:00:12");
        assert!(answer.message.contains(": held by a), proceeding…, 1 cycle skipped"), "{answer:?}");
        assert_eq!(commands(&answer)[1], "beadlock break .beads --id ID --even-if-live");
        assert_eq!(of("a\u{1b}[2Jb"), "beadlock break .beads --id ID --even-if-live");
    }

    #[test]
    fn the_lock_cannot_be_checked() {
        let line = "[2026-02-01 10:00:10] Skipping database (lock check failed: malformed lock file: unexpected EOF)";
        let answer = after_cycles(&[line], "10:00:12");
        assert!(answer.message.ends_with("(2s): the lock cannot be checked, 1 cycle skipped"), "{answer:?}");
        assert_eq!(answer.more[0], "malformed lock file: unexpected EOF");
        assert_eq!(commands(&answer), ["beadlock status .beads", "beadlock break .beads --malformed"]);
        let line = "[2026-02-01 10:00:10] Skipping database (lock check failed: failed to remove stale lock: no gate)";
        assert_eq!(commands(&after_cycles(&[line], "10:00:12")), ["beadlock check .beads --explain"]);
        let line = "[2026-02-01 10:00:10] Skipping database (a sync cycle or a claim is in progress)";
        assert_eq!(after_cycles(&[line], "10:00:12").state, "busy");
    }

    #[test]
    fn cycles_fail() {
        let lines = [
            "[2026-02-01 10:00:10] Starting sync cycle...",
            "[2026-02-01 10:00:11] Sync cycle failed: exit code 3 after 1.2s",
            "[2026-02-01 10:00:15] Starting sync cycle...",
            "[2026-02-01 10:00:16] Sync cycle failed: exit code 3 after 1.1s",
        ];
        let answer = after_cycles(&lines, "10:00:17");
        assert_eq!(
            answer.message,
            "Not syncing since 2026-02-01 10:00:10 UTC (7s): the last 2 cycles failed: exit code 3"
        );
        assert_eq!(commands(&answer), ["tail -n 50 .beads/daemon.log"]);
    }

    #[test]
    fn the_daemon_was_stopped_or_just_starts() {
        let lines = [
            "[2026-02-01 10:00:10] Ending on SIGTERM",
            "[2026-02-01 10:00:10] Agent stopped: beadlock-agent 0.1.0, PID 7, host ci-3",
        ];
        let answer = after_cycles(&lines, "12:00:10");
        assert_eq!(
            answer.message,
            "Not syncing since 2026-02-01 10:00:10 UTC (2h): the daemon (PID 7 on ci-3) was stopped by SIGTERM"
        );
        assert_eq!((answer.state, commands(&answer)), ("stopped", vec!["beadlock-agent --db .beads"]));
        assert_eq!(
            answer_to(&[START], "10:00:01").message,
            "The daemon (PID 7 on ci-3) started at 2026-02-01 10:00:00 UTC; no cycle since"
        );
    }

    #[test]
    fn nothing_is_written_any_more() {
        let answer = after_cycles(&[], "12:00:06");
        assert!(
            answer.message.starts_with(
                "Silent since 2026-02-01 10:00:06 UTC (2h): the daemon (PID 7 on ci-3) was killed, hangs"
            ),
            "{answer:?}"
        );
        assert_eq!((answer.state, answer.syncing), ("silent", None));
        assert_eq!(commands(&answer), ["ps -fp 7", "beadlock-agent --db .beads"]);
        let held = after_cycles(&["[2026-02-01 10:00:10] Skipping database (locked by make)"], "12:00:10");
        assert!(held.message.contains("(0ms by the end of the log)"), "{held:?}");
        assert_eq!(held.silent, Some(Duration::from_secs(7200)));
        let cycle = after_cycles(&["[2026-02-01 10:00:10] Starting sync cycle..."], "12:00:10");
        assert_eq!(cycle.message, "A cycle began at 2026-02-01 10:00:10 UTC and has not ended (2h)");
        assert_eq!(cycle.syncing, None);
    }

    #[test]
    fn what_was_in_the_way_is_gone() {
        let skips = [
            "[2026-02-01 10:00:10] Skipping database (locked by make)",
            "[2026-02-01 10:00:15] Removed stale lock (make), proceeding with sync",
            "[2026-02-01 10:00:15] Resumed after 1 skips in 5s",
        ];
        for lines in [&skips[..2], &skips, &[skips[0], skips[2]]] {
            let answer = after_cycles(lines, "10:00:17");
            assert_eq!(
                answer.message,
                "Syncing: the cycles run again since 2026-02-01 10:00:15 UTC (2s ago), and none is complete yet"
            );
            assert_eq!((answer.state, answer.syncing, commands(&answer)), ("resumed", Some(true), vec![]));
            assert_eq!(after_cycles(lines, "12:00:17").state, "silent");
        }
    }

    #[test]
    fn a_line_from_the_future_says_nothing() {
        let future = "[2026-02-01 11:00:01] Sync cycle complete";
        let answer = after_cycles(&[future], "10:59:00");
        assert_eq!((answer.state, answer.syncing), ("unknown", None));
        assert!(
            answer.message.starts_with("The last line is of 2026-02-01 11:00:01 UTC, 1m 1s in the future: "),
            "{answer:?}"
        );
        assert_eq!(after_cycles(&[future], "10:59:01").state, "syncing", "clocks differ");
    }

    #[test]
    fn what_is_no_log_of_a_daemon_says_so() {
        assert!(answer_to(&["hello"], "10:00:00").message.starts_with("No line of a daemon in this log"));
        assert!(
            answer_to(&["[2026-02-01 10:00:00] hello"], "10:00:00")
                .message
                .starts_with("No cycle in this log")
        );
    }

    #[test]
    fn on_another_machine_it_says_where_to_type() {
        let start = START.replace("ci-3", "ci-9");
        let skip = "[2026-02-01 10:00:10] Skipping database (locked by make)";
        let answer = answer_to(&[&start, skip], "10:00:12");
        assert!(answer.more.contains(&"the daemon runs on ci-9: type there".to_owned()), "{answer:?}");
    }
}
