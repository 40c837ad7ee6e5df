//! How the sync of a database fares: what its agent says, where it can be asked, else what its log says
//! (docs/design.md#looking).

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use beadlock_checker::internal::address::Address;
use beadlock_checker::internal::agent_process::ProcessState;
use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::escape::escaped;
use beadlock_checker::internal::facts;
use serde_json::{Value, json};

use super::parse::time::LogTime;
use super::report::{LogAnswer, LogReport};
use super::tail::LogTail;
use crate::agent::report::{DatabaseStatus, TROUBLE};
use crate::agent::{self};
use crate::output::talk::Talk;

/// How long an agent may take to answer. Its log has the rest.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of a sync.
#[derive(Debug)]
pub struct SyncSight {
    /// `agent` or `log`.
    from: &'static str,
    /// A word of the agent's states, or of the answers of `beadlock log`.
    state: String,
    /// `None`: it is not known.
    syncing: Option<bool>,
    /// For how long it is in that state.
    length: Option<Duration>,
    message: String,
    next: Option<String>,
}

impl SyncSight {
    /// Of the database in this directory; `None` where no daemon has logged there.
    pub fn of(dir: &Path) -> Option<Self> {
        let mut tail = LogTail::looking(&dir.join("daemon.log"));
        if !tail.read_on() {
            return None;
        }
        let listens_at = tail.listens_at().map(str::to_owned);
        let (report, state) = tail.report();
        // A process that is gone or stands still does not answer.
        let may_answer = matches!(state, ProcessState::Runs | ProcessState::Unknown)
            && !report.log.is_of_other_host();
        let address = listens_at
            .filter(|_| may_answer)
            .and_then(|address| Address::parse(OsStr::new(&address)).ok())
            .filter(Address::is_local);
        let of_agent = address.and_then(|address| Self::asked(&address, dir));
        of_agent.or_else(|| {
            let answer = report.answers().next().map(|(_, answer)| answer)?;
            Some(Self::of_log(&answer))
        })
    }

    fn asked(address: &Address, dir: &Path) -> Option<Self> {
        let (status, _) = agent::look(address, PATIENCE).ok()?;
        let is_here = |database: &&DatabaseStatus| Path::new(&database.dir) == dir;
        let database = status.databases.iter().find(is_here)?;
        let length = Duration::from_millis(database.age_ms);
        let why = database
            .why
            .as_ref()
            .map(|why| format!(": {}", escaped(why)));
        Some(Self {
            from: "agent",
            syncing: Some(!TROUBLE.contains(&database.state.as_str())),
            message: format!(
                "{} for {}{}",
                escaped(&database.state),
                shown(length),
                why.unwrap_or_default()
            ),
            state: database.state.clone(),
            length: Some(length),
            next: database.next.clone(),
        })
    }

    fn of_log(answer: &LogAnswer) -> Self {
        Self {
            from: "log",
            state: answer.state.to_owned(),
            syncing: answer.syncing,
            length: answer.duration,
            message: answer.message.clone(),
            next: answer.next.first().map(|next| next.command.clone()),
        }
    }

    /// It is skipped for the lock, of which more is known than the sync says.
    fn is_of_lock(&self) -> bool {
        matches!(
            self.state.as_str(),
            "skipped" | "held" | "unreadable" | "busy"
        )
    }

    /// A line for people; none where there is nothing to say besides the lock, unless they want to know all.
    pub fn line(&self, talk: &Talk) -> Option<String> {
        let is_well =
            self.syncing == Some(true) || matches!(self.state.as_str(), "started" | "unknown");
        if (is_well || self.is_of_lock()) && !talk.is_verbose() {
            return None;
        }
        let color = match self.syncing {
            Some(true) => "32",
            Some(false) => "31",
            None => "33",
        };
        let next = self.next.as_ref().filter(|_| !is_well);
        let next = next.map(|next| format!("; type: {}", escaped(next)));
        let message = talk.painted_data(&self.message, color);
        Some(format!("sync: {message}{}", next.unwrap_or_default()))
    }

    /// `{"from","state","syncing","for_ms","message","next"}`.
    pub fn json(self) -> Value {
        json!({
            "from": self.from,
            "state": self.state,
            "syncing": self.syncing,
            "for_ms": self.length.map(crate::words::millis),
            "message": self.message,
            "next": self.next,
        })
    }
}

impl LogTail {
    /// What has been read so far as a report, and whether the process of the daemon lives.
    fn report(self) -> (LogReport, ProcessState) {
        let (path, mut log) = self.into_timeline();
        let end = LogTime::now();
        log.finish(end);
        let latest = log.agents.latest();
        let state = latest.map(|run| run.process).unwrap_or_default();
        let target = super::target_of(Some(&path));
        let report = LogReport {
            files: vec![path.clone()],
            path: Some(path),
            compressed: Vec::new(),
            log,
            locks: Vec::new(),
            end,
            target,
            host: facts::hostname().map(|name| name.to_string()),
        };
        (report, state)
    }
}
