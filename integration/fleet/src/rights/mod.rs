//! The rights of an agent to run cycles, of all its databases under one session (docs/fleet.md).
//!
//! ```text
//! machine.rs   the right of one name, without I/O
//! engine.rs    the thread that asks and gives way
//! decision.rs  what a daemon does without a permit
//! ```

mod decision;
mod engine;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool, atomic::Ordering};
use std::{fmt, io, thread, time::Duration};

use beadlock_base::{duration::shown, escape::escaped};
use beadlock_core::facts;

use crate::deadline::Deadlines;
use crate::etcd::Client;
use crate::session::{LeaseSession, SessionLoss, SessionStanding};
use crate::transactions::SeenClaim;
use crate::wait::Bell;
use crate::{BrokenValue, Config, Error, ErrorKind, Mark, Name, Who};
use machine::{NameRight, NoPermit};

/// A change that [`FleetAgent::hear`] tells the agent of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A session has begun.
    Joined,
    /// A renewal counted: running cycles have new deadlines.
    Renewed,
    /// A cycle of this name is due at once: its right was obtained, or a claim has gone.
    Due(Name),
    /// A claim became known: no new permit until it has gone.
    Claimed(SeenClaim),
    /// Somebody wants the session to end: running work is to be ended. Another session begins.
    Broken(BrokenValue),
    /// The session is lost: running work is to be ended. Another session begins.
    Lost(SessionLoss),
}

/// Why there is no permit for a cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermitRefusal {
    /// A claim stands.
    Held(Box<SeenClaim>),
    /// The right was asked for: a cycle is due when it is there.
    Asking,
    /// No node answers.
    Unreachable {
        /// For how long no node has answered, and why, in words.
        why: String,
    },
    /// The fleet is younger than T.
    New,
    /// The session was lost, or the fleet is not there.
    Lost {
        /// How the session was lost, or that there is no fleet, in words.
        why: String,
    },
    /// A permit will not come by itself: another fleet, a name that is not there, a refusal of the server.
    Failed(Error),
}

impl PermitRefusal {
    /// The reason of the contract; `None`: nothing is in the way, but the right is not there yet.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Held(_) => Some("fleet_held"),
            Self::Asking => None,
            Self::New => Some("fleet_new"),
            Self::Lost { .. } => Some("fleet_lost"),
            Self::Unreachable { .. } | Self::Failed(_) => Some("fleet_unreachable"),
        }
    }
}

impl fmt::Display for PermitRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held(claim) => {
                let (holder, host, pid) = (
                    escaped(&claim.value.holder),
                    escaped(&claim.value.host),
                    claim.value.pid,
                );
                write!(f, "held in the fleet by {holder} (PID {pid} on {host})")
            }
            Self::Asking => f.write_str("fleet: the right to run cycles was asked for"),
            Self::New => f.write_str("fleet: it is younger than 15s"),
            Self::Unreachable { why } | Self::Lost { why } => write!(f, "fleet: {why}"),
            Self::Failed(error) => write!(f, "fleet: {error}"),
        }
    }
}

/// Status of an agent in its fleet, for people and for metrics.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    /// How the agent's session stands; `None`: there is none.
    pub standing: Option<SessionStanding>,
    /// Why there is no session; `None`: there is one.
    pub why: Option<String>,
    /// When work must have ended, as of the last renewal.
    pub deadlines: Option<Deadlines>,
    /// How many names have been asked for.
    pub names: usize,
    /// How many of them have their right.
    pub held: usize,
    /// How many of them wait for a claim to go.
    pub claimed: usize,
    /// How many permits are out.
    pub permits: u32,
    /// How long the last claim waited for this agent to give way, from when the claim became known.
    pub last_yield: Option<Duration>,
}

/// One session, with the rights under it. Work that runs under the session keeps it there.
struct Epoch {
    session: LeaseSession,
    rights: Mutex<BTreeMap<Name, NameRight>>,
}

impl Epoch {
    fn rights(&self) -> MutexGuard<'_, BTreeMap<Name, NameRight>> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Since when no node has answered, and how the last try failed; `why`: where that is not known.
    fn silence(&self, why: &str) -> Without {
        let why = self
            .session
            .failing()
            .map_or_else(|| why.to_owned(), |(_, why)| why);
        Without::Silent(self.session.deadlines().renewed, why)
    }

    fn permits(&self) -> u32 {
        self.rights().values().map(NameRight::permits).sum()
    }
}

/// Why there is no session.
#[derive(Debug, Clone)]
enum Without {
    /// No node has answered since this point of `CLOCK_BOOTTIME`.
    Silent(Duration, String),
    New,
    Lost(String),
    Failed(Error),
}

impl Without {
    fn refusal(self) -> PermitRefusal {
        match self {
            Self::Silent(since, why) => unreachable_since(since, &why),
            Self::New => PermitRefusal::New,
            Self::Lost(why) => PermitRefusal::Lost { why },
            Self::Failed(error) => PermitRefusal::Failed(error),
        }
    }
}

struct Shared {
    client: Arc<Client>,
    who: Who,
    epoch: Mutex<Option<Arc<Epoch>>>,
    without: Mutex<Without>,
    /// The names that rights are asked for.
    wanted: Mutex<BTreeSet<Name>>,
    changes: Mutex<Vec<Change>>,
    last_yield: Mutex<Option<Duration>>,
    is_over: AtomicBool,
    /// Wakes the engine.
    wake: Bell,
    /// Wakes the caller.
    bell: Bell,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn epoch(&self) -> Option<Arc<Epoch>> {
        locked(&self.epoch).clone()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn tell(&self, change: Change) {
        let mut changes = locked(&self.changes);
        // Of renewals only that there was one counts.
        if change != Change::Renewed || !changes.contains(&change) {
            changes.push(change);
        }
        self.bell.ring();
    }
}

/// An agent in its fleet: one session for all databases of a process, and their rights to run cycles.
#[derive(Clone)]
pub struct FleetAgent {
    shared: Arc<Shared>,
    /// Ends the thread with the last of the clones.
    _ending: Arc<Ending>,
}

struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
        self.0.wake.ring();
    }
}

impl FleetAgent {
    /// Starts the thread that keeps the session, and does not wait for etcd.
    ///
    /// # Errors
    /// [`ErrorKind::Config`], [`ErrorKind::Io`]: the certificates of the configuration cannot be read, or the system has no
    /// thread.
    pub fn start(config: Config, who: Who) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::new(
                ErrorKind::Io,
                format!("failed to begin in the fleet: {error}"),
            )
        };
        let shared = Arc::new(Shared {
            client: Arc::new(Client::new(config)?),
            who,
            epoch: Mutex::default(),
            without: Mutex::new(Without::Silent(
                facts::boottime(),
                "no node has been asked yet".to_owned(),
            )),
            wanted: Mutex::default(),
            changes: Mutex::default(),
            last_yield: Mutex::default(),
            is_over: AtomicBool::new(false),
            wake: Bell::new().map_err(failed)?,
            bell: Bell::new().map_err(failed)?,
        });
        let engine = engine::RightsEngine::new(Arc::clone(&shared)).map_err(failed)?;
        thread::Builder::new()
            .name("fleet-agent".to_owned())
            .spawn(move || engine.run())
            .map_err(failed)?;
        Ok(Self {
            _ending: Arc::new(Ending(Arc::clone(&shared))),
            shared,
        })
    }

    /// Readable when something has happened.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Makes the bell silent, and returns the changes since the last call; several renewals are one change.
    pub fn hear(&self) -> Vec<Change> {
        self.shared.bell.hear();
        std::mem::take(&mut *locked(&self.shared.changes))
    }

    /// A permit for one cycle of the database with this mark: its right is held, the deadline lies ahead, and no
    /// claim is known. Makes no request. The first call for a name asks for its right beside the caller.
    ///
    /// # Errors
    /// Why there is no permit.
    pub fn permit(&self, mark: &Mark) -> Result<Permit, PermitRefusal> {
        let shared = &self.shared;
        if locked(&shared.wanted).insert(mark.name.clone()) {
            shared.wake.ring();
        }
        let Some(epoch) = shared.epoch() else {
            return Err(self.without());
        };
        match epoch.session.standing() {
            SessionStanding::Live => {}
            SessionStanding::Over(SessionLoss::Silent { why }) => {
                return Err(epoch.silence(&why).refusal());
            }
            SessionStanding::Over(loss) => {
                return Err(PermitRefusal::Lost {
                    why: loss.to_string(),
                });
            }
            SessionStanding::Broken(broken) => {
                return Err(PermitRefusal::Lost {
                    why: broken.to_string(),
                });
            }
        }
        if epoch.session.known().value.nonce != mark.fleet {
            return Err(PermitRefusal::Failed(crate::connect::other_fleet(
                &shared.client,
                mark,
            )));
        }
        let given = epoch
            .rights()
            .entry(mark.name.clone())
            .or_default()
            .permit();
        match given {
            Ok(()) => Ok(Permit {
                shared: Arc::clone(shared),
                epoch,
                name: mark.name.clone(),
            }),
            Err(NoPermit::Held(claim)) => Err(PermitRefusal::Held(claim)),
            Err(NoPermit::Asking) => Err(match epoch.session.failing() {
                Some((since, why)) => unreachable_since(since, &why),
                None => PermitRefusal::Asking,
            }),
        }
    }

    fn without(&self) -> PermitRefusal {
        locked(&self.shared.without).clone().refusal()
    }

    /// Status of the agent in its fleet, as of now.
    pub fn status(&self) -> AgentStatus {
        let epoch = self.shared.epoch();
        let why = epoch.is_none().then(|| self.without().to_string());
        let (mut held, mut claimed, mut permits) = (0, 0, 0);
        if let Some(epoch) = &epoch {
            for right in epoch.rights().values() {
                held += usize::from(right.is_held());
                claimed += usize::from(right.claim().is_some());
                permits += right.permits();
            }
        }
        AgentStatus {
            standing: epoch.as_ref().map(|epoch| epoch.session.standing()),
            why,
            deadlines: epoch.as_ref().map(|epoch| epoch.session.deadlines()),
            names: locked(&self.shared.wanted).len(),
            held,
            claimed,
            permits,
            last_yield: *locked(&self.shared.last_yield),
        }
    }

    /// Ends the session, when all work under it has ended: nothing is left in etcd.
    ///
    /// # Errors
    /// No node has answered: the rights go by themselves within T.
    pub fn end(&self) -> Result<(), Error> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.wake.ring();
        let epoch = locked(&self.shared.epoch).take();
        let ended = epoch.map_or(Ok(()), |epoch| epoch.session.end());
        ended.map_err(|failure| failure.error(&self.shared.client))
    }
}

fn unreachable_since(since: Duration, why: &str) -> PermitRefusal {
    let silent = shown(facts::boottime().saturating_sub(since));
    PermitRefusal::Unreachable {
        why: format!("no node answered for {silent}: {}", escaped(why)),
    }
}

/// The permit for one cycle. While it is out no claim of this name becomes held, as long as the session stands: its
/// work must end by the deadlines. Dropped, it is given back.
#[must_use = "dropped, the permit is given back"]
pub struct Permit {
    shared: Arc<Shared>,
    epoch: Arc<Epoch>,
    name: Name,
}

impl Permit {
    /// When the cycle must have ended, as of the last renewal of the session that the permit is under.
    pub fn deadlines(&self) -> Deadlines {
        self.epoch.session.deadlines()
    }

    /// How the session stands that the permit is under.
    pub fn standing(&self) -> SessionStanding {
        self.epoch.session.standing()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let is_awaited = self
            .epoch
            .rights()
            .get_mut(&self.name)
            .is_some_and(NameRight::give_back);
        if is_awaited || self.epoch.session.standing() != SessionStanding::Live {
            self.shared.wake.ring();
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
