//! The heartbeats of a lock that is judged by time (section 5 in docs/protocols/tower.md#the-requirements; of a
//! directory's lock its refreshes): a thread says in the lock file, again and again, that its holder lives. It has the
//! guard of the lock meanwhile, and nothing else to do: no output and no wait delays it.
//!
//! Times are those of a clock that runs on while the machine sleeps (`CLOCK_BOOTTIME`). After a suspend the first
//! thing is a heartbeat, by compare and swap, so that it is known whose the lock is. A step of the wall clock, by
//! which the others judge, has the same effect.
//!
//! What fails is tried again after an eighth of the TTL, or an interval where that is less, so that the third failure
//! in a row comes before the lock is stale. A holder that cannot refresh it any more has lost it a little before that
//! ([`LeaseTimes`]).

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{path::PathBuf, thread, time::Duration};

use beadlock_base::deadline::boottime;
use beadlock_core::facts;
use beadlock_core::take::{Heartbeat, Held};
use nix::sys::eventfd::EventFd;

use super::LeaseTimes;
use crate::error::Error;
use crate::event::{bell, failed_to};
use crate::loss::{self, CONFIRM, EndedWatch, Loss, LossWatchState, WatchStart};
use beadlock_base::deadline::BootTimer;
use beadlock_base::poll::wait_for;
use beadlock_supervise::watchdog::OnRenewal;

const PREPARE: &str = "prepare the heartbeats";
/// For how long the gate is waited for, at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// For how long the gate is waited for, at least.
const SHORTLY: Duration = Duration::from_millis(20);
/// For how long a heartbeat that came too late is remembered.
const RECENTLY: Duration = Duration::from_secs(2);
/// For how long the end of a heartbeat that is under way is waited for.
const LAST_BEAT: Duration = Duration::from_secs(10);

/// An event of a lock's heartbeats: a failure, a recovery, or the loss of the lock.
#[derive(Debug, Clone, PartialEq)]
pub enum HeartbeatEvent {
    /// One has failed, and is tried again.
    Failed {
        /// How many have failed since the last one that succeeded, with this one.
        in_a_row: u32,
        /// The words of its error.
        why: String,
    },
    /// One has succeeded after some that failed.
    Recovered,
    /// The lock is lost; the path is the file in which `break` has kept it, where it was broken.
    Lost(Loss, Option<PathBuf>),
}

/// The heartbeats of one lock. Their thread has the guard of the lock until [`RenewalThread::end`].
#[derive(Debug)]
pub struct RenewalThread {
    shared: Arc<Shared>,
    ended: Receiver<EndedWatch>,
    pub(crate) path: PathBuf,
    pub(crate) id: String,
    pub(crate) limits: LeaseTimes,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    bell: EventFd,
    /// Rings for the thread: it is to end.
    stop: EventFd,
}

#[derive(Debug)]
struct State {
    news: Vec<HeartbeatEvent>,
    /// When the last one that succeeded was begun.
    last: Duration,
    under_way: Option<Duration>,
    pulse: Option<Box<dyn OnRenewal>>,
    /// When the last one that came too late had succeeded.
    was_late: Option<Duration>,
}

impl Shared {
    fn new() -> Result<Self, Error> {
        let state = State {
            news: Vec::new(),
            last: boottime(),
            under_way: None,
            pulse: None,
            was_late: None,
        };
        Ok(Self {
            state: Mutex::new(state),
            bell: bell(PREPARE)?,
            stop: bell(PREPARE)?,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, news: HeartbeatEvent) {
        self.state().news.push(news);
        let _ = self.bell.write(1);
    }
}

impl RenewalThread {
    /// Begins with the lock that was just acquired. The guard comes back where the system has no thread or descriptor
    /// to give.
    pub fn of(
        held: Held,
        limits: LeaseTimes,
        events: WatchStart,
    ) -> Result<Self, Box<(Held, Error)>> {
        let made = Shared::new().and_then(|shared| {
            Ok((
                shared,
                BootTimer::new().map_err(|errno| failed_to(PREPARE, &errno.into()))?,
            ))
        });
        let (shared, timer) = match made {
            Ok(made) => made,
            Err(error) => return Err(Box::new((held, error))),
        };
        let shared = Arc::new(shared);
        let (sender, ended) = mpsc::channel();
        let (path, id) = (held.path(), held.id().to_owned());
        let watch = LossWatchState::new(&held, events);
        let (guards, guard) = mpsc::channel();
        let work = {
            let shared = Arc::clone(&shared);
            move || {
                if let Ok(held) = guard.recv() {
                    Beating {
                        held,
                        watch,
                        shared,
                        timer,
                        limits,
                        wall: wall(),
                        failures: 0,
                    }
                    .until_stopped(&sender);
                }
            }
        };
        if let Err(error) = thread::Builder::new()
            .name("heartbeat".to_owned())
            .spawn(work)
        {
            return Err(Box::new((held, failed_to("start the heartbeats", &error))));
        }
        // The thread waits for the guard.
        let _ = guards.send(held);
        Ok(Self {
            shared,
            ended,
            path,
            id,
            limits,
        })
    }

    /// From now on `pulse` hears of each heartbeat that succeeds.
    pub fn tell(&self, mut pulse: Box<dyn OnRenewal>) {
        let mut state = self.shared.state();
        pulse.beat(state.last);
        state.pulse = Some(pulse);
    }

    /// Whether the last heartbeat is so old that the lock is given up, or was so up to 2 s ago. The command may have
    /// been stopped for that.
    pub fn are_late(&self) -> bool {
        let state = self.shared.state();
        let now = boottime();
        let was_late = state
            .was_late
            .is_some_and(|until| now.saturating_sub(until) < RECENTLY);
        was_late || now.saturating_sub(state.last) >= self.limits.give_up
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    /// Time until the next look is due: the lock is given up then, should a heartbeat hang. At least `again`, or 500 ms
    /// where that is less.
    pub fn left(&self) -> Duration {
        let since = boottime().saturating_sub(self.shared.state().last);
        self.limits
            .give_up
            .saturating_sub(since)
            .max(self.limits.again.min(Duration::from_millis(500)))
    }

    /// The events since the last call, oldest first. A heartbeat that hangs for too long is a loss among them.
    pub fn news(&self) -> Vec<HeartbeatEvent> {
        let _ = self.shared.bell.read();
        let mut state = self.shared.state();
        let mut news = std::mem::take(&mut state.news);
        let now = boottime();
        let silent = now.saturating_sub(state.last);
        // After a suspend the first attempt has its time; one that began before hangs.
        let hangs = state
            .under_way
            .is_some_and(|since| now.saturating_sub(since) >= self.limits.again);
        if hangs
            && silent >= self.limits.give_up
            && !news
                .iter()
                .any(|news| matches!(news, HeartbeatEvent::Lost(..)))
        {
            let why = format!(
                "a heartbeat hangs; the last one was {} s ago",
                silent.as_secs()
            );
            news.push(HeartbeatEvent::Lost(
                Loss::Overdue {
                    why,
                    left: self.limits.left(silent),
                },
                None,
            ));
        }
        news
    }

    /// Ends the heartbeats, and returns the guard of the claim. `None`: a heartbeat hangs, and has the guard.
    pub fn end(self) -> Option<EndedWatch> {
        let _ = self.shared.stop.write(1);
        self.ended.recv_timeout(LAST_BEAT).ok()
    }
}

struct Beating {
    held: Held,
    watch: LossWatchState,
    shared: Arc<Shared>,
    timer: BootTimer,
    limits: LeaseTimes,
    /// The wall clock at the last attempt.
    wall: Duration,
    failures: u32,
}

impl Beating {
    fn until_stopped(mut self, ended: &Sender<EndedWatch>) {
        let was_long =
            facts::age(self.held.record(), None).unwrap_or_default() >= self.limits.interval;
        // The claim may have taken its time.
        let mut due = if was_long {
            boottime()
        } else {
            boottime() + self.limits.interval
        };
        let mut is_lost = false;
        loop {
            let has_jumped = wall().saturating_sub(self.wall) >= self.limits.interval;
            if !is_lost && (boottime() >= due || has_jumped) {
                match self.beat() {
                    Ok(pause) => due = boottime() + pause,
                    Err((loss, is_final)) => {
                        is_lost = is_final;
                        due = boottime() + self.limits.again;
                        self.lose(loss, is_final);
                    }
                }
            }
            let limit = if is_lost {
                Duration::MAX
            } else {
                self.watch.left()
            };
            let _ = self.timer.fire_at(due);
            let timer = (!is_lost).then(|| self.timer.as_fd());
            let watched = if is_lost { None } else { self.watch.fd() };
            let [stopped, _, woken] =
                wait_for([Some(self.shared.stop.as_fd()), timer, watched], limit);
            if stopped {
                break;
            }
            if !is_lost && let Some(loss) = self.watch.look(&self.held, woken) {
                is_lost = true;
                let loss = match loss {
                    Loss::Released if self.stood_still() => Loss::Vanished,
                    loss => loss,
                };
                self.lose(loss, true);
            }
        }
        let was_released = self.saw_release();
        let _ = ended.send(EndedWatch {
            held: self.held,
            was_released,
        });
    }

    /// The lock was released by its id. A lock that was not kept up may have been taken for stale, which leaves the same.
    fn saw_release(&mut self) -> bool {
        !self.stood_still() && self.watch.saw_release(&self.held)
    }

    /// At least one heartbeat is missing.
    fn stood_still(&self) -> bool {
        boottime().saturating_sub(self.shared.state().last) >= 2 * self.limits.interval
    }

    fn lose(&self, loss: Loss, is_final: bool) {
        if is_final {
            // What is asked to end must be able to.
            self.shared
                .state()
                .pulse
                .iter_mut()
                .for_each(|pulse| pulse.over());
        }
        let kept = self.held.broken_as();
        self.shared.tell(HeartbeatEvent::Lost(loss, kept));
    }

    /// Sends one heartbeat. `Ok`: the pause until the next one. `Err`: a loss, and whether it is final.
    fn beat(&mut self) -> Result<Duration, (Loss, bool)> {
        let begun = boottime();
        self.wall = wall();
        self.shared.state().under_way = Some(begun);
        let LeaseTimes { again, give_up, .. } = self.limits;
        let silent = begun.saturating_sub(self.shared.state().last);
        let patience = again
            .min(PATIENCE)
            .min(give_up.saturating_sub(silent))
            .max(SHORTLY);
        let mut heartbeat = self.held.heartbeat_within(patience);
        if matches!(heartbeat, Heartbeat::Lost(_)) {
            // One look proves nothing.
            thread::sleep(CONFIRM);
            heartbeat = self.held.heartbeat_within(patience);
        }
        self.shared.state().under_way = None;
        match heartbeat {
            Heartbeat::Refreshed => {
                let mut state = self.shared.state();
                let now = boottime();
                if now.saturating_sub(state.last) >= self.limits.give_up {
                    state.was_late = Some(now);
                }
                state.last = begun;
                state.pulse.iter_mut().for_each(|pulse| pulse.beat(begun));
                drop(state);
                if std::mem::take(&mut self.failures) > 0 {
                    self.shared.tell(HeartbeatEvent::Recovered);
                }
                Ok(self.limits.interval)
            }
            Heartbeat::Lost(whereabouts) => match loss::loss_of(whereabouts) {
                Some(Loss::Vanished) if self.saw_release() => Err((Loss::Released, true)),
                Some(loss) => Err((loss, true)),
                None => Ok(again),
            },
            Heartbeat::Failed(error) => {
                self.failures += 1;
                let why = error.to_string();
                self.shared.tell(HeartbeatEvent::Failed {
                    in_a_row: self.failures,
                    why: why.clone(),
                });
                let now = boottime();
                let silent = now.saturating_sub(self.shared.state().last);
                if silent >= give_up {
                    return Err((
                        Loss::Overdue {
                            why,
                            left: self.limits.left(silent),
                        },
                        false,
                    ));
                }
                // Not beyond the time when it is given up.
                Ok(again
                    .saturating_sub(now.saturating_sub(begun))
                    .min(give_up - silent))
            }
        }
    }
}

fn wall() -> Duration {
    let now = facts::now().0;
    Duration::try_from(now).unwrap_or_default()
}
