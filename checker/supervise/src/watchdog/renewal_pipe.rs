//! The pulse: what a watchdog hears of the heartbeats, and of new deadlines in a fleet, through the pipe that also
//! tells it of its parent's end.

use std::fmt;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use beadlock_base::deadline::boottime;
use beadlock_base::deadline::{BootTimer, Demand, WorkDeadline};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::{errno::Errno, unistd::read};

use beadlock_base::poll::wait_for_each;

/// Hears of each heartbeat, to stop the work where there is none.
pub trait OnRenewal: fmt::Debug + Send {
    /// One that was begun at this time of the clock that counts a suspend has succeeded.
    fn beat(&mut self, begun: Duration);
    /// The lock is lost: there is nothing to be kept up any more.
    fn over(&mut self);
}

/// A message: what it is about, and two points of [`boottime`] in nanoseconds. One write of so few bytes is never torn.
const LENGTH: usize = 24;
/// A heartbeat that was begun at the first point.
const BEAT: u64 = 0;
/// There is nothing to be kept up any more.
const OVER: u64 = 1;
/// The deadline of the first session in a fleet; that of the second one has the next number.
const DEADLINE: u64 = 2;

fn message(about: u64, [first, second]: [Duration; 2]) -> [u8; LENGTH] {
    let nanos = |point: Duration| u64::try_from(point.as_nanos()).unwrap_or(u64::MAX);
    let mut bytes = [0; LENGTH];
    for (to, word) in
        bytes
            .as_chunks_mut::<8>()
            .0
            .iter_mut()
            .zip([about, nanos(first), nanos(second)])
    {
        *to = word.to_ne_bytes();
    }
    bytes
}

/// Where a parent says that its lock was kept up.
#[derive(Debug)]
pub struct RenewalPipe(PipeWriter);

impl RenewalPipe {
    /// On a pipe that will not block.
    pub(super) fn on(pipe: PipeWriter) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self(pipe))
    }
}

impl OnRenewal for RenewalPipe {
    /// A heartbeat that was begun at this time of [`boottime`] has succeeded. A watchdog that reads no more hears
    /// nothing.
    fn beat(&mut self, begun: Duration) {
        let _ = self.0.write(&message(BEAT, [begun, Duration::ZERO]));
    }

    /// The lock is lost: no process is stopped for its sake from now on. One that is stopped by then stays so.
    fn over(&mut self) {
        let _ = self.0.write(&message(OVER, [Duration::ZERO; 2]));
    }
}

impl RenewalPipe {
    /// The session with this number among those of the command has this deadline from now on.
    pub fn deadline(&mut self, session: usize, WorkDeadline { ask_at, kill_at }: WorkDeadline) {
        let _ = self
            .0
            .write(&message(DEADLINE + session as u64, [ask_at, kill_at]));
    }
}

#[derive(Debug)]
pub(super) struct RenewalState {
    last: Duration,
    /// For how long there may be none; `None`: for ever.
    silence: Option<Duration>,
    /// Those of the sessions in a fleet.
    deadlines: Vec<WorkDeadline>,
    /// Where there are none to be had the waits are short.
    timers: Option<[BootTimer; 2]>,
    /// So many reads in a row have failed.
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenewalNews {
    Time,
    End,
    /// A deadline in a fleet has passed.
    Deadline,
}

impl RenewalState {
    pub fn new(silence: Option<Duration>, deadlines: Vec<WorkDeadline>) -> Self {
        let has_times = silence.is_some() || !deadlines.is_empty();
        let timers = if has_times {
            BootTimer::new()
                .and_then(|one| Ok([one, BootTimer::new()?]))
                .ok()
        } else {
            None
        };
        Self {
            last: boottime(),
            silence,
            deadlines,
            timers,
            failures: 0,
        }
    }

    /// The work is to be killed by now.
    pub fn is_past_deadline(&self) -> bool {
        let now = boottime();
        self.deadlines
            .iter()
            .any(|deadline| deadline.demands(now) == Demand::Kill)
    }

    pub fn is_late(&self) -> bool {
        self.silence
            .is_some_and(|silence| boottime().saturating_sub(self.last) >= silence)
    }

    pub fn is_over(&self) -> bool {
        self.silence.is_none()
    }

    /// Waits for what comes through `pipe`, until it is late or past a deadline, or for `limit`.
    pub fn wait(&mut self, pipe: BorrowedFd<'_>, limit: Option<Duration>) -> RenewalNews {
        if self.is_past_deadline() {
            return RenewalNews::Deadline;
        }
        let late = self
            .silence
            .filter(|_| !self.is_late())
            .map(|silence| self.last + silence);
        let kill = self.deadlines.iter().map(|deadline| deadline.kill_at).min();
        let points = [late, kill];
        let mut limit = limit;
        let mut fds = vec![Some(pipe)];
        for (index, at) in points.into_iter().enumerate() {
            let Some(at) = at else { continue };
            let timer = self.timers.as_ref().and_then(|timers| timers.get(index));
            match timer.filter(|timer| timer.fire_at(at).is_ok()) {
                Some(timer) => fds.push(Some(timer.as_fd())),
                None => limit = Some(limit.unwrap_or(SHORT).min(SHORT)),
            }
        }
        let came = match wait_for_each(&fds, limit.unwrap_or(Duration::MAX)).first() {
            Some(true) => self.read(pipe),
            _ => RenewalNews::Time,
        };
        if self.is_past_deadline() {
            RenewalNews::Deadline
        } else {
            came
        }
    }

    fn read(&mut self, pipe: BorrowedFd<'_>) -> RenewalNews {
        let mut bytes = [0; 64 * LENGTH];
        match read(pipe, &mut bytes) {
            Ok(0) => RenewalNews::End,
            Ok(read) => {
                self.failures = 0;
                self.heard(bytes.get(..read).unwrap_or_default());
                RenewalNews::Time
            }
            Err(Errno::EINTR | Errno::EAGAIN) => RenewalNews::Time,
            // Once, it tells nothing of the parent, and a living one's work is not to be ended for it.
            Err(_) if self.failures < FAILURES => {
                self.failures += 1;
                std::thread::sleep(SHORT);
                RenewalNews::Time
            }
            Err(_) => RenewalNews::End,
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        for message in bytes.as_chunks::<LENGTH>().0 {
            let mut words = message
                .as_chunks::<8>()
                .0
                .iter()
                .map(|word| u64::from_ne_bytes(*word));
            let mut point = || words.next().unwrap_or_default();
            let about = point();
            let (first, second) = (Duration::from_nanos(point()), Duration::from_nanos(point()));
            match about {
                BEAT => self.last = self.last.max(first),
                OVER => self.silence = None,
                _ => self.hear_deadline(
                    about - DEADLINE,
                    WorkDeadline {
                        ask_at: first,
                        kill_at: second,
                    },
                ),
            }
        }
    }

    /// One that has passed is never called off.
    fn hear_deadline(&mut self, session: u64, deadline: WorkDeadline) {
        let now = boottime();
        let known = usize::try_from(session)
            .ok()
            .and_then(|session| self.deadlines.get_mut(session));
        if let Some(known) = known.filter(|known| known.demands(now) != Demand::Kill) {
            *known = deadline;
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
        let mut pulse = RenewalPipe::on(writer).unwrap();
        let mut heard = RenewalState::new(Some(Duration::from_millis(30)), Vec::new());
        while !heard.is_late() {
            assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::Time);
        }
        // An old one that was read late counts for nothing.
        pulse.beat(boottime() - Duration::from_secs(1));
        assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::Time);
        assert!(heard.is_late());
        heard.silence = Some(Duration::from_secs(60));
        pulse.beat(boottime());
        assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::Time);
        assert!(!heard.is_late());
        pulse.over();
        heard.wait(reader.as_fd(), None);
        heard.last = Duration::ZERO;
        assert!(!heard.is_late(), "nobody waits for one any more");
        drop(pulse);
        assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::End);
    }

    #[test]
    fn what_cannot_be_read_once_is_no_end_and_what_never_can_is() {
        // It is always readable, and no read of it succeeds.
        let dir = std::fs::File::open("/").unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let mut pulse = RenewalPipe::on(writer).unwrap();
        let mut heard = RenewalState::new(None, Vec::new());
        for _ in 0..2 {
            for _ in 0..FAILURES {
                assert_eq!(heard.wait(dir.as_fd(), None), RenewalNews::Time);
            }
            pulse.beat(boottime());
            assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::Time);
        }
        let last = (0..=FAILURES).map(|_| heard.wait(dir.as_fd(), None)).last();
        assert_eq!(last, Some(RenewalNews::End));
    }

    #[test]
    fn a_deadline_that_is_told_anew_counts_and_one_that_has_passed_stays() {
        let (reader, writer) = io::pipe().unwrap();
        let mut pulse = RenewalPipe::on(writer).unwrap();
        let at = |kill: u64| {
            let kill_at = boottime() + Duration::from_millis(kill);
            WorkDeadline {
                ask_at: kill_at,
                kill_at,
            }
        };
        let mut heard = RenewalState::new(None, vec![at(60_000), at(40)]);
        pulse.deadline(1, at(60_000));
        assert_eq!(heard.wait(reader.as_fd(), None), RenewalNews::Time);
        pulse.deadline(0, at(30));
        while heard.wait(reader.as_fd(), None) != RenewalNews::Deadline {}
        pulse.deadline(0, at(60_000));
        pulse.deadline(7, WorkDeadline::PASSED);
        assert_eq!(heard.read(reader.as_fd()), RenewalNews::Time);
        assert!(heard.is_past_deadline(), "it is never called off");
    }

    #[test]
    fn a_watchdog_that_does_not_read_stops_nobody() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut pulse = RenewalPipe::on(writer).unwrap();
        for _ in 0..100_000 {
            pulse.beat(boottime());
        }
    }
}
