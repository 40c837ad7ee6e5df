//! Where a line goes: to the log of its database, or to the one log of all; to a terminal on stderr too, after that,
//! and only while it reads.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::sleep;
use std::time::Duration;

use super::{
    Format, Ground, Line, Message, Out, Served, Settings, Terminal, To, Whose, complain, named, own, terminal,
};

/// Files kept open at once: a database that has nothing to say has no open file.
const OPEN: usize = 32;

/// What is said within this time after the last line is written together: to wake the thread for each costs more than
/// to write it.
const REST: Duration = Duration::from_millis(1);

/// A file by the number of its database; `None`: the one that all share.
type Key = Option<u32>;

/// The thread of the log. It never fails: what cannot be written is complained of once, on stderr.
pub(super) struct Router {
    served: Arc<Served>,
    settings: Settings,
    /// Those that had a line.
    files: BTreeMap<Key, Out>,
    ground: Ground,
    /// Open files, the longest unused first.
    open: VecDeque<Key>,
    terminal: Option<Terminal>,
    /// Told when [`Message::End`] has come: everything before it is written.
    ended: Sender<()>,
}

impl Router {
    pub(super) fn new(served: Arc<Served>, ended: Sender<()>) -> Self {
        let (settings, terminal) = (served.settings(), Terminal::on_stderr());
        Self {
            served,
            settings,
            files: BTreeMap::new(),
            ground: Ground::new(),
            open: VecDeque::new(),
            terminal,
            ended,
        }
    }

    /// Takes messages until the last one, or until nobody can send any more.
    pub(super) fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                let is_last = matches!(message, Message::End);
                self.take(message);
                if is_last {
                    return;
                }
                next = messages.try_recv().ok();
            }
            sleep(REST);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Lines { to, seconds, lines } => self.deliver(&to, seconds, &lines),
            Message::Turned(number) => self.forget(Some(number)),
            Message::Configured => {
                self.settings = self.served.settings();
                self.files.clear();
                self.open.clear();
            }
            Message::End => {
                self.files.clear();
                self.open.clear();
                self.ground.end();
                let _ = self.ended.send(());
            }
        }
    }

    fn deliver(&mut self, to: &To, seconds: i64, lines: &[Line]) {
        let is_shared = self.settings.shared.is_some() || self.terminal.is_some();
        let dir = match to {
            // In its own log nobody has to be told where a database lies, but in JSON.
            To::One(number) if is_shared || self.settings.format == Format::Json => self.served.dir(*number),
            _ => None,
        };
        let are_several = || self.settings.may_become_several || self.served.are_several();
        let name = dir.as_deref().filter(|_| is_shared && are_several()).map(named);
        let dir = dir.as_deref().map(Path::to_string_lossy);
        let alone = Whose { name: None, dir: dir.as_deref() };
        let among_others = Whose { name: name.as_deref(), ..alone };
        let format = self.settings.format;
        let (keys, whose) = match to {
            _ if self.settings.shared.is_some() => (vec![None], among_others),
            To::One(number) => (vec![Some(*number)], alone),
            To::All(numbers) => (numbers.iter().copied().map(Some).collect(), alone),
        };
        let in_format = |format, whose| -> Vec<String> {
            lines.iter().map(|line| line.in_format(format, seconds, whose)).collect()
        };
        let text = in_format(format, whose).concat();
        let header = || own::header().in_format(format, seconds, Whose::default());
        let mut is_in_a_log = false;
        for key in keys {
            is_in_a_log |= self.write(key, &text, header);
        }
        let shown = || in_format(Format::Text, among_others);
        match &mut self.terminal {
            Some(terminal) => shown().iter().for_each(|line| terminal.show(line)),
            // There is no database yet that it could be told in.
            None if !is_in_a_log && terminal::has_room(io::stderr()) => {
                let _ = io::stderr().write_all(shown().concat().as_bytes());
            }
            None => {}
        }
    }

    /// Appends whole lines. False: there is no such log.
    fn write(&mut self, key: Key, line: &str, header: impl FnOnce() -> String) -> bool {
        let is_served = key.is_none_or(|number| self.served.is_served(number));
        if !self.files.contains_key(&key) {
            let Some(path) = self.path(key) else { return false };
            let mut file = self.ground.open(&path, self.settings.limits());
            if !is_served {
                // Late: nothing of it is kept, and that its directory has gone with it is no fault.
                let _ = file.write(line, header);
                return true;
            }
            self.files.insert(key, file);
        }
        let Some(file) = self.files.get_mut(&key) else { return false };
        for complaint in file.write(line, header) {
            complain(complaint);
        }
        self.open.retain(|open| *open != key);
        if !is_served {
            file.close();
            return true;
        }
        self.open.push_back(key);
        if self.open.len() > OPEN
            && let Some(unused) = self.open.pop_front().and_then(|unused| self.files.get_mut(&unused))
        {
            unused.close();
        }
        true
    }

    fn path(&self, key: Key) -> Option<PathBuf> {
        match key {
            None => self.settings.shared.clone(),
            Some(number) => self.served.dir(number).map(|dir| dir.join("daemon.log")),
        }
    }

    fn forget(&mut self, key: Key) {
        self.files.remove(&key);
        self.open.retain(|open| *open != key);
    }
}

#[cfg(test)]
mod tests;
