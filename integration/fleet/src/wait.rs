//! How threads wait: for a bell, or for a point of `CLOCK_BOOTTIME`, which also passes while the machine sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use beadlock_base::deadline::BootTimer;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A descriptor that is readable from when it was rung until it is heard.
#[derive(Debug)]
pub(crate) struct Bell(EventFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(EventFd::from_flags(
            EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK,
        )?))
    }

    pub(crate) fn ring(&self) {
        // It fails when it has been rung 2^64 times unheard.
        let _ = self.0.write(1);
    }

    pub(crate) fn hear(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits for a bell, for so long at most.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: BootTimer,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            timer: BootTimer::new()?,
        })
    }

    /// Returns when the bell was rung, or at `point`. The bell is heard.
    pub(crate) fn wait(&self, bell: &Bell, point: Duration) {
        let armed = self.timer.fire_at(point).is_ok();
        // A timer that cannot be set must become neither a spin nor a wait for ever.
        let limit = if armed {
            PollTimeout::NONE
        } else {
            PollTimeout::from(100_u8)
        };
        let mut fds = [
            PollFd::new(bell.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.timer.as_fd(), PollFlags::POLLIN),
        ];
        let _ = poll(&mut fds, limit);
        bell.hear();
    }
}
