//! The deadline of work in a fleet (docs/design.md#the-fleet): two points of CLOCK_BOOTTIME, from which on the work is
//! asked to end, and killed.
//!
//! One process renews the session. It hands each new deadline through a pipe to every process that has to end the work;
//! each of these acts on its own, also when the first one is stopped or killed. The clock counts the time in which the
//! machine sleeps, and the timers are of that clock. A deadline that has passed is never called off.

use std::time::Duration;
use std::{
    fmt, io, io::PipeReader, io::PipeWriter, io::Write, os::fd::AsFd, os::fd::BorrowedFd,
    os::fd::OwnedFd,
};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::{errno::Errno, sys::time::TimeSpec, unistd::read};

use serde::{Deserialize, Serialize};

/// Fires at a time of the clock that runs on while the machine sleeps (`CLOCK_BOOTTIME`).
#[derive(Debug)]
pub struct BootTimer(TimerFd);

impl BootTimer {
    /// A timer that is not set. Fails where no descriptor is to be had.
    pub fn new() -> nix::Result<Self> {
        TimerFd::new(
            ClockId::CLOCK_BOOTTIME,
            TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
        )
        .map(Self)
    }

    /// Sets the timer: from `time` on, a point of [`boottime`], its descriptor is readable.
    pub fn fire_at(&self, time: Duration) -> nix::Result<()> {
        // Zero would disarm it.
        let at = Expiration::OneShot(TimeSpec::from_duration(time.max(Duration::from_nanos(1))));
        self.0.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)
    }
}

impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The time since boot, by a clock that counts sleep and that nobody sets; zero where there is none.
pub fn boottime() -> Duration {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    now.map(Duration::from).unwrap_or_default()
}

/// When work ends, as points of [`boottime`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkDeadline {
    /// From this point on the work is asked to end.
    pub ask_at: Duration,
    /// From this point on the work is killed.
    pub kill_at: Duration,
}

/// Demands of a deadline on the work at one point in time, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Nothing: the deadline lies ahead.
    Nothing,
    /// The work is to be asked to end.
    Ask,
    /// The work is to be killed.
    Kill,
}

/// A message: both points in nanoseconds. One write of so few bytes is never torn.
const LENGTH: usize = 16;

impl WorkDeadline {
    /// A deadline that has passed: the work is to be killed at once, others may be in already.
    pub const PASSED: Self = Self {
        ask_at: Duration::ZERO,
        kill_at: Duration::ZERO,
    };

    /// The demand of this deadline at `now`, a point of [`boottime`].
    pub fn demands(self, now: Duration) -> Demand {
        match () {
            () if now >= self.kill_at => Demand::Kill,
            () if now >= self.ask_at => Demand::Ask,
            () => Demand::Nothing,
        }
    }

    /// The deadline with the earlier `ask_at` and the earlier `kill_at` of the two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        Self {
            ask_at: self.ask_at.min(other.ask_at),
            kill_at: self.kill_at.min(other.kill_at),
        }
    }

    /// Parses the `Display` form; `None`: the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (ask, kill) = text.split_once('-')?;
        let point = |nanos: &str| nanos.parse().ok().map(Duration::from_nanos);
        Some(Self {
            ask_at: point(ask)?,
            kill_at: point(kill)?,
        })
    }

    fn to_bytes(self) -> [u8; LENGTH] {
        let [ask, kill] = [self.ask_at, self.kill_at].map(nanos);
        (u128::from(ask) << 64 | u128::from(kill)).to_ne_bytes()
    }

    fn of_bytes(bytes: [u8; LENGTH]) -> Self {
        let both = u128::from_ne_bytes(bytes);
        let point = |nanos: u128| Duration::from_nanos((nanos & u128::from(u64::MAX)) as u64);
        Self {
            ask_at: point(both >> 64),
            kill_at: point(both),
        }
    }
}

fn nanos(point: Duration) -> u64 {
    u64::try_from(point.as_nanos()).unwrap_or(u64::MAX)
}

/// Both points in nanoseconds, for a command line.
impl fmt::Display for WorkDeadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", nanos(self.ask_at), nanos(self.kill_at))
    }
}

/// The sending end of the pipe that carries new deadlines.
#[derive(Debug)]
pub struct DeadlineSender(PipeWriter);

impl DeadlineSender {
    /// Makes the pipe: the end that is read, and this end. Writing never blocks.
    pub fn pipe() -> io::Result<(PipeReader, Self)> {
        let (reader, writer) = io::pipe()?;
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((reader, Self(writer)))
    }

    /// Sends a new deadline. A process that has ended, or reads no more, does not get it.
    pub fn tell(&mut self, deadline: WorkDeadline) {
        let _ = self.0.write(&deadline.to_bytes());
    }
}

/// The side that acts: hears of new deadlines, and wakes when the last one comes.
#[derive(Debug)]
pub struct DeadlineWatch {
    /// The end of the pipe that is read; `None` once the other end is closed or reading fails.
    pipe: Option<OwnedFd>,
    timer: BootTimer,
    deadline: WorkDeadline,
    passed: Demand,
}

impl DeadlineWatch {
    /// Begins with the deadline of the last renewal. `pipe` is the end of [`DeadlineSender::pipe`] that is read. Fails
    /// where there is no timer to be had.
    pub fn start(pipe: OwnedFd, deadline: WorkDeadline) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut watch = Self {
            pipe: Some(pipe),
            timer: BootTimer::new()?,
            deadline,
            passed: Demand::Nothing,
        };
        watch.demand();
        Ok(watch)
    }

    /// Descriptors to poll: one of them is readable when [`Self::demand`] is to be asked.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let timer = (self.passed < Demand::Kill).then(|| self.timer.as_fd());
        self.pipe.as_ref().map(AsFd::as_fd).into_iter().chain(timer)
    }

    /// The demand at this moment, after all new deadlines are read. It never becomes less.
    pub fn demand(&mut self) -> Demand {
        self.hear();
        let demand = self.deadline.demands(boottime());
        self.passed = self.passed.max(demand);
        let next = if demand == Demand::Nothing {
            self.deadline.ask_at
        } else {
            self.deadline.kill_at
        };
        if demand < Demand::Kill && self.timer.fire_at(next).is_err() {
            // Setting this timer does not fail. If it did, nothing would wake this process.
            self.passed = Demand::Kill;
        }
        self.passed
    }

    /// Reads the deadlines that were sent meanwhile. The last one counts, but [`WorkDeadline::PASSED`] counts for ever.
    fn hear(&mut self) {
        let mut bytes = [0; 64 * LENGTH];
        while let Some(pipe) = &self.pipe {
            match read(pipe, &mut bytes) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    for message in bytes
                        .get(..count)
                        .unwrap_or_default()
                        .as_chunks::<LENGTH>()
                        .0
                    {
                        if self.deadline != WorkDeadline::PASSED {
                            self.deadline = WorkDeadline::of_bytes(*message);
                        }
                    }
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                // The pipe cannot be read any more; the last deadline stands.
                Err(_) => self.pipe = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    const MS: Duration = Duration::from_millis(1);

    fn in_time(ask: u32, kill: u32) -> WorkDeadline {
        let now = boottime();
        WorkDeadline {
            ask_at: now + MS * ask,
            kill_at: now + MS * kill,
        }
    }

    fn woken(watch: &DeadlineWatch) -> bool {
        let mut fds: Vec<_> = watch
            .fds()
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        poll(&mut fds, PollTimeout::from(20_000_u16)).unwrap() > 0
    }

    #[test]
    fn a_deadline_wakes_asks_and_then_kills() {
        let (reader, mut sender) = DeadlineSender::pipe().unwrap();
        let mut watch = DeadlineWatch::start(reader.into(), in_time(60_000, 70_000)).unwrap();
        assert_eq!(watch.demand(), Demand::Nothing);
        sender.tell(in_time(30, 60));
        let mut seen = Vec::new();
        while watch.demand() != Demand::Kill {
            assert!(woken(&watch));
            let demand = watch.demand();
            if seen.last() != Some(&demand) {
                seen.push(demand);
            }
        }
        assert_eq!(seen.last(), Some(&Demand::Kill));
        assert!(seen.is_sorted(), "{seen:?}");
        sender.tell(in_time(60_000, 70_000));
        assert_eq!(watch.demand(), Demand::Kill, "it is never called off");
    }

    #[test]
    fn the_last_word_counts_and_the_end_of_the_pipe_changes_nothing() {
        let (reader, mut sender) = DeadlineSender::pipe().unwrap();
        let mut watch = DeadlineWatch::start(reader.into(), in_time(0, 70_000)).unwrap();
        assert_eq!(watch.demand(), Demand::Ask);
        let (reader, mut other) = DeadlineSender::pipe().unwrap();
        let mut renewed = DeadlineWatch::start(reader.into(), in_time(60_000, 70_000)).unwrap();
        for _ in 0..1000 {
            other.tell(in_time(60_000, 70_000));
        }
        drop(other);
        assert_eq!(renewed.demand(), Demand::Nothing);
        assert_eq!(renewed.fds().count(), 1, "only the timer is left");
        sender.tell(WorkDeadline::PASSED);
        sender.tell(in_time(60_000, 70_000));
        assert!(woken(&watch));
        assert_eq!(watch.demand(), Demand::Kill);
    }

    #[test]
    fn a_sender_that_nobody_reads_never_blocks() {
        let (_reader, mut sender) = DeadlineSender::pipe().unwrap();
        (0..100_000).for_each(|_| sender.tell(WorkDeadline::PASSED));
    }

    #[test]
    fn a_deadline_survives_the_command_line_and_the_pipe() {
        for deadline in [
            in_time(1, 2),
            WorkDeadline::PASSED,
            WorkDeadline {
                ask_at: MS,
                kill_at: Duration::MAX,
            },
        ] {
            let read = WorkDeadline::parse(&deadline.to_string()).unwrap();
            assert_eq!(read.ask_at, deadline.ask_at);
            assert_eq!(WorkDeadline::of_bytes(deadline.to_bytes()), read);
        }
        for noise in ["", "-", "1", "1-", "a-b", "1-2-3"] {
            assert_eq!(WorkDeadline::parse(noise), None, "{noise}");
        }
    }
}
