//! A wait that asks, again and again, whether it is to go on: for callers without a descriptor that would tell.

use std::os::fd::{AsFd, BorrowedFd};
use std::{cell::OnceCell, fmt, time::Duration};

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::{sys::signal::Signal, sys::time::TimeSpec};

use crate::observe::{NotAcquired, WaitControl};

/// How often it asks.
const EVERY: Duration = Duration::from_millis(50);

/// Asks every 50 ms. It stops the wait as SIGINT would. Where the system has no clock to give it does not ask.
pub struct CancelCheck<'a> {
    clock: OnceCell<Option<TimerFd>>,
    is_over: &'a mut dyn FnMut() -> bool,
}

impl<'a> CancelCheck<'a> {
    /// The wait is over once `is_over` says so.
    pub fn whether(is_over: &'a mut dyn FnMut() -> bool) -> Self {
        Self {
            clock: OnceCell::new(),
            is_over,
        }
    }
}

fn clock() -> Option<TimerFd> {
    let clock = TimerFd::new(
        ClockId::CLOCK_MONOTONIC,
        TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
    )
    .ok()?;
    let ticks = Expiration::Interval(TimeSpec::from(EVERY));
    clock.set(ticks, TimerSetTimeFlags::empty()).ok()?;
    Some(clock)
}

impl WaitControl for CancelCheck<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        self.clock.get_or_init(clock).as_ref().map(AsFd::as_fd)
    }

    fn stop_reason(&mut self) -> Option<NotAcquired> {
        if let Some(Some(clock)) = self.clock.get() {
            // Not blocking: the tick, or EAGAIN.
            let _ = clock.wait();
        }
        (self.is_over)().then_some(NotAcquired::Signalled(Signal::SIGINT))
    }
}

impl fmt::Debug for CancelCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}
