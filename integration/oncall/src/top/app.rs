//! The state of the view, and what a key does to it. It draws nothing and reads no clock.

use std::collections::HashMap;
use std::path::PathBuf;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::row::{LocalLook, TopRow, TopSort};
use super::source::TopUpdate;
use crate::agent::report::{AgentAnswer, TROUBLE};
use beadlock_log::parse::time::LogTime;
use beadlock_log::tail::{HistoryCell, HistoryStrip};

/// The lengths of the history that a key goes through, in seconds.
pub const HISTORIES: [(u64, &str); 4] = [
    (3600, "1h"),
    (6 * 3600, "6h"),
    (24 * 3600, "24h"),
    (7 * 24 * 3600, "7d"),
];

/// The lengths that a history is drawn in: the shortest that has room for all that is known.
const SCALES: [(u64, &str); 15] = [
    (60, "1m"),
    (2 * 60, "2m"),
    (5 * 60, "5m"),
    (10 * 60, "10m"),
    (15 * 60, "15m"),
    (30 * 60, "30m"),
    (3600, "1h"),
    (2 * 3600, "2h"),
    (4 * 3600, "4h"),
    (6 * 3600, "6h"),
    (12 * 3600, "12h"),
    (24 * 3600, "24h"),
    (2 * 24 * 3600, "2d"),
    (4 * 24 * 3600, "4d"),
    (7 * 24 * 3600, "7d"),
];

/// The length, in seconds and in words, of a history that begins at `first` and is at most so long.
pub fn scale(first: Option<LogTime>, now: LogTime, most: u64) -> (u64, &'static str) {
    let known = first.map_or(most, |first| now.since(first).as_secs());
    let fits = |(length, _): &&(u64, &str)| *length >= known.min(most);
    SCALES.iter().find(fits).copied().unwrap_or(HISTORIES[3])
}

/// The most changes of a row that are remembered, for the history of a database whose log cannot be read.
const REMEMBERED: usize = 1000;

/// An agent, and what it said last.
#[derive(Debug)]
pub struct TopAgent {
    /// The address that the agent is asked at, escaped.
    pub name: String,
    /// The last answer, and when it came, in seconds since the view began.
    pub heard: Option<(AgentAnswer, u64)>,
    /// Since when the agent does not answer, in seconds since the view began, and why.
    pub gone: Option<(u64, String)>,
}

/// The action that a key asks for, for the loop of the view to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopAction {
    Nothing,
    Quit,
    /// Put this into the clipboard of the terminal.
    Copy(String),
    /// Ask all agents and look at this machine's locks at once.
    Refresh,
    /// Stop, as Ctrl-Z does.
    Suspend,
}

#[derive(Debug, Default)]
pub struct TopApp {
    pub agents: Vec<TopAgent>,
    looks: Vec<LocalLook>,
    /// How many of the looks, from the first one, are at named targets; the others are at databases of agents.
    pub targets: usize,
    /// This machine's name.
    pub host: Option<String>,
    pub sort: TopSort,
    pub filter: String,
    pub is_typing: bool,
    pub has_details: bool,
    pub has_help: bool,
    /// The place of the history's length in [`HISTORIES`].
    pub history: usize,
    /// The name of the chosen row, which may move.
    pub chosen: Option<String>,
    /// The first row that is shown.
    pub top: usize,
    pub message: Option<String>,
    /// The changes of each row's state, by the name of the row, and when each was seen.
    seen: HashMap<String, Vec<(LogTime, HistoryCell)>>,
    /// Whether a first look at this machine has come.
    pub has_looked: bool,
}

impl TopApp {
    pub fn new(agents: impl Iterator<Item = String>, targets: usize, host: Option<String>) -> Self {
        let agents = agents
            .map(|name| TopAgent {
                name,
                heard: None,
                gone: None,
            })
            .collect();
        Self {
            agents,
            targets,
            host,
            has_details: true,
            ..Self::default()
        }
    }

    /// Takes an update in. `now` is in seconds since the view began.
    pub fn take_in(&mut self, update: TopUpdate, now: u64, wall: LogTime) {
        match update {
            TopUpdate::Agent(place, Ok(status)) => {
                if let Some(agent) = self.agents.get_mut(place) {
                    (agent.heard, agent.gone) = (Some((status, now)), None);
                }
            }
            TopUpdate::Agent(place, Err(why)) => {
                if let Some(agent) = self.agents.get_mut(place) {
                    let since = agent.gone.take().map_or(now, |(since, _)| since);
                    agent.gone = Some((since, why));
                }
            }
            TopUpdate::Looks(looks) => (self.looks, self.has_looked) = (looks, true),
        }
        for row in self.all(now) {
            let cell = row.cell();
            let seen = self.seen.entry(row.name).or_default();
            if seen.last().is_some_and(|(_, last)| *last == cell) {
                continue;
            }
            if seen.len() == REMEMBERED {
                seen.drain(..REMEMBERED / 2);
            }
            seen.push((wall, cell));
        }
    }

    /// The directories that agents of this machine serve, and whether they are in trouble: then the lock is looked at.
    pub fn directories(&self) -> Vec<(PathBuf, bool)> {
        let here = |status: &AgentAnswer| self.host.is_some() && status.host == self.host;
        let statuses = self
            .agents
            .iter()
            .filter_map(|agent| agent.heard.as_ref().map(|(status, _)| status));
        let databases = statuses
            .filter(|status| here(status))
            .flat_map(|status| &status.databases);
        let is_trouble = |state: &str| TROUBLE.contains(&state);
        databases
            .map(|database| (PathBuf::from(&database.dir), is_trouble(&database.state)))
            .collect()
    }

    /// Every row, in no order.
    fn all(&self, now: u64) -> Vec<TopRow> {
        let mut rows = Vec::new();
        let mut looks: HashMap<&str, &LocalLook> = self
            .looks
            .iter()
            .map(|look| (look.name.as_str(), look))
            .collect();
        for (place, agent) in self.agents.iter().enumerate() {
            let Some((status, heard)) = &agent.heard else {
                continue;
            };
            let is_here = self.host.is_some() && status.host == self.host;
            for (mut row, database) in TopRow::of_agent(status, place, *heard)
                .into_iter()
                .zip(&status.databases)
            {
                row.is_old = agent.gone.is_some();
                if let Some(look) = looks.get(database.dir.as_str()).filter(|_| is_here) {
                    row.take_in(look);
                }
                rows.push(row);
            }
            if is_here {
                for database in &status.databases {
                    looks.remove(database.dir.as_str());
                }
            }
        }
        let named = self.looks.iter().take(self.targets);
        rows.extend(
            named
                .filter(|look| looks.contains_key(look.name.as_str()))
                .map(|look| TopRow::of_look(look, now)),
        );
        rows
    }

    /// The rows to show, in their order.
    pub fn rows(&self, now: u64) -> Vec<TopRow> {
        let mut rows = self.all(now);
        rows.retain(|row| row.matches(&self.filter));
        self.sort.sort(&mut rows);
        rows
    }

    /// The history of a row, as its log shows it, else as it was seen here.
    pub fn history_of(&self, row: &TopRow, wall: LogTime, cells: usize) -> Vec<HistoryCell> {
        if !row.history.is_empty() {
            let left_out = row.history.len().saturating_sub(cells);
            return row.history[left_out..].to_vec();
        }
        let length = self.history_length(wall).0.saturating_mul(1000);
        let mut strip =
            HistoryStrip::new(LogTime(wall.0.saturating_sub_unsigned(length)), wall, cells);
        let seen = self.seen.get(&row.name).map_or(&[][..], Vec::as_slice);
        for (place, (at, cell)) in seen.iter().enumerate() {
            let until = seen.get(place + 1).map_or(wall, |(next, _)| *next);
            strip.put(*at, until, *cell);
        }
        strip.cells
    }

    /// How long the histories are, in seconds and in words: as long as the logs that were read, else as the view.
    pub fn history_length(&self, wall: LogTime) -> (u64, &'static str) {
        let logs = self.looks.iter().filter_map(|look| look.history.as_ref());
        logs.map(|history| history.length)
            .next()
            .unwrap_or_else(|| {
                let seen = self.seen.values().filter_map(|seen| seen.first());
                let first = seen.map(|(at, _)| *at).min();
                scale(first, wall, HISTORIES[self.history].0)
            })
    }

    /// The place of the chosen row in `rows`; 0 where it is not among them.
    pub fn place(&self, rows: &[TopRow]) -> usize {
        let named = self
            .chosen
            .as_ref()
            .and_then(|name| rows.iter().position(|row| row.name == *name));
        named.unwrap_or(0)
    }

    pub fn press(&mut self, key: KeyEvent, now: u64) -> TopAction {
        if key.kind == KeyEventKind::Release {
            return TopAction::Nothing;
        }
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => TopAction::Quit,
                KeyCode::Char('z') => TopAction::Suspend,
                _ => TopAction::Nothing,
            };
        }
        if self.is_typing {
            self.type_in(key.code);
            return TopAction::Nothing;
        }
        if std::mem::take(&mut self.has_help) {
            return if key.code == KeyCode::Char('q') {
                TopAction::Quit
            } else {
                TopAction::Nothing
            };
        }
        match key.code {
            KeyCode::Char('q') => return TopAction::Quit,
            KeyCode::Char('r') => return TopAction::Refresh,
            KeyCode::Char('c') => return self.copied(now),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('t') => {
                self.history = (self.history + 1) % HISTORIES.len();
                return TopAction::Refresh;
            }
            KeyCode::Enter | KeyCode::Char('d') => self.has_details = !self.has_details,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1, now),
            KeyCode::Down | KeyCode::Char('j') => self.go(1, now),
            KeyCode::PageUp => self.go(-10, now),
            KeyCode::PageDown => self.go(10, now),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN, now),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX, now),
            _ => {}
        }
        TopAction::Nothing
    }

    fn type_in(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
    }

    fn copied(&mut self, now: u64) -> TopAction {
        let rows = self.rows(now);
        let command = rows
            .get(self.place(&rows))
            .and_then(TopRow::command)
            .map(str::to_owned);
        let Some(command) = command else {
            self.message = Some("there is nothing to type for this one".to_owned());
            return TopAction::Nothing;
        };
        self.message = Some(format!("copied, where the terminal allows it: {command}"));
        TopAction::Copy(command)
    }

    fn go(&mut self, by: isize, now: u64) {
        let rows = self.rows(now);
        let Some(last) = rows.len().checked_sub(1) else {
            return;
        };
        let place = self.place(&rows).saturating_add_signed(by).min(last);
        self.chosen = Some(rows[place].name.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    pub fn status(host: &str, states: &[&str]) -> AgentAnswer {
        let row = |(number, state): (usize, &&str)| json!({"dir": format!("/r/{number}/.beads"), "state": state, "age_ms": 60_000, "next": format!("look {number}")});
        let databases: Vec<_> = states.iter().enumerate().map(row).collect();
        serde_json::from_value(
            json!({"version": "0.1.0", "pid": 7, "host": host, "since": "2026-02-01T10:00:00Z",
            "served": states.len(), "states": {}, "databases": databases}),
        )
        .unwrap()
    }

    fn app() -> TopApp {
        let mut app = TopApp::new(["a".to_owned()].into_iter(), 0, Some("vm".to_owned()));
        app.take_in(
            TopUpdate::Agent(0, Ok(status("vm", &["synced", "failed", "skipped"]))),
            5,
            LogTime(0),
        );
        app
    }

    fn press(app: &mut TopApp, keys: &str) -> TopAction {
        keys.chars()
            .map(|key| app.press(KeyEvent::from(KeyCode::Char(key)), 9))
            .last()
            .unwrap()
    }

    #[test]
    fn keys_choose_filter_and_copy() {
        let mut app = app();
        assert_eq!(
            press(&mut app, "c"),
            TopAction::Copy("look 1".to_owned()),
            "the worst is the first"
        );
        assert_eq!(press(&mut app, "jc"), TopAction::Copy("look 2".to_owned()));
        assert_eq!(
            press(&mut app, "jjjc"),
            TopAction::Copy("look 0".to_owned()),
            "the last is the end"
        );
        press(&mut app, "/skiq");
        assert_eq!(app.rows(9).len(), 0, "q is typed");
        app.press(KeyEvent::from(KeyCode::Backspace), 9);
        app.press(KeyEvent::from(KeyCode::Enter), 9);
        assert_eq!(app.rows(9).len(), 1);
        assert_eq!(press(&mut app, "c"), TopAction::Copy("look 2".to_owned()));
        assert_eq!(press(&mut app, "q"), TopAction::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut app, "/");
        assert_eq!(
            app.press(interrupt, 9),
            TopAction::Quit,
            "while something is typed, too"
        );
    }

    #[test]
    fn the_chosen_row_stays_chosen_wherever_it_goes() {
        let mut app = app();
        press(&mut app, "j");
        assert_eq!(app.chosen.as_deref(), Some("/r/2/.beads"));
        app.take_in(
            TopUpdate::Agent(0, Ok(status("vm", &["failed", "failed", "synced"]))),
            6,
            LogTime(1000),
        );
        assert_eq!(app.place(&app.rows(9)), 2);
    }

    #[test]
    fn what_an_agent_said_that_has_gone_is_old() {
        let mut app = app();
        app.take_in(
            TopUpdate::Agent(0, Err("no agent answers".to_owned())),
            8,
            LogTime(0),
        );
        app.take_in(
            TopUpdate::Agent(0, Err("no agent answers".to_owned())),
            9,
            LogTime(0),
        );
        assert_eq!(
            app.agents[0].gone.as_ref().map(|(since, _)| *since),
            Some(8)
        );
        let rows = app.rows(100);
        assert!(rows.len() == 3 && rows.iter().all(|row| row.is_old));
        assert_eq!(
            rows[0].state_for(100).as_deref(),
            Some("1m"),
            "nobody knows for how long by now"
        );
        app.take_in(
            TopUpdate::Agent(0, Ok(status("vm", &["synced"]))),
            101,
            LogTime(0),
        );
        assert!(app.agents[0].gone.is_none() && !app.rows(101)[0].is_old);
    }

    #[test]
    fn a_database_is_looked_at_here_only_when_its_agent_is_here() {
        let mut app = app();
        assert_eq!(app.directories().len(), 3);
        app.take_in(
            TopUpdate::Agent(0, Ok(status("elsewhere", &["synced"]))),
            6,
            LogTime(0),
        );
        assert_eq!(app.directories(), []);
    }

    #[test]
    fn without_a_log_the_history_is_what_was_seen() {
        let mut app = app();
        let hour = 3_600_000;
        app.take_in(
            TopUpdate::Agent(0, Ok(status("vm", &["failed"]))),
            9,
            LogTime(hour / 2),
        );
        let row = &app.rows(9)[0];
        let cells = app.history_of(row, LogTime(hour), 4);
        use HistoryCell::{Complete, Failed};
        assert_eq!(cells, [Complete, Complete, Failed, Failed]);
        assert_eq!(app.history_length(LogTime(hour / 2)).1, "30m");
    }

    #[test]
    fn a_history_is_no_longer_than_what_is_known() {
        let at = |seconds: i64| LogTime(seconds * 1000);
        for (first, most, words) in [
            (Some(at(990)), 3600, "1m"),
            (Some(at(800)), 3600, "5m"),
            (Some(at(-900)), 3600, "1h"),
            (Some(at(-900_000)), 3600, "1h"),
            (Some(at(-900_000)), 7 * 24 * 3600, "7d"),
            (Some(at(2000)), 3600, "1m"),
            (None, 3600, "1h"),
        ] {
            assert_eq!(scale(first, at(1000), most).1, words, "{first:?} {most}");
        }
    }
}
