//! Which process is killed, and when.

use std::fs;
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, Running, wait_until};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::commands::Place;
use super::lock_kind::LockKind;

/// The process that gets SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// beadlock alone. The command and what it has started are ended by those whom it has left behind, where somebody
    /// has to keep the lock up; else they work on, and it is theirs.
    Beadlock,
    /// The command alone, which beadlock sees: this lock is released.
    Command,
    /// beadlock with all in its process group, and the command with all in its own.
    Group,
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// About when the lock stands: also before the command is executed.
    Claimed,
    /// While the command is at work.
    AtWork,
    /// About when it is to be kept up for the first time.
    Heartbeat,
}

/// A holder that was killed.
#[derive(Debug, Clone)]
pub struct Killed {
    pub id: String,
    pub kind: Kind,
}

impl Kind {
    /// Drawn without putting back, so that a short run has each of them too. A tool is its own command.
    fn of(lock_kind: LockKind) -> &'static [Self] {
        match lock_kind {
            LockKind::Tool => &[Self::Beadlock],
            _ => &[Self::Beadlock, Self::Command, Self::Group],
        }
    }
}

/// What is drawn from.
pub struct Urn {
    dice: Dice,
    left: Vec<Kind>,
}

/// One draw.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub kind: Kind,
    moment: Moment,
    pause: Duration,
    command_first: bool,
}

impl Urn {
    pub fn new(dice: Dice) -> Self {
        Self {
            dice,
            left: Vec::new(),
        }
    }

    /// The next one.
    pub fn draw(&mut self, lock_kind: LockKind) -> Plan {
        if self.left.is_empty() {
            self.left = Kind::of(lock_kind).to_vec();
        }
        let dice = &mut self.dice;
        let kind = self
            .left
            .swap_remove(usize::try_from(dice.below(self.left.len() as u64)).expect("an index"));
        let moment = *dice.one_of(&[
            Moment::Claimed,
            Moment::AtWork,
            Moment::AtWork,
            Moment::Heartbeat,
        ]);
        let mut up_to = |micros| Duration::from_micros(dice.below(micros));
        let pause = match moment {
            Moment::Claimed => up_to(15_000),
            Moment::AtWork => up_to(100_000),
            Moment::Heartbeat => {
                lock_kind.beats_after() - Duration::from_millis(20) + up_to(60_000)
            }
        };
        Plan {
            kind,
            moment,
            pause,
            command_first: dice.below(2) == 0,
        }
    }
}

impl Plan {
    /// Waits for its moment in the life of `holder`, and kills. The process that the lock names; None: it has ended
    /// before.
    pub fn carry_out(self, holder: &mut Running, id: &str, place: &Place<'_>) -> Option<Pid> {
        let begun = Instant::now();
        let command = loop {
            assert!(begun.elapsed() < 4 * PATIENCE, "{id} gets no lock");
            if !holder.is_running() {
                return None;
            }
            if let Some(pid) = place.process_of(id, holder.pid())
                && (self.moment == Moment::Claimed || place.has_begun(id))
            {
                break Pid::from_raw(pid);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        std::thread::sleep(self.pause);
        let beadlock = Pid::from_raw(holder.pid());
        if !holder.is_running() || command != beadlock && parent(command) != Some(holder.pid()) {
            return None;
        }
        let sent = match self.kind {
            Kind::Beadlock => kill(beadlock, Signal::SIGKILL),
            Kind::Command => kill(command, Signal::SIGKILL),
            // There is no terminal, so the command leads a group of its own.
            Kind::Group if self.command_first => {
                let _ = killpg(command, Signal::SIGKILL);
                killpg(beadlock, Signal::SIGKILL)
            }
            Kind::Group => {
                let sent = killpg(beadlock, Signal::SIGKILL);
                let _ = killpg(command, Signal::SIGKILL);
                sent
            }
        };
        sent.is_ok().then_some(command)
    }
}

/// Takes an orphan away once it has ended: until then it answers for its lock. Another one's child is another's to
/// reap.
pub fn reap(orphan: Pid) {
    wait_until(PATIENCE, "the orphan ends", || {
        !matches!(
            waitpid(orphan, Some(WaitPidFlag::WNOHANG)),
            Ok(WaitStatus::StillAlive)
        )
    });
}

/// None when there is no such process.
fn parent(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}
