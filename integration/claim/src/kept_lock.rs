//! A lock that stands, and what is done for it while the work goes on: it is watched, and where its protocol goes by
//! time it is kept up too.

use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, path::Path, time::Duration};

use beadlock_core::{gate_loss::GateWatch, take::Held};

use super::lease::renewal_thread::{HeartbeatEvent, RenewalThread};
use super::lease::{FAILURES_IN_A_ROW, LeaseTimes};
use super::loss::{self, EndedWatch, Loss, LossSource, LossWatcher, WatchStart};
use crate::{audit_trail::AuditTrail, error::Error, observe::Notice};
use beadlock_supervise::watchdog::OnRenewal;

/// A claim whose lock stands, and what is done for the lock.
#[derive(Debug)]
pub enum KeptLock {
    /// A lock that is valid for as long as its process lives: it is watched, and not renewed.
    Watched(Held, WatchStart),
    /// A lock that is valid only while heartbeats renew it.
    Beating(RenewalThread),
}

impl KeptLock {
    /// Begins: with heartbeats, where the lock has a `lease`. The guard comes back where the system has no thread to
    /// give.
    pub fn begin(
        held: Held,
        lease: Option<LeaseTimes>,
        events: WatchStart,
    ) -> Result<Self, Box<(Held, Error)>> {
        match lease {
            None => Ok(Self::Watched(held, events)),
            Some(limits) => RenewalThread::of(held, limits, events).map(Self::Beating),
        }
    }

    /// The times of the lock's heartbeats; `None`: it needs none.
    pub fn limits(&self) -> Option<LeaseTimes> {
        match self {
            Self::Watched(..) => None,
            Self::Beating(beats) => Some(beats.limits),
        }
    }

    /// The guard that reports a loss of the lock. `trail` and its observer hear of failed heartbeats.
    pub fn guard<'k>(&'k self, trail: &'k AuditTrail<'k>) -> LossAlarm<'k> {
        match self {
            Self::Watched(held, events) => LossAlarm::Watch(LossWatcher::over(held, *events)),
            Self::Beating(beats) => LossAlarm::Beats(beats, trail),
        }
    }

    /// From now on `pulse` hears of each heartbeat.
    pub fn tell(&self, pulse: Box<dyn OnRenewal>) {
        if let Self::Beating(beats) = self {
            beats.tell(pulse);
        }
    }

    /// The guard of the claim, to end it. `None`: it is not to be had, for a heartbeat hangs.
    pub fn end(self) -> Option<Held> {
        match self {
            Self::Watched(held, _) => Some(held),
            Self::Beating(beats) => beats.end().map(|ended| ended.held),
        }
    }

    /// [`KeptLock::end`] of a claim that any process with its id may release, with what its `guard` has seen of that.
    pub fn end_of_several(self, saw_release: bool) -> Option<EndedWatch> {
        let ended = match self {
            Self::Watched(held, _) => EndedWatch {
                held,
                was_released: false,
            },
            Self::Beating(beats) => beats.end()?,
        };
        Some(EndedWatch {
            was_released: ended.was_released || saw_release,
            ..ended
        })
    }
}

/// The source that reports the loss of a lock, of a gate, or of a claim in a fleet.
#[derive(Debug)]
pub enum LossAlarm<'k> {
    /// By looking at the lock's file.
    Watch(LossWatcher<'k>),
    /// By looking at an outer claim, which somebody else keeps up.
    Outer(LossWatcher<'k>),
    /// By the watch over a gate, which is the directory at the path.
    Gate(&'k GateWatch, &'k Path),
    /// By the heartbeats that keep the lock up; the trail hears of those that fail.
    Beats(&'k RenewalThread, &'k AuditTrail<'k>),
    /// By a session in a fleet.
    Fleet(&'k dyn FleetGuard),
}

/// A session in a fleet, as its claim is watched.
pub trait FleetGuard: fmt::Debug {
    /// Readable when something has happened in it, or its time is over.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Looks: hands on the new deadline, and tells of a loss.
    fn look(&self) -> Option<Loss>;
}

/// A loss, what has happened, and why.
#[derive(Debug)]
pub struct SeenLoss {
    /// How the lock was lost.
    pub loss: Loss,
    /// The cause of the loss in words, from [`Loss::cause`].
    pub cause: String,
}

impl SeenLoss {
    fn of(loss: Loss, path: &Path, id: &str, kept: Option<&Path>) -> Self {
        Self {
            cause: loss.cause(path, id, kept),
            loss,
        }
    }
}

impl LossAlarm<'_> {
    /// Readable when something may have happened to the lock; `None`: nothing wakes it but the clock.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Watch(watch) | Self::Outer(watch) => watch.fd(),
            Self::Gate(watch, _) => Some(watch.as_fd()),
            Self::Beats(beats, _) => Some(beats.fd()),
            Self::Fleet(session) => Some(session.fd()),
        }
    }

    /// Time until the next look is due, unless the guard is woken before.
    pub fn left(&self) -> Duration {
        match self {
            Self::Watch(watch) | Self::Outer(watch) => watch.left(),
            Self::Gate(..) | Self::Fleet(_) => Duration::MAX,
            Self::Beats(beats, _) => beats.left(),
        }
    }

    /// Whether the lock was released by its id. Always false with heartbeats: [`KeptLock::end_of_several`] tells it
    /// then.
    pub fn saw_release(&mut self) -> bool {
        match self {
            Self::Watch(watch) => watch.saw_release(),
            Self::Outer(_) | Self::Gate(..) | Self::Beats(..) | Self::Fleet(_) => false,
        }
    }

    /// Whether the command may have been stopped, and not by itself: it is not known just now whether the lock is still
    /// there.
    pub fn is_late(&self) -> bool {
        match self {
            Self::Watch(_) | Self::Outer(_) | Self::Gate(..) | Self::Fleet(_) => false,
            Self::Beats(beats, _) => beats.are_late(),
        }
    }

    /// How the lock is lost by now, seen twice; `None`: no loss is seen. A gate is not looked at.
    pub fn lost_by_now(&mut self) -> Option<Loss> {
        match self {
            Self::Watch(watch) => loss::now(watch.lock),
            Self::Outer(watch) => {
                loss::now(watch.lock).filter(|loss| !is_a_heartbeat(loss, watch.lock))
            }
            Self::Gate(..) => None,
            Self::Fleet(session) => session.look(),
            Self::Beats(..) => self.look(true).map(|report| report.loss),
        }
    }

    /// Looks, when it is time or when it was woken, and returns a loss. A failed heartbeat is not a loss yet: the
    /// observer and the trail hear of it.
    pub fn look(&mut self, woken: bool) -> Option<SeenLoss> {
        let is_outer = matches!(self, Self::Outer(_));
        let (beats, trail) = match self {
            Self::Watch(watch) | Self::Outer(watch) => {
                let loss = watch.look(woken)?;
                let lock = watch.lock;
                if is_outer && is_a_heartbeat(&loss, lock) {
                    return None;
                }
                return Some(SeenLoss::of(
                    loss,
                    &lock.path(),
                    lock.id(),
                    lock.broken_as().as_deref(),
                ));
            }
            Self::Gate(watch, dir) => {
                let loss = woken.then(|| watch.loss()).flatten()?;
                return Some(SeenLoss::of(Loss::Gate(loss), dir, "", None));
            }
            Self::Fleet(session) => {
                let loss = session.look()?;
                return Some(SeenLoss::of(loss, Path::new(""), "", None));
            }
            Self::Beats(beats, trail) => (*beats, *trail),
        };
        let mut told = None;
        for news in beats.news() {
            match news {
                HeartbeatEvent::Failed { in_a_row, why } => {
                    if [1, FAILURES_IN_A_ROW].contains(&in_a_row) {
                        let failed = Notice::HeartbeatFailed {
                            in_a_row,
                            why: &why,
                        };
                        trail.observer().notice(&failed);
                    }
                    if in_a_row == FAILURES_IN_A_ROW {
                        trail.heartbeat_failed(in_a_row, &why);
                    }
                }
                HeartbeatEvent::Recovered => trail.observer().notice(&Notice::HeartbeatsAgain),
                HeartbeatEvent::Lost(loss, kept) => {
                    told = Some(SeenLoss::of(loss, &beats.path, &beats.id, kept.as_deref()));
                }
            }
        }
        told
    }
}

/// The first of a session's claims, by their places in its list, that is lost by now, seen twice.
pub fn first_lost(guards: &mut [(usize, LossAlarm<'_>)]) -> Option<(usize, Loss)> {
    guards
        .iter_mut()
        .find_map(|(claim, guard)| Some((*claim, guard.lost_by_now()?)))
}

/// The holder of this outer lock has put a new file in the old one's place.
fn is_a_heartbeat(loss: &Loss, lock: &dyn LossSource) -> bool {
    matches!(loss, Loss::Changed(Some(record))
        if record.record_kind().is_judged_by_time() && record.id() == Some(lock.id()))
}
