//! A claim of a database in its fleet, for a command (docs/fleet.md). The local claim comes first, and goes last but
//! one.
//!
//! ```text
//! machine.rs  what comes next, without I/O
//! engine.rs   the thread that does it
//! ```

mod engine;
mod machine;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool, atomic::Ordering};
use std::{io, thread, time::Duration};

use beadlock_core::{facts, record::StartedAt};

use crate::deadline::Deadlines;
use crate::etcd::Client;
use crate::keys::Lease;
use crate::session::{LeaseSession, SessionStanding};
use crate::transactions::SeenClaim;
use crate::wait::Bell;
use crate::{Config, Error, ErrorKind, Mark, MemberValue, Who};

/// A request for a claim in the fleet: the database, the holder, and the process.
#[derive(Debug, Clone)]
pub struct FleetClaimRequest {
    /// The mark of the database's directory.
    pub mark: Mark,
    /// The holder's name.
    pub holder: String,
    /// The id of the local claim.
    pub id: String,
    /// The process that claims: this one.
    pub who: Who,
}

/// State of a claim on its way to being held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimState {
    /// No node has answered yet.
    Connecting {
        /// How the last try failed.
        why: Option<Error>,
        /// Since when, by `CLOCK_BOOTTIME`.
        since: Duration,
    },
    /// The fleet is younger than T: nobody may begin.
    New,
    /// Somebody else's claim stands.
    Waiting(SeenClaim),
    /// The claim stands, and these agents may still be in a cycle.
    Draining {
        /// The agents that still have a right, at most 20 of them.
        agents: Vec<AgentSeen>,
        /// Whether there are more agents than these.
        more: bool,
    },
    /// The claim is held: the command may run.
    Held(HeldClaim),
    /// The claim has failed for good, with this error.
    Failed(Error),
}

/// A held claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldClaim {
    /// The fencing token: above every earlier one of this fleet, below 2^53.
    pub token: u64,
    /// The revision that made the claim, which names it.
    pub created: i64,
    /// The session that it belongs to.
    pub session: Lease,
    /// How many agents had a right when the claim was raised.
    pub agents: usize,
    /// On how many hosts those agents were.
    pub hosts: usize,
    /// The clones on whose hosts no session of the fleet is.
    pub not_seen: Vec<MemberValue>,
}

/// An agent that has a right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSeen {
    /// The session of the agent.
    pub session: Lease,
    /// The process of the agent; `None`: its session is gone or cannot be read.
    pub who: Option<Who>,
    /// Since when that session is, by the clock of its host.
    pub since: Option<StartedAt>,
    /// Time until the agent's session lapses, where it has not been renewed for long; `None`: it is renewed, or that
    /// is not known.
    pub gone_within: Option<Duration>,
}

struct Shared {
    client: Arc<Client>,
    request: FleetClaimRequest,
    state: Mutex<ClaimState>,
    session: Mutex<Option<Arc<LeaseSession>>>,
    is_over: AtomicBool,
    /// Wakes the engine.
    wake: Bell,
    /// Wakes the caller.
    bell: Bell,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn session(&self) -> MutexGuard<'_, Option<Arc<LeaseSession>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn set(&self, state: ClaimState) {
        let mut now = self.state();
        if *now != state {
            *now = state;
            self.bell.ring();
        }
    }
}

/// A claim in the fleet, with the thread that obtains it. The thread waits for other claims, then for the agents.
/// Dropped, the claim ends.
#[must_use = "dropped, the claim ends"]
pub struct FleetClaim {
    shared: Arc<Shared>,
    engine: Option<thread::JoinHandle<()>>,
}

impl FleetClaim {
    /// Begins to obtain the claim, and does not wait for etcd: [`Self::state`] says how far the claim is.
    ///
    /// # Errors
    /// [`ErrorKind::Config`], [`ErrorKind::Io`]: the certificates of the configuration cannot be read, or the system has no
    /// thread.
    pub fn begin(config: Config, request: FleetClaimRequest) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::new(
                ErrorKind::Io,
                format!("failed to begin a claim in the fleet: {error}"),
            )
        };
        let shared = Arc::new(Shared {
            client: Arc::new(Client::new(config)?),
            request,
            state: Mutex::new(ClaimState::Connecting {
                why: None,
                since: facts::boottime(),
            }),
            session: Mutex::default(),
            is_over: AtomicBool::new(false),
            wake: Bell::new().map_err(failed)?,
            bell: Bell::new().map_err(failed)?,
        });
        let engine = engine::ClaimEngine::new(Arc::clone(&shared)).map_err(failed)?;
        let thread = thread::Builder::new()
            .name("fleet-claim".to_owned())
            .spawn(move || engine.run())
            .map_err(failed)?;
        Ok(Self {
            shared,
            engine: Some(thread),
        })
    }

    /// Readable when anything that can be asked here may have changed.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Makes the bell silent; to be called before the questions.
    pub fn hear(&self) {
        self.shared.bell.hear();
    }

    /// State of the claim as of now.
    pub fn state(&self) -> ClaimState {
        self.shared.state().clone()
    }

    /// How the session of the claim stands; [`SessionStanding::Live`] before there is one.
    pub fn standing(&self) -> SessionStanding {
        let session = self.shared.session().clone();
        session.map_or(SessionStanding::Live, |session| session.standing())
    }

    /// When the work must have ended, as of the last renewal; `None` before there is a session. They stay as they are
    /// once the session is over.
    pub fn deadlines(&self) -> Option<Deadlines> {
        let session = self.shared.session().clone();
        session.map(|session| session.deadlines())
    }

    /// Whether the command may begin now: to be asked right before it does.
    pub fn may_begin(&self) -> bool {
        matches!(*self.shared.state(), ClaimState::Held(_))
            && self.standing() == SessionStanding::Live
            && self
                .deadlines()
                .is_some_and(|deadlines| facts::boottime() < deadlines.term)
    }

    /// Ends the claim, after the work's whole tree and the local lock. Nothing is left in etcd.
    ///
    /// # Errors
    /// No node has answered: the claim goes by itself within T.
    pub fn end(mut self) -> Result<(), Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.shared.wake.ring();
        if let Some(engine) = self.engine.take() {
            // It ends after the call that it is in.
            let _ = engine.join();
        }
        let session = self.shared.session().take();
        let ended = session.map_or(Ok(()), |session| session.end());
        ended.map_err(|failure| failure.error(&self.shared.client))
    }
}

impl Drop for FleetClaim {
    fn drop(&mut self) {
        if self.engine.is_some() {
            let _ = self.finish();
        }
    }
}
