//! The command of a cycle, from its start to the end of what must end with it.

use std::process::{Child, ExitStatus};
use std::{io, os::fd::AsFd, time::Duration, time::Instant};

use nix::unistd::Pid;
use nix::{
    errno::Errno, poll::PollFd, poll::PollFlags, poll::PollTimeout, poll::poll, sys::signal::Signal,
};
use nix::{sys::wait::Id, sys::wait::WaitPidFlag, sys::wait::WaitStatus, sys::wait::waitid};

use beadlock_base::deadline::{DeadlineWatch, Demand};
use beadlock_base::{process::Stat, sys};
use beadlock_core::gate_loss::GateWatch;

use super::GRACE;
use crate::process_tree::{self, ProcessTree};
use crate::tree_ending::{Asks, Ending, Group, Members, TreeLook, end_all};

/// A command that runs, in a process group of its own.
#[derive(Debug)]
pub(super) struct Work {
    child: Child,
    group: Pid,
    fleet: Option<FleetWork>,
}

/// What a cycle in a fleet has besides.
#[derive(Debug)]
pub(super) struct FleetWork {
    /// When the work ends.
    pub(super) deadline: DeadlineWatch,
    /// All that the command starts, also what leaves its group.
    pub(super) tree: ProcessTree,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// It has ended, and is not reaped yet.
    Ended,
    /// The time is over.
    TimedOut,
    /// The gate is lost.
    GateLost,
    /// The deadline in the fleet has come.
    Deadline,
}

impl Work {
    pub(super) fn new(child: Child, fleet: Option<FleetWork>) -> Self {
        let group = Pid::from_raw(child.id().cast_signed());
        Self {
            child,
            group,
            fleet,
        }
    }

    /// Waits for the command's end without reaping it, so that its PID stays the name of its group.
    pub(super) fn wait(&mut self, bound: Duration, mut watch: Option<&GateWatch>) -> WaitEnd {
        let begun = Instant::now();
        let pidfd = sys::pidfd_open(self.group.as_raw());
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(self.group), flags) {
                Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
                _ => return WaitEnd::Ended,
            }
            if self.demand() > Demand::Nothing {
                return WaitEnd::Deadline;
            }
            let left = bound.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return WaitEnd::TimedOut;
            }
            // Without a pidfd only the clock tells of the end.
            let pause = if pidfd.is_ok() {
                left
            } else {
                left.min(Duration::from_millis(10))
            };
            let millis = i32::try_from(pause.as_millis().max(1)).unwrap_or(i32::MAX);
            let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
            let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut ready: Vec<PollFd<'_>> =
                watch.iter().map(|watch| readable(watch.as_fd())).collect();
            ready.extend(pidfd.iter().map(|pidfd| readable(pidfd.as_fd())));
            ready.extend(
                self.fleet
                    .iter()
                    .flat_map(|fleet| fleet.deadline.fds())
                    .map(readable),
            );
            if poll(&mut ready, timeout).is_ok() && watch.is_some() {
                match ready.first().and_then(PollFd::revents) {
                    Some(events) if events.contains(PollFlags::POLLIN) => return WaitEnd::GateLost,
                    Some(events) if !events.is_empty() => watch = None, // Its thread is gone.
                    _ => {}
                }
            }
        }
    }

    /// Asks it to end, and kills what is left after the grace or at the deadline. Returns when nothing lives any more
    /// of the group, and in a fleet of all that the command has started.
    pub(super) fn end(&mut self) -> io::Result<ExitStatus> {
        end_all(self, Ending::new(Asks::Present, GRACE, Instant::now()));
        self.reap()
    }

    /// It has ended, is not reaped yet, and was killed by a signal.
    pub(super) fn was_killed(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        matches!(
            waitid(Id::Pid(self.group), flags),
            Ok(WaitStatus::Signaled(..))
        )
    }

    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Members for Work {
    fn look(&mut self) -> TreeLook {
        let group = self.group.as_raw();
        match self.fleet.as_ref().map(|fleet| fleet.tree.look(group)) {
            // Where `/proc` is another namespace's, the group is known all the same.
            None | Some(TreeLook::NoneSeen) => Group(self.group).look(),
            Some(look) => look,
        }
    }

    fn signal(&mut self, signal: Signal, to: &[Stat]) {
        Group(self.group).signal(signal, to);
        let mut elsewhere = to.to_vec();
        elsewhere.retain(|stat| stat.pgrp != self.group.as_raw());
        process_tree::signal(&elsewhere, signal);
        if let (Signal::SIGKILL, Some(fleet)) = (signal, &self.fleet)
            && process_tree::end_of(self.group.as_raw()).is_some()
        {
            fleet.tree.kill_orphans(self.group.as_raw());
        }
    }

    fn demand(&mut self) -> Demand {
        self.fleet
            .as_mut()
            .map_or(Demand::Nothing, |fleet| fleet.deadline.demand())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_group_of_zombies_is_gone_and_a_living_one_is_not() {
        let child = Command::new("sleep")
            .arg("60")
            .process_group(0)
            .spawn()
            .unwrap();
        let mut work = Work::new(child, None);
        assert!(matches!(work.look(), TreeLook::Living(living) if living.len() == 1));
        assert_eq!(
            work.wait(Duration::from_millis(20), None),
            WaitEnd::TimedOut
        );
        work.child.kill().unwrap();
        assert_eq!(work.wait(Duration::from_secs(10), None), WaitEnd::Ended);
        assert!(
            work.look() == TreeLook::NoneSeen && work.was_killed(),
            "the leader is a zombie"
        );
        work.reap().unwrap();
        assert_eq!(work.look(), TreeLook::NoneSeen);
    }
}
