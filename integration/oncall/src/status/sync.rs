//! How the sync of a database fares: what its agent says, where it can be asked, else what its log says
//! (docs/design.md#looking).

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::duration::shown;
use beadlock_base::escape::escaped;
use serde_json::{Value, json};

use crate::agent;
use crate::agent::report::{DatabaseStatus, TROUBLE};
use beadlock_console::talk::Talk;
use beadlock_log::glance::{LogAnswer, LogGlance};

/// How long an agent may take to answer. After that its log is used.
const PATIENCE: Duration = Duration::from_secs(1);

/// The state of a database's sync, by its agent or by its log.
#[derive(Debug)]
pub struct SyncSight {
    /// The source of the state: `agent` or `log`.
    from: &'static str,
    /// A word of the agent's states, or of the answers of `beadlock log`.
    state: String,
    /// Whether the sync is without trouble; `None`: it is not known.
    syncing: Option<bool>,
    /// For how long the sync has been in that state; `None`: not known.
    length: Option<Duration>,
    message: String,
    next: Option<String>,
}

impl SyncSight {
    /// The sync of the database in this directory; `None` where no daemon has logged there.
    pub fn of(dir: &Path) -> Option<Self> {
        let LogGlance { answer, asked_at } = LogGlance::of(dir)?;
        let address = asked_at
            .and_then(|address| Address::parse(OsStr::new(&address)).ok())
            .filter(Address::is_local);
        let of_agent = address.and_then(|address| Self::asked(&address, dir));
        Some(of_agent.unwrap_or_else(|| Self::of_log(&answer)))
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

    /// Whether the lock is the reason for the state: then the look at the lock itself tells more.
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

    /// The JSON object `{"from","state","syncing","for_ms","message","next"}`.
    pub fn json(self) -> Value {
        json!({
            "from": self.from,
            "state": self.state,
            "syncing": self.syncing,
            "for_ms": self.length.map(beadlock_claim::words::millis),
            "message": self.message,
            "next": self.next,
        })
    }
}
