//! A wait that asks, again and again, whether it is to go on: for who has no descriptor that would tell.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use beadlock_checker::{Error as CheckerError, system_words};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::attendant::{Attendant, Stopped, Waited};
use crate::failure::Error;

/// How often it asks.
const EVERY: Duration = Duration::from_millis(50);

/// Asks every 50 ms. It stops the wait as SIGINT would.
pub struct Asking<'a> {
    clock: TimerFd,
    is_over: &'a mut dyn FnMut() -> bool,
}

impl<'a> Asking<'a> {
    /// The wait is over once `is_over` says so.
    ///
    /// # Errors
    /// When the system has no clock to give.
    pub fn whether(is_over: &'a mut dyn FnMut() -> bool) -> Result<Self, Error> {
        let failed = |errno: Errno| {
            let error = errno.into();
            Error::io(format!("failed to make a clock for the wait: {}", system_words(&error)), error.kind())
        };
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let clock = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(failed)?;
        let ticks = Expiration::Interval(TimeSpec::from(EVERY));
        clock.set(ticks, TimerSetTimeFlags::empty()).map_err(failed)?;
        Ok(Self { clock, is_over })
    }
}

impl Attendant for Asking<'_> {
    fn signals(&self) -> Option<BorrowedFd<'_>> {
        Some(self.clock.as_fd())
    }

    fn stopped(&mut self) -> Option<Stopped> {
        // Not blocking: the tick, or EAGAIN.
        let _ = self.clock.wait();
        (self.is_over)().then_some(Stopped::Signalled(Signal::SIGINT))
    }

    fn waiting(&mut self, _: &Waited<'_>) {}

    fn no_gate(&mut self, _: &CheckerError) {}
}

impl fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}
