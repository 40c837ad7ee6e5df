//! The permits of cycles, and the running cycles that have to hear of each new deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_base::deadline::{DeadlineSender, WorkDeadline};
use beadlock_base::{deadline::boottime, error::system_words, open_directory::OpenDirectory};
use beadlock_core::Skip;
use beadlock_core::decision::{FleetDoubt, NotChecked};
use beadlock_fleet::{
    Config, Deadlines, FleetAgent, Mark, Name, Permit, PermitRefusal, Places, SessionStanding, Who,
    mark,
};
use beadlock_supervise::runner::{GRACE, RunnerDeadline};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use super::{
    FleetStatus, FleetUpdate, FleetVariables, NotEntered, Right, Rights, RunnerWatch, listener,
};

/// So long after the start it is not news that etcd has not answered yet.
const START: Duration = Duration::from_secs(2);

/// For how long one look at all databases waits for its rights.
const ONE_LOOK: Duration = Duration::from_secs(10);

/// How often such a look asks again.
const AGAIN: Duration = Duration::from_millis(20);

/// The agent in its fleet, once a database is there that has joined one.
pub(super) struct FleetRights {
    variables: FleetVariables,
    /// One look at every database: it waits for its rights.
    is_one_look: bool,
    agent: Mutex<Option<(FleetAgent, Instant)>>,
    running: Arc<RunningCycles>,
    updates: UnboundedSender<FleetUpdate>,
}

/// What the listener knows: the cycles that run, and which databases have a name.
#[derive(Default)]
pub(super) struct RunningCycles {
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

impl FleetRights {
    pub(super) fn new(
        variables: FleetVariables,
        is_one_look: bool,
        updates: UnboundedSender<FleetUpdate>,
    ) -> Self {
        let (agent, running) = Default::default();
        Self {
            variables,
            is_one_look,
            agent,
            running,
            updates,
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
}

impl Rights for FleetRights {
    fn is_one_look(&self) -> bool {
        self.is_one_look
    }

    fn enter(
        &self,
        number: usize,
        dir: &OpenDirectory,
    ) -> Result<Option<Box<dyn Right>>, NotEntered> {
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
                    return Ok(Some(Box::new(CycleRight {
                        permit: Arc::new(permit),
                        mark,
                        running: Arc::clone(&self.running),
                    })));
                }
                Err(refusal) => refusal,
            };
            let is_young = since.elapsed() < START;
            let comes_soon = match &refusal {
                PermitRefusal::Asking => true,
                PermitRefusal::Unreachable { .. } => is_young,
                _ => false,
            };
            match comes_soon {
                true if !self.is_one_look => return Err(NotEntered::Asking),
                true if begun.elapsed() < ONE_LOOK => sleep(AGAIN),
                _ => return Err(NotEntered::Skip(refusal.decision())),
            }
        }
    }

    fn status(&self) -> Option<FleetStatus> {
        let status = locked(&self.agent).as_ref()?.0.status();
        let session = match &status.standing {
            Some(SessionStanding::Live) => "live",
            Some(SessionStanding::Broken(_)) => "broken",
            Some(SessionStanding::Over(_)) => "lost",
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

    fn end(&self) {
        let agent = locked(&self.agent).take();
        // What does not answer now ends by itself.
        let _ = agent.map(|(agent, _)| agent.end());
    }
}

/// A permit, and the mark that it is for.
struct CycleRight {
    permit: Arc<Permit>,
    mark: Mark,
    running: Arc<RunningCycles>,
}

impl std::fmt::Debug for CycleRight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CycleRight")
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl Right for CycleRight {
    fn is_of(&self, gate: Option<BorrowedFd<'_>>) -> bool {
        gate.is_some_and(|gate| matches!(mark::read(gate), Ok(Some(mark)) if mark == self.mark))
    }

    fn runner(&self) -> io::Result<(RunnerDeadline, RunnerWatch)> {
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
                overdue,
                _running: Box::new(Listed {
                    id,
                    running: Arc::clone(&self.running),
                }),
            },
        ))
    }
}

/// The place of a running cycle in the list.
struct Listed {
    id: u64,
    running: Arc<RunningCycles>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&self.running.cycles).remove(&self.id);
    }
}

impl RunningCycles {
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
        SessionStanding::Over(loss) if loss.kills_at_once() => WorkDeadline::PASSED,
        SessionStanding::Live | SessionStanding::Over(_) => WorkDeadline {
            ask_at: term,
            kill_at: kill,
        },
        SessionStanding::Broken(_) => {
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
