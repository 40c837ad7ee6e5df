//! The watch over a session in a fleet, while the command runs under it.
//!
//! The library renews the session in threads of its own, and rings a bell. What counts here is CLOCK_BOOTTIME: when the
//! last renewal is too long ago the session is lost, also when nobody rings, because those threads stand still.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, io, time::Duration};

use beadlock_base::deadline::boottime;
use beadlock_base::deadline::{BootTimer, WorkDeadline};
use beadlock_fleet::{Deadlines, FleetAgent, FleetClaim, Permit, SessionStanding};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use beadlock_claim::kept_lock::FleetGuard;
use beadlock_claim::loss::Loss;

/// Hears of each new deadline.
type HearDeadlines = Box<dyn FnMut(WorkDeadline)>;

/// The session in the fleet that is renewed while the command runs.
pub enum FleetSession {
    /// The session of one claim.
    Claim(FleetClaim),
    /// The session of an agent, with the permit for one cycle.
    Right(FleetAgent, Permit),
}

impl FleetSession {
    fn bell(&self) -> BorrowedFd<'_> {
        match self {
            Self::Claim(claim) => claim.bell(),
            Self::Right(agent, _) => agent.bell(),
        }
    }

    fn hear(&self) {
        match self {
            Self::Claim(claim) => claim.hear(),
            // What matters of it is asked for.
            Self::Right(agent, _) => drop(agent.hear()),
        }
    }

    fn standing(&self) -> SessionStanding {
        match self {
            Self::Claim(claim) => claim.standing(),
            Self::Right(_, permit) => permit.standing(),
        }
    }

    fn deadlines(&self) -> Option<Deadlines> {
        match self {
            Self::Claim(claim) => claim.deadlines(),
            Self::Right(_, permit) => Some(permit.deadlines()),
        }
    }
}

/// Watches over a session.
pub struct FleetWatch {
    session: FleetSession,
    /// Readable when the bell rings, and when the work is to be asked to end.
    woken: Epoll,
    timer: BootTimer,
    deadlines: Cell<Deadlines>,
    hear: RefCell<Option<HearDeadlines>>,
}

impl fmt::Debug for FleetWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetWatch")
            .field("deadlines", &self.deadlines)
            .finish_non_exhaustive()
    }
}

impl FleetWatch {
    /// Begins. Fails where there are no descriptors to be had.
    pub fn of(session: FleetSession) -> io::Result<Self> {
        let (woken, timer) = (
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            BootTimer::new()?,
        );
        let event = EpollEvent::new(EpollFlags::EPOLLIN, 0);
        woken.add(session.bell(), event)?;
        woken.add(timer.as_fd(), event)?;
        // Without one there was no renewal.
        let none = Deadlines {
            renewed: Duration::ZERO,
            term: Duration::ZERO,
            kill: Duration::ZERO,
        };
        let deadlines = session.deadlines().unwrap_or(none);
        timer.fire_at(deadlines.term)?;
        Ok(Self {
            session,
            woken,
            timer,
            deadlines: Cell::new(deadlines),
            hear: RefCell::new(None),
        })
    }

    pub fn deadline(&self) -> WorkDeadline {
        of_work(self.deadlines.get())
    }

    /// Calls `hear` with the present deadline now, and with each new one later.
    pub fn tell(&self, mut hear: HearDeadlines) {
        hear(self.deadline());
        self.hear.replace(Some(hear));
    }

    /// Why the work must not begin, or was not protected to its end.
    pub fn over(&self) -> Option<String> {
        match self.session.standing() {
            SessionStanding::Over(loss) => Some(loss.to_string()),
            SessionStanding::Live | SessionStanding::Broken(_) => {
                let deadlines = self.session.deadlines().unwrap_or(self.deadlines.get());
                (boottime() >= deadlines.term).then(|| silent(deadlines))
            }
        }
    }

    /// Ends the session. Fails when no node has answered; then it ends by itself.
    pub fn end(self) -> Result<(), beadlock_fleet::Error> {
        match self.session {
            FleetSession::Claim(claim) => claim.end(),
            FleetSession::Right(agent, permit) => {
                drop(permit);
                agent.end()
            }
        }
    }

    fn say(&self, deadline: WorkDeadline) {
        if let Some(hear) = self.hear.borrow_mut().as_mut() {
            hear(deadline);
        }
    }
}

impl FleetGuard for FleetWatch {
    fn fd(&self) -> BorrowedFd<'_> {
        self.woken.0.as_fd()
    }

    fn look(&self) -> Option<Loss> {
        self.session.hear();
        let standing = self.session.standing();
        if let Some(deadlines) = self
            .session
            .deadlines()
            .filter(|new| *new != self.deadlines.get())
        {
            self.deadlines.set(deadlines);
            self.say(of_work(deadlines));
        }
        let deadlines = self.deadlines.get();
        let left = deadlines.kill.saturating_sub(boottime());
        // Of a timer of ours this does not fail; nothing would wake us then but the bell.
        let _ = self.timer.fire_at(deadlines.term);
        match standing {
            SessionStanding::Over(loss) if loss.kills_at_once() => {
                self.say(WorkDeadline::PASSED);
                Some(Loss::Fleet {
                    why: loss.to_string(),
                    left: Duration::ZERO,
                })
            }
            SessionStanding::Over(loss) => Some(Loss::Fleet {
                why: loss.to_string(),
                left,
            }),
            SessionStanding::Broken(broken) => Some(Loss::Fleet {
                why: broken.to_string(),
                left,
            }),
            SessionStanding::Live if boottime() >= deadlines.term => Some(Loss::Fleet {
                why: silent(deadlines),
                left,
            }),
            SessionStanding::Live => None,
        }
    }
}

fn of_work(Deadlines { term, kill, .. }: Deadlines) -> WorkDeadline {
    WorkDeadline {
        ask_at: term,
        kill_at: kill,
    }
}

fn silent(deadlines: Deadlines) -> String {
    let since = boottime().saturating_sub(deadlines.renewed);
    format!(
        "the session was not renewed for {}",
        beadlock_base::duration::shown(since)
    )
}
