//! The pulse: what a watchdog hears of the heartbeats, through the pipe that also tells it of its parent's end.

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use beadlock_checker::internal::facts::boottime;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::{errno::Errno, unistd::read};

use crate::claim::event::{BootTimer, wait_for};
use crate::claim::lease::HearHeartbeats;

/// A message: nanoseconds since boot. One write of so few bytes is never torn.
const LENGTH: usize = 8;
/// In place of a time: there is nothing to be kept up any more.
const OVER: u64 = u64::MAX;

/// Where a parent says that its lock was kept up.
#[derive(Debug)]
pub struct Pulse(PipeWriter);

impl Pulse {
    /// On a pipe that will not block.
    pub(super) fn on(pipe: PipeWriter) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self(pipe))
    }
}

impl HearHeartbeats for Pulse {
    /// A heartbeat that was begun at this time of [`boottime`] has succeeded. A watchdog that reads no more hears
    /// nothing.
    fn beat(&mut self, begun: Duration) {
        let nanos = u64::try_from(begun.as_nanos()).unwrap_or(OVER).min(OVER - 1);
        let _ = self.0.write(&nanos.to_ne_bytes());
    }

    /// The lock is lost: no process is stopped for its sake from now on. One that is stopped by then stays so.
    fn over(&mut self) {
        let _ = self.0.write(&OVER.to_ne_bytes());
    }
}

#[derive(Debug)]
pub(super) struct Heard {
    last: Duration,
    /// For how long there may be none; `None`: for ever.
    silence: Option<Duration>,
    /// Where there is none to be had the waits are short.
    timer: Option<BootTimer>,
    /// So many reads in a row have failed.
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Time,
    End,
}

impl Heard {
    pub fn new(silence: Option<Duration>) -> Self {
        let timer = silence.and_then(|_| BootTimer::new().ok());
        Self { last: boottime(), silence, timer, failures: 0 }
    }

    pub fn is_late(&self) -> bool {
        self.silence.is_some_and(|silence| boottime().saturating_sub(self.last) >= silence)
    }

    pub fn is_over(&self) -> bool {
        self.silence.is_none()
    }

    /// Waits for what comes through `pipe`, until it is late or for `limit`.
    pub fn wait(&mut self, pipe: BorrowedFd<'_>, limit: Option<Duration>) -> Came {
        let mut limit = limit;
        if let Some(silence) = self.silence.filter(|_| !self.is_late()) {
            let set = |timer: &BootTimer| timer.fire_at(self.last + silence).is_ok();
            if !self.timer.as_ref().is_some_and(set) {
                limit = Some(limit.unwrap_or(SHORT).min(SHORT));
            }
        }
        let timer = self.timer.as_ref().filter(|_| !self.is_late()).map(AsFd::as_fd);
        match wait_for([Some(pipe), timer], limit.unwrap_or(Duration::MAX)) {
            [true, _] => self.read(pipe),
            [false, _] => Came::Time,
        }
    }

    fn read(&mut self, pipe: BorrowedFd<'_>) -> Came {
        let mut bytes = [0; 64 * LENGTH];
        match read(pipe, &mut bytes) {
            Ok(0) => Came::End,
            Ok(read) => {
                self.failures = 0;
                self.heard(bytes.get(..read).unwrap_or_default());
                Came::Time
            }
            Err(Errno::EINTR | Errno::EAGAIN) => Came::Time,
            // Once, it tells nothing of the parent, and a living one's work is not to be ended for it.
            Err(_) if self.failures < FAILURES => {
                self.failures += 1;
                std::thread::sleep(SHORT);
                Came::Time
            }
            Err(_) => Came::End,
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        for message in bytes.as_chunks::<LENGTH>().0 {
            match u64::from_ne_bytes(*message) {
                OVER => self.silence = None,
                nanos => self.last = self.last.max(Duration::from_nanos(nanos)),
            }
        }
    }
}

/// So many reads in a row may fail before the pipe is taken as ended: it can tell of nothing any more.
const FAILURES: u32 = 3;

/// How often it is looked where no timer does it.
const SHORT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_late_and_the_next_heartbeat_is_not() {
        let (reader, writer) = io::pipe().unwrap();
        let mut pulse = Pulse::on(writer).unwrap();
        let mut heard = Heard::new(Some(Duration::from_millis(30)));
        while !heard.is_late() {
            assert_eq!(heard.wait(reader.as_fd(), None), Came::Time);
        }
        // An old one that was read late counts for nothing.
        pulse.beat(boottime() - Duration::from_secs(1));
        assert_eq!(heard.wait(reader.as_fd(), None), Came::Time);
        assert!(heard.is_late());
        heard.silence = Some(Duration::from_secs(60));
        pulse.beat(boottime());
        assert_eq!(heard.wait(reader.as_fd(), None), Came::Time);
        assert!(!heard.is_late());
        pulse.over();
        heard.wait(reader.as_fd(), None);
        heard.last = Duration::ZERO;
        assert!(!heard.is_late(), "nobody waits for one any more");
        drop(pulse);
        assert_eq!(heard.wait(reader.as_fd(), None), Came::End);
    }

    #[test]
    fn what_cannot_be_read_once_is_no_end_and_what_never_can_is() {
        // It is always readable, and no read of it succeeds.
        let dir = std::fs::File::open("/").unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut pulse = Pulse::on(writer).unwrap();
        let mut heard = Heard::new(None);
        for _ in 0..2 {
            for _ in 0..FAILURES {
                assert_eq!(heard.wait(dir.as_fd(), None), Came::Time);
            }
            pulse.beat(boottime());
            assert_eq!(heard.wait(reader.as_fd(), None), Came::Time);
        }
        let last = (0..=FAILURES).map(|_| heard.wait(dir.as_fd(), None)).last();
        assert_eq!(last, Some(Came::End));
    }

    #[test]
    fn a_watchdog_that_does_not_read_stops_nobody() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut pulse = Pulse::on(writer).unwrap();
        for _ in 0..100_000 {
            pulse.beat(boottime());
        }
    }
}
