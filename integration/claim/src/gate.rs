//! The gate with a bounded wait: the drain (docs/design.md#the-drain).
//!
//! The wait is spent blocked in flock(2), in a thread with its own open of the directory. Beside an agent that comes
//! again at once, a poll may never see the gate free. A helper that gets it too late lets it go at once.

use crate::error::Problem;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{os::fd::AsFd, path::Path, sync::Arc, thread};

use beadlock_base::error::Error as CheckerError;
use beadlock_base::{duration::shown, escape::escaped_path};
use beadlock_core::{gate::Gate, own_cycle};
use nix::sys::eventfd::EventFd;

use super::event::{bell, failed_to};
use crate::error::{Code, Error, Holder};
use crate::observe::{NOTICE_AFTER, NotAcquired, WaitControl, WaitingFor};
use crate::{wait::Deadline, words};
use beadlock_base::poll::wait_for;

/// Takes the gate of `dir`, waiting at most `drain` for a cycle that is running; `reach` is a path that leads there.
/// `Ok(Err(why))`: there can be no gate here.
pub fn take(
    dir: &Path,
    reach: &Path,
    drain: Duration,
    control: &mut dyn WaitControl,
) -> Result<Result<Gate, CheckerError>, NotAcquired> {
    match Gate::try_take(reach) {
        Ok(Some(gate)) => return Ok(Ok(gate)),
        Ok(None) if own_cycle::is_inside(dir) => return Err(inside_own_cycle(dir).into()),
        Ok(None) => {}
        Err(why) => return no_gate(why),
    }
    let helper = Helper::start(reach)?;
    let begun = Instant::now();
    let deadline = Deadline::after(drain);
    let mut notice = Deadline::after(NOTICE_AFTER);
    loop {
        if let Ok(taken) = helper.taken.try_recv() {
            return taken.map(Ok).or_else(no_gate);
        }
        if deadline.is_over() {
            return Err(timed_out(dir, drain, control.advice()).into());
        }
        if notice.is_over() {
            control.waiting(&WaitingFor::Gate {
                dir,
                since: begun.elapsed(),
                left: deadline.left(),
            })?;
            notice = Deadline::after(control.pause());
        }
        let limit = deadline.left().min(notice.left());
        let [_, signalled] = wait_for([Some(helper.bell.as_fd()), control.signals()], limit);
        control.check_stop(signalled)?;
    }
}

/// [`take`] where there is no `--drain`: a time-out gives this advice in its place.
pub fn take_or_advise(
    dir: &Path,
    patience: Duration,
    advice: &str,
    control: &mut dyn WaitControl,
) -> Result<Result<Gate, CheckerError>, NotAcquired> {
    take(dir, dir, patience, control).map_err(|stopped| match stopped {
        NotAcquired::Failed(error) if error.code() == Code::DrainTimeout => {
            timed_out(dir, patience, advice).into()
        }
        stopped => stopped,
    })
}

/// Whether a claim may go on without a gate: not after an error that may pass, such as too many open files.
fn no_gate(why: CheckerError) -> Result<Result<Gate, CheckerError>, NotAcquired> {
    if why.means_no_gate() {
        Ok(Err(why))
    } else {
        Err(why.into())
    }
}

struct Helper {
    taken: Receiver<Result<Gate, CheckerError>>,
    bell: Arc<EventFd>,
}

impl Helper {
    fn start(dir: &Path) -> Result<Self, Error> {
        let bell = Arc::new(bell("make an eventfd for the gate")?);
        let (sender, taken) = mpsc::channel();
        let (ring, dir) = (Arc::clone(&bell), dir.to_owned());
        let work = move || {
            // Nobody there to receive it any more: dropped, and so let go, at once.
            let _ = sender.send(Gate::take_blocking(&dir));
            let _ = ring.write(1);
        };
        let spawned = thread::Builder::new().name("gate".to_owned()).spawn(work);
        spawned.map_err(|error| failed_to("start the thread that waits for the gate", &error))?;
        Ok(Self { taken, bell })
    }
}

/// The gate is that of a cycle of the same thread or task, which would wait for itself.
fn inside_own_cycle(dir: &Path) -> Error {
    let message = format!(
        "this thread or task is inside a sync cycle of {}, which a claim would wait for: it would wait for itself; \
         leave the cycle first",
        escaped_path(dir)
    );
    Error::new(Code::DrainTimeout, message)
        .detailed(format!("gate={}", escaped_path(dir)))
        .held_by(Holder::of_gate(dir))
}

/// The gate did not open in time; `advice` is what to do beside seeing to its holder.
fn timed_out(dir: &Path, drain: Duration, advice: &str) -> Error {
    let path = escaped_path(dir);
    let limit = shown(drain);
    let message = format!(
        "{path} is busy: the gate did not open within {limit}; it is held by {}; {advice}, or see to \
         that process",
        words::gate_holders(dir)
    );
    Error::new(Code::DrainTimeout, message)
        .detailed(format!("gate={path} drain_ms={}", drain.as_millis()))
        .held_by(Holder::of_gate(dir))
        .retry_after(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Uninterrupted;

    #[test]
    fn a_busy_gate_is_waited_for_and_got_when_it_opens() {
        let dir = tempfile::tempdir().unwrap();
        let held = Gate::try_take(dir.path()).unwrap().unwrap();
        let waiter = thread::spawn({
            let dir = dir.path().to_owned();
            move || {
                take(&dir, &dir, Duration::from_secs(30), &mut Uninterrupted)
                    .is_ok_and(|taken| taken.is_ok())
            }
        });
        thread::sleep(Duration::from_millis(20));
        drop(held);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn a_wait_that_ran_out_names_who_has_it_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let held = Gate::try_take(dir.path()).unwrap().unwrap();
        let stopped = take(
            dir.path(),
            dir.path(),
            Duration::from_millis(50),
            &mut Uninterrupted,
        )
        .unwrap_err();
        let NotAcquired::Failed(error) = stopped else {
            panic!("{stopped:?}")
        };
        assert_eq!(error.code(), Code::DrainTimeout);
        assert!(error.is_retryable());
        let me = format!("PID {} (", std::process::id());
        assert!(error.to_string().contains(&me), "{error}");
        drop(held);
        // The helper that was too late gets it now, and lets it go at once.
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut free = 0;
        while free < 20 {
            assert!(Instant::now() < deadline, "the late helper keeps the gate");
            free = if matches!(Gate::try_take(dir.path()), Ok(Some(_))) {
                free + 1
            } else {
                0
            };
            thread::sleep(Duration::from_millis(2));
        }
    }
}
