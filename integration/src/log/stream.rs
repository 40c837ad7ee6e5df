//! The lines of one log on their way to the databases that they are about.

use std::collections::HashMap;

use beadlock_checker::internal::log_line::MARK;

use super::agents::Agents;
use super::event::Event;
use super::line::{Line, Writer};
use super::story::Story;
use super::time::{At, Clock};

/// As many databases in one log are told apart.
const DATABASES: usize = 4096;

/// The time that is asked for; both ends belong to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Window {
    pub since: Option<At>,
    pub until: Option<At>,
}

/// How many lines, and of what kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// All in the time that is asked for.
    pub all: u64,
    /// Of no known meaning, such as a command's output.
    pub other: u64,
    /// Longer than what is read of a line.
    pub cut: u64,
    /// Before and after the time that is asked for.
    pub outside: u64,
}

/// What a log says.
#[derive(Debug)]
pub struct Stream {
    pub agents: Agents,
    pub lines: LineCounts,
    pub writer: Option<Writer>,
    clock: Clock,
    window: Window,
    is_open: bool,
    /// The log lies in its database: no agent writes of another one there, and what lines call it is of no use.
    of_one: bool,
    last: Option<At>,
    /// No line of the log's beginning has a time: then the lines count all the same, as of this moment.
    no_times: Option<bool>,
    now: At,
    /// The first is that of lines without a database.
    stories: Vec<Story>,
    names: HashMap<String, usize>,
}

impl Stream {
    /// Of lines that are read at `now`.
    pub fn new(window: Window, now: At) -> Self {
        Self {
            agents: Agents::default(),
            lines: LineCounts::default(),
            writer: None,
            clock: Clock::new(),
            window,
            is_open: window.since.is_none(),
            of_one: false,
            last: None,
            no_times: None,
            now,
            stories: vec![Story::new(None)],
            names: HashMap::new(),
        }
    }

    /// The log is the one that lies in its database.
    pub fn of_one_database(self) -> Self {
        Self { of_one: true, ..self }
    }

    /// The zone that times without one were taken in, where there were such.
    pub fn local_zone(&self) -> Option<String> {
        self.clock.used_local.then(|| self.clock.local_name())
    }

    /// A file begins so: who writes it?
    pub fn begin(&mut self, head: &[u8]) {
        self.writer = Writer::guess(head).or(self.writer);
        let has_time = |line: &[u8]| Line::parse(line, &mut Clock::new(), self.writer).at.is_some();
        self.no_times.get_or_insert(!head.split(|byte| *byte == b'\n').any(has_time));
    }

    /// The lines have no times.
    pub fn has_no_times(&self) -> bool {
        self.no_times == Some(true)
    }

    /// One line without its end.
    pub fn hear(&mut self, raw: &[u8], is_cut: bool) {
        let line = Line::parse(raw, &mut self.clock, self.writer);
        self.writer = line.writer.filter(|_| line.at.is_some()).or(self.writer);
        if raw.is_empty() {
            return;
        }
        // A line without a time belongs to the one before it.
        let is_event = || Event::parse(&line.message, self.writer) != Event::Other;
        let untimed = (self.has_no_times() && is_event()).then_some(self.now);
        let Some(at) = line.at.or(self.last).or(untimed) else {
            self.lines.all += u64::from(self.is_open);
            self.lines.other += u64::from(self.is_open);
            return;
        };
        self.last = Some(at);
        if self.window.until.is_some_and(|until| at > until) {
            self.lines.outside += 1;
            return;
        }
        if let Some(since) = self.window.since
            && !self.is_open
            && at >= since
        {
            self.open(since);
        }
        let (database, event, message) = self.about(&line);
        self.lines.all += 1;
        self.lines.cut += u64::from(is_cut);
        self.lines.other += u64::from(event == Event::Other);
        match &event {
            Event::Header(agent) => {
                self.writer = Some(Writer::Agent);
                self.agents.header(agent, at);
            }
            Event::Started(agent) => {
                self.writer = Some(if agent.pid.is_some() { Writer::Agent } else { Writer::Original });
                self.agents.started(agent, at);
            }
            Event::Ending(signal) => self.agents.ending(signal, at),
            Event::Stopped(agent) => self.agents.stopped(agent.as_ref(), at),
            event if event.is_of_a_cycle() => self.agents.alive(at),
            _ => {}
        }
        let is_everyones = database.is_none() && !event.is_of_a_cycle() && event != Event::Other;
        let whose = if is_everyones {
            0..self.stories.len()
        } else {
            database.unwrap_or(0)..database.unwrap_or(0) + 1
        };
        for story in &mut self.stories[whose] {
            story.hear(at, &event, message, &line.extra, self.writer);
        }
    }

    /// The end of the log: what it says of each database up to `end`.
    pub fn finish(&mut self, end: At) -> Vec<Story> {
        if let Some(since) = self.window.since
            && !self.is_open
        {
            self.open(since);
        }
        self.agents.finish();
        let mut stories = std::mem::take(&mut self.stories);
        if stories.len() > 1 && stories.first().is_some_and(Story::is_blank) {
            stories.remove(0);
        }
        for story in &mut stories {
            story.finish(end);
        }
        stories
    }

    /// What is asked for begins.
    fn open(&mut self, since: At) {
        self.is_open = true;
        self.lines = LineCounts { outside: self.lines.all + self.lines.outside, ..LineCounts::default() };
        self.agents.forget();
        for story in &mut self.stories {
            story.forget(since);
        }
    }

    /// The database that a line is about, where it names one, and what it says of it.
    fn about<'a>(&mut self, line: &'a Line<'_>) -> (Option<usize>, Event<'a>, &'a str) {
        let message: &str = &line.message;
        let writer = self.writer;
        if line.at.is_none() && writer == Some(Writer::Agent) && !self.has_no_times() {
            // It stamps every line of its own, unless something has taken all the stamps off.
            return (None, Event::Other, message);
        }
        if let Some(name) = &line.database
            && !self.of_one
        {
            return (Some(self.story(name)), Event::parse(message, writer), message);
        }
        let may_name = match writer {
            Some(Writer::Agent) => !self.of_one,
            Some(Writer::Original) => false,
            None => true,
        };
        if message.starts_with('/') && may_name {
            // `DIR: message`, where the log is of several databases. Only the agent sees to it that the first colon
            // is the one.
            let colons = if writer == Some(Writer::Agent) { 1 } else { usize::MAX };
            for (colon, _) in message.match_indices(": ").take(colons) {
                let (name, text) = (&message[..colon], &message[colon + 2..]);
                let event = Event::parse(text, writer);
                let is_known = self.names.contains_key(name);
                if text.starts_with(MARK) && !is_known {
                    break;
                }
                if is_known || !matches!(event, Event::Other | Event::Trouble(_) | Event::Complete) {
                    return (Some(self.story(name)), event, text);
                }
            }
        }
        (None, Event::parse(message, writer), message)
    }

    fn story(&mut self, name: &str) -> usize {
        if let Some(number) = self.names.get(name) {
            return *number;
        }
        if self.stories.len() > DATABASES {
            return 0;
        }
        let mut story = Story::new(Some(name.to_owned()));
        if let Some(since) = self.window.since.filter(|_| self.is_open) {
            story.forget(since);
        }
        self.names.insert(name.to_owned(), self.stories.len());
        self.stories.push(story);
        self.stories.len() - 1
    }
}

#[cfg(test)]
mod tests;
