//! The permits of cycles, and the running cycles that have to hear of each new deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_base::deadline::{DeadlineSender, WorkDeadline};
use beadlock_base::{deadline::boottime, error::system_words, opened::OpenDirectory};
use beadlock_core::Skip;
use beadlock_core::decision::{FleetDoubt, NotChecked};
use beadlock_fleet::{
    Config, Deadlines, FleetAgent, Mark, Name, Permit, Places, Refusal, Standing, Who, mark,
};
use beadlock_supervise::runner::{GRACE, RunnerDeadline};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{FleetStatus, FleetUpdate, FleetVariables, NotEntered, listener};

/// So long after the start it is not news that etcd has not answered yet.
const START: Duration = Duration::from_secs(2);

/// For how long one look at all databases waits for its rights.
const ONE_LOOK: Duration = Duration::from_secs(10);

/// How often such a look asks again.
const AGAIN: Duration = Duration::from_millis(20);

/// The agent in its fleet, once a database is there that has joined one.
pub(crate) struct Fleet {
    variables: FleetVariables,
    /// One look at every database: it waits for its rights.
    is_one_look: bool,
    agent: Mutex<Option<(FleetAgent, Instant)>>,
    running: Arc<Running>,
    updates: UnboundedSender<FleetUpdate>,
}

/// What has happened, for the scheduler.
pub(crate) struct FleetUpdates(UnboundedReceiver<FleetUpdate>);

impl FleetUpdates {
    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> FleetUpdate {
        match self.0.recv().await {
            Some(update) => update,
            None => std::future::pending().await,
        }
    }
}

/// What the listener knows: the cycles that run, and which databases have a name.
#[derive(Default)]
pub(super) struct Running {
    cycles: Mutex<BTreeMap<u64, RunningCycle>>,
    names: Mutex<BTreeMap<Name, BTreeSet<usize>>>,
    next: Mutex<u64>,
}

pub(super) struct RunningCycle {
    permit: Arc<Permit>,
    sender: DeadlineSender,
    overdue: Arc<Notify>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fleet {
    pub(crate) fn new(variables: FleetVariables, is_one_look: bool) -> (Self, FleetUpdates) {
        let (updates, heard) = unbounded_channel();
        let (agent, running) = Default::default();
        (
            Self {
                variables,
                is_one_look,
                agent,
                running,
                updates,
            },
            FleetUpdates(heard),
        )
    }

    /// There is one look at each database, which has to wait for its right.
    pub(crate) fn is_one_look(&self) -> bool {
        self.is_one_look
    }

    /// The right for one cycle of the database in this directory; `None`: it has not joined a fleet. Makes no request
    /// of etcd.
    pub(crate) fn enter(
        &self,
        number: usize,
        dir: &OpenDirectory,
    ) -> Result<Option<Right>, NotEntered> {
        let mark = mark::read(dir).map_err(unusable)?;
        let Some(mark) = mark else { return Ok(None) };
        let (agent, since) = self.agent().map_err(unusable)?;
        locked(&self.running.names)
            .entry(mark.name.clone())
            .or_default()
            .insert(number);
        let begun = Instant::now();
        loop {
            let refusal = match agent.permit(&mark) {
                Ok(permit) => {
                    return Ok(Some(Right {
                        permit: Arc::new(permit),
                        mark,
                        running: Arc::clone(&self.running),
                    }));
                }
                Err(refusal) => refusal,
            };
            let is_young = since.elapsed() < START;
            let comes_soon = match &refusal {
                Refusal::Asking => true,
                Refusal::Unreachable { .. } => is_young,
                _ => false,
            };
            match comes_soon {
                true if !self.is_one_look => return Err(NotEntered::Asking),
                true if begun.elapsed() < ONE_LOOK => sleep(AGAIN),
                _ => return Err(NotEntered::Skip(refusal.decision())),
            }
        }
    }

    fn agent(&self) -> Result<(FleetAgent, Instant), String> {
        let mut agent = locked(&self.agent);
        if let Some(known) = &*agent {
            return Ok(known.clone());
        }
        let FleetVariables {
            named,
            config_home,
            home,
            cwd,
        } = &self.variables;
        let places = Places::of(
            named.as_deref(),
            config_home.as_deref(),
            home.as_deref(),
            cwd,
        );
        let failed = |error: beadlock_fleet::Error| error.to_string();
        let config = Config::read(&places).map_err(failed)?;
        let url = config.url();
        let started = (
            FleetAgent::start(config, Who::this_process()).map_err(failed)?,
            Instant::now(),
        );
        let listening = listener::start(
            started.0.clone(),
            url,
            Arc::clone(&self.running),
            self.updates.clone(),
        );
        listening
            .map_err(|error| format!("failed to begin to listen: {}", system_words(&error)))?;
        Ok(agent.insert(started).clone())
    }

    /// How it fares; `None`: no database has joined.
    pub(crate) fn status(&self) -> Option<FleetStatus> {
        let status = locked(&self.agent).as_ref()?.0.status();
        let session = match &status.standing {
            Some(Standing::Live) => "live",
            Some(Standing::Broken(_)) => "broken",
            Some(Standing::Over(_)) => "lost",
            None => "none",
        };
        let left = |deadlines: Deadlines| deadlines.kill.as_secs_f64() - boottime().as_secs_f64();
        let asked = status.names.saturating_sub(status.held);
        Some(FleetStatus {
            session,
            deadline: status.deadlines.map(left),
            rights: [status.held, status.claimed, asked],
            last_yield: status.last_yield.map(|took| took.as_secs_f64()),
        })
    }

    /// Ends the session, after the last cycle. Blocks, for as long as etcd does not answer.
    pub(crate) fn end(&self) {
        let agent = locked(&self.agent).take();
        // What does not answer now ends by itself.
        let _ = agent.map(|(agent, _)| agent.end());
    }
}

/// The right to run one cycle. Dropped, it is given back.
pub(crate) struct Right {
    permit: Arc<Permit>,
    mark: Mark,
    running: Arc<Running>,
}

impl std::fmt::Debug for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Right")
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl Right {
    /// The mark of the directory whose gate is held is still the one that the right is for.
    pub(crate) fn is_of(&self, gate: Option<impl AsFd>) -> bool {
        gate.is_some_and(|gate| matches!(mark::read(gate), Ok(Some(mark)) if mark == self.mark))
    }

    /// For the runner of the cycle's command: its deadline, and where it hears of the later ones until the watch is
    /// dropped.
    pub(crate) fn runner(&self) -> io::Result<(RunnerDeadline, RunnerWatch)> {
        let (later, sender) = DeadlineSender::pipe()?;
        let overdue = Arc::new(Notify::new());
        let id = {
            let mut next = locked(&self.running.next);
            *next += 1;
            *next
        };
        let cycle = RunningCycle {
            permit: Arc::clone(&self.permit),
            sender,
            overdue: Arc::clone(&overdue),
        };
        // Before the deadline is read: whatever changes then is told.
        locked(&self.running.cycles).insert(id, cycle);
        let first = deadline_of(&self.permit);
        Ok((
            RunnerDeadline { first, later },
            RunnerWatch {
                id,
                running: Arc::clone(&self.running),
                overdue,
            },
        ))
    }
}

/// A running cycle hears of deadlines until this is dropped.
pub(crate) struct RunnerWatch {
    id: u64,
    running: Arc<Running>,
    overdue: Arc<Notify>,
}

impl RunnerWatch {
    /// Returns when the runner should have killed its work, and has not: it may have been stopped.
    pub(crate) async fn overdue(&self) {
        self.overdue.notified().await;
    }
}

impl Drop for RunnerWatch {
    fn drop(&mut self) {
        locked(&self.running.cycles).remove(&self.id);
    }
}

impl Running {
    /// Tells each running cycle its deadline.
    pub(super) fn tell(&self) {
        for cycle in locked(&self.cycles).values_mut() {
            cycle.sender.tell(deadline_of(&cycle.permit));
        }
    }

    /// Those that should have ended so long ago are told to the agent itself. The answer: when to look again.
    pub(super) fn look_for_overdue(&self, grace: Duration) -> Option<Duration> {
        let now = boottime();
        let mut next = None::<Duration>;
        for cycle in locked(&self.cycles).values() {
            let at = deadline_of(&cycle.permit).kill_at + grace;
            if at <= now {
                cycle.overdue.notify_one();
            }
            let again = at.max(now + grace);
            next = Some(next.map_or(again, |next| next.min(again)));
        }
        next
    }

    /// The databases of a name.
    pub(super) fn named(&self, name: &Name) -> Vec<usize> {
        locked(&self.names)
            .get(name)
            .into_iter()
            .flatten()
            .copied()
            .collect()
    }
}

/// When the work under a permit must end.
fn deadline_of(permit: &Permit) -> WorkDeadline {
    let Deadlines { term, kill, .. } = permit.deadlines();
    match permit.standing() {
        Standing::Over(loss) if loss.kills_at_once() => WorkDeadline::PASSED,
        Standing::Live | Standing::Over(_) => WorkDeadline {
            ask_at: term,
            kill_at: kill,
        },
        Standing::Broken(_) => {
            let now = boottime();
            WorkDeadline {
                ask_at: now,
                kill_at: kill.min(now + GRACE),
            }
        }
    }
}

/// The fleet cannot be asked, for this reason.
fn unusable(why: impl Display) -> NotEntered {
    let why = NotChecked::Fleet {
        doubt: FleetDoubt::Unreachable,
        words: format!("fleet: {why}"),
    };
    NotEntered::Skip(Skip::from(why).into())
}
