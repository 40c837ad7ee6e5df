//! The threads that ask agents and look at this machine for the view. They are its own, so that neither an agent nor a
//! file system that does not answer stops it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::address::Address;
use serde_json::{Value, json};

use super::app::scale;
use super::row::{LocalLook, LogHistory};
use crate::agent::{self, report::AgentAnswer};
use crate::status::{self, LookAtFleet, StatusScope};
use beadlock_claim::environment::Environment;
use beadlock_claim::protocol::LookOptions;
use beadlock_console::{answers::Answers, talk::Talk};
use beadlock_log::parse::time::LogTime;
use beadlock_log::tail::LogTail;

/// The most directories of agents that are looked at in one round.
const LOOKED_AT: usize = 200;

/// The time after the beginning of a round in which it may begin to read further logs.
const NEW_LOGS: Duration = Duration::from_millis(300);

/// An update for the view.
#[derive(Debug)]
pub enum TopUpdate {
    /// The answer of the agent in this place, or why there is none.
    Agent(usize, Result<AgentAnswer, String>),
    /// The looks at the named targets and at the directories of agents, in their order.
    Looks(Vec<LocalLook>),
}

/// The locks and logs of this machine to look at. The view changes the list.
#[derive(Debug, Default)]
pub struct LookedAt {
    /// The named targets, as they were typed.
    pub targets: Vec<OsString>,
    /// The databases that agents of this machine serve, and whether the lock is looked at besides the log.
    pub directories: Vec<(PathBuf, bool)>,
    /// The history: how many cells, of how many seconds in all.
    pub cells: usize,
    pub seconds: u64,
}

/// Locks the mutex; the content that a thread left when it panicked is as good as before.
pub fn locked(looked_at: &Mutex<LookedAt>) -> std::sync::MutexGuard<'_, LookedAt> {
    looked_at.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks an agent again and again. A message wakes it before its time, and the end of the messages ends it.
pub fn ask_agent(
    place: usize,
    address: Address,
    every: Duration,
    to: Sender<TopUpdate>,
    wake: Receiver<()>,
) {
    let ask = move || {
        loop {
            let heard = agent::look(&address, agent::client::PATIENCE)
                .map(|(status, _)| status)
                .map_err(|none| none.what);
            if to.send(TopUpdate::Agent(place, heard)).is_err() || !waits(&wake, every) {
                return;
            }
        }
    };
    // Without a thread there is nothing to show of it, which the view says.
    drop(thread::Builder::new().spawn(ask));
}

/// Looks at this machine's locks and logs again and again.
pub fn look_here(
    looked_at: Arc<Mutex<LookedAt>>,
    fleet: LookAtFleet,
    environment: Environment,
    every: Duration,
    to: Sender<TopUpdate>,
    wake: Receiver<()>,
) {
    let look = move || {
        let (talk, mut tails) = (Talk::silent(), HashMap::new());
        loop {
            let looks = looks(&looked_at, (&environment, fleet), &talk, &mut tails);
            if to.send(TopUpdate::Looks(looks)).is_err() || !waits(&wake, every) {
                return;
            }
        }
    };
    drop(thread::Builder::new().spawn(look));
}

/// Waits for a message, or for the time `every`. False: the view has ended.
fn waits(wake: &Receiver<()>, every: Duration) -> bool {
    !matches!(
        wake.recv_timeout(every),
        Err(RecvTimeoutError::Disconnected)
    )
}

fn looks(
    looked_at: &Mutex<LookedAt>,
    (environment, fleet): (&Environment, LookAtFleet),
    talk: &Talk,
    tails: &mut HashMap<PathBuf, LogTail>,
) -> Vec<LocalLook> {
    let (names, cells, seconds) = {
        let looked_at = locked(looked_at);
        let directories = looked_at.directories.iter().take(LOOKED_AT);
        // The agent reports the sync of these.
        let directories = directories.map(|(dir, has_lock)| {
            let scope = has_lock.then_some(StatusScope::Lock);
            (dir.clone().into_os_string(), scope)
        });
        let named = looked_at
            .targets
            .iter()
            .map(|target| (target.clone(), Some(StatusScope::LockAndSync)));
        (
            named.chain(directories).collect::<Vec<_>>(),
            looked_at.cells,
            looked_at.seconds,
        )
    };
    let to = LogTime::now();
    let begun = Instant::now();
    let look = |(name, scope): (OsString, Option<StatusScope>)| {
        let answers = match scope {
            Some(scope) => status::run(
                std::slice::from_ref(&name),
                (scope, fleet),
                LookOptions::default(),
                environment,
                talk,
            ),
            None => Answers::default(),
        };
        let error = answers.errors.first().map(ToString::to_string);
        // Where nobody can look, a log might hang, too. Of many logs each round begins some.
        let log = PathBuf::from(&name).join("daemon.log");
        let may_read = error.is_none() && (tails.contains_key(&log) || begun.elapsed() < NEW_LOGS);
        let has_log = may_read && {
            let tail = tails
                .entry(log.clone())
                .or_insert_with(|| LogTail::new(&log));
            tail.read_on()
        };
        let nothing = || {
            error.map_or(
                Value::Null,
                |error| json!({ "verdict": "unreadable", "error": error }),
            )
        };
        let seen = answers.data.into_iter().next().unwrap_or_else(nothing);
        let look = LocalLook {
            name: name.to_string_lossy().into_owned(),
            seen,
            history: None,
        };
        (look, has_log.then_some(log))
    };
    let mut looks: Vec<(LocalLook, Option<PathBuf>)> = names.into_iter().map(look).collect();
    let tail = |log: &Option<PathBuf>| tails.get(log.as_ref()?);
    let first = looks.iter().filter_map(|(_, log)| tail(log)?.first()).min();
    let length = scale(first, to, seconds);
    let from = LogTime(to.0.saturating_sub_unsigned(length.0.saturating_mul(1000)));
    for (look, log) in &mut looks {
        look.history = tail(log).map(|tail| LogHistory {
            cells: tail.cells(from, to, cells),
            length,
        });
    }
    looks.into_iter().map(|(look, _)| look).collect()
}
