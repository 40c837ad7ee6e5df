//! Where a line goes: to the log of its database, or to the shared log; then to a terminal on stderr, while it reads.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::sleep;
use std::time::Duration;

use beadlock_core::log_line::Event;

use super::{
    AgentLine, LogFormat, LogMounts, LogOutput, LogSettings, Served, Whose, agent_lines, complain,
    named, terminal,
};

/// How many files are kept open at once.
const OPEN: usize = 32;
/// Lines that come within this time are written together: to wake the thread for each costs more than the write.
const REST: Duration = Duration::from_millis(1);

/// What the thread of the log is told, in the order in which it happened.
#[derive(Debug)]
pub(super) enum LogMessage {
    /// Lines of one moment, which are written together; `seconds` is Unix time.
    Lines {
        to: Recipients,
        seconds: i64,
        lines: Vec<AgentLine>,
    },
    /// The database with this number has come or gone.
    Turned(usize),
    Configured,
    End,
}

/// Which databases a line is for, by their numbers.
#[derive(Debug, PartialEq)]
pub(super) enum Recipients {
    One(usize),
    /// All that were served at the time of the line.
    All(Vec<usize>),
}

/// The thread of the log. It never fails: what cannot be written is complained of once, on stderr.
pub(super) struct Router {
    served: Arc<Served>,
    settings: LogSettings,
    /// The files that had a line, by the number of the database; `None` is the shared one.
    files: BTreeMap<Option<usize>, LogOutput>,
    /// The logs that have lines of this agent, each by the number of its database.
    introduced: BTreeSet<Option<usize>>,
    ground: LogMounts,
    /// Open files, the longest unused first.
    open: VecDeque<Option<usize>>,
    terminal: Option<File>,
    /// Told when everything before [`LogMessage::End`] is written.
    ended: Sender<()>,
}

impl Router {
    pub(super) fn new(served: Arc<Served>, ended: Sender<()>) -> Self {
        let (settings, terminal) = (served.settings(), terminal::on_stderr());
        let (files, ground, open) = (BTreeMap::new(), LogMounts::new(), VecDeque::new());
        Self {
            served,
            settings,
            files,
            introduced: BTreeSet::new(),
            ground,
            open,
            terminal,
            ended,
        }
    }

    /// Takes messages until the last one, or until all senders are gone.
    pub(super) fn run(mut self, messages: &Receiver<LogMessage>) {
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                let is_last = matches!(message, LogMessage::End);
                self.take(message);
                if is_last {
                    return;
                }
                next = messages.try_recv().ok();
            }
            sleep(REST);
        }
    }

    fn take(&mut self, message: LogMessage) {
        match message {
            LogMessage::Lines { to, seconds, lines } => self.deliver(&to, seconds, &lines),
            LogMessage::Turned(number) => {
                self.files.remove(&Some(number));
                self.introduced.remove(&Some(number));
                self.open.retain(|open| *open != Some(number));
            }
            LogMessage::Configured => {
                self.settings = self.served.settings();
                self.close_all();
            }
            LogMessage::End => {
                self.close_all();
                self.ground.end();
                let _ = self.ended.send(());
            }
        }
    }

    fn close_all(&mut self) {
        self.files.clear();
        self.open.clear();
    }

    fn deliver(&mut self, to: &Recipients, seconds: i64, lines: &[AgentLine]) {
        let is_shared = self.settings.shared.is_some() || self.terminal.is_some();
        let format = self.settings.format;
        let dir = match to {
            // The lines of its own log need no directory, except in JSON.
            Recipients::One(number) if is_shared || format == LogFormat::Json => {
                self.served.dir(*number)
            }
            _ => None,
        };
        let are_several = || self.settings.may_become_several || self.served.are_several();
        let name = dir
            .as_deref()
            .filter(|_| is_shared && are_several())
            .map(named);
        let dir = dir.as_deref().map(Path::to_string_lossy);
        let alone = Whose {
            name: None,
            dir: dir.as_deref(),
        };
        let among_others = Whose {
            name: name.as_deref(),
            ..alone
        };
        let (keys, whose) = match to {
            _ if self.settings.shared.is_some() => (vec![None], among_others),
            Recipients::One(number) => (vec![Some(*number)], alone),
            Recipients::All(numbers) => (numbers.iter().copied().map(Some).collect(), alone),
        };
        let in_format = |format, whose| -> Vec<String> {
            lines
                .iter()
                .map(|line| line.in_format(format, seconds, whose))
                .collect()
        };
        let text = in_format(format, whose).concat();
        let text_of = |line: AgentLine| line.in_format(format, seconds, Whose::default());
        let has_started = lines
            .first()
            .is_some_and(|line| line.event == Event::AgentStarted);
        let served = Arc::clone(&self.served);
        // The line of the start names the agent, too.
        let head = |is_new: bool| -> String {
            let header = (is_new || !has_started).then(agent_lines::header);
            let listening = served.listening_at().map(agent_lines::listening);
            header.into_iter().chain(listening).map(text_of).collect()
        };
        let mut is_in_a_log = false;
        for key in keys {
            is_in_a_log |= self.write(key, &text, head);
        }
        let shown = || in_format(LogFormat::Text, among_others);
        match &mut self.terminal {
            Some(terminal) => shown()
                .iter()
                .for_each(|line| terminal::show(terminal, line)),
            // There is no database yet whose log could have it.
            None if !is_in_a_log && terminal::has_room(io::stderr()) => {
                let _ = io::stderr().write_all(shown().concat().as_bytes());
            }
            None => {}
        }
    }

    /// Appends whole lines, after the head in a new file and before the first lines of this agent. Returns false when
    /// there is no such log.
    fn write(&mut self, key: Option<usize>, line: &str, head: impl Fn(bool) -> String) -> bool {
        let is_served = key.is_none_or(|number| self.served.is_served(number));
        if !self.files.contains_key(&key) {
            let Some(path) = self.path(key) else {
                return false;
            };
            let mut file = self.ground.open(&path, self.settings.limits());
            if !is_served {
                // A late line: the file is not kept, and it is not a fault that its directory has gone.
                let _ = file.write(
                    line,
                    |is_new| if is_new { head(true) } else { String::new() },
                );
                return true;
            }
            self.files.insert(key, file);
        }
        let Some(file) = self.files.get_mut(&key) else {
            return false;
        };
        let is_first = self.introduced.insert(key);
        let head = |is_new| {
            if is_new || is_first {
                head(is_new)
            } else {
                String::new()
            }
        };
        file.write(line, head).into_iter().for_each(complain);
        self.open.retain(|open| *open != key);
        if !is_served {
            file.close();
            return true;
        }
        self.open.push_back(key);
        if self.open.len() > OPEN
            && let Some(unused) = self
                .open
                .pop_front()
                .and_then(|unused| self.files.get_mut(&unused))
        {
            unused.close();
        }
        true
    }

    fn path(&self, key: Option<usize>) -> Option<PathBuf> {
        match key {
            None => self.settings.shared.clone(),
            Some(number) => self.served.dir(number).map(|dir| dir.join("daemon.log")),
        }
    }
}

#[cfg(test)]
mod tests;
