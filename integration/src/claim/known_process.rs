//! Processes that another process of beadlock is told of.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use beadlock_base::process::{self, Stat};
use beadlock_base::{beside::request_of, process::Liveness};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::event::wait_for;

/// How often a process is looked at where there is no pidfd.
const POLL: Duration = Duration::from_millis(20);

/// A process, told from a later one that has the same PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownProcess {
    pub pid: i32,
    /// None where `/proc` does not say.
    pub start_ticks: Option<u64>,
}

impl KnownProcess {
    pub fn of(pid: i32) -> Self {
        Self {
            pid,
            start_ticks: process::start_ticks(pid.into()),
        }
    }

    /// `stat` is of this process.
    pub fn is(self, stat: &Stat) -> bool {
        stat.pid == self.pid && Some(stat.start_ticks) == self.start_ticks
    }

    /// It has ended, reaped or not, or its PID is another process by now.
    pub fn has_ended(self) -> bool {
        if process::probe(self.pid.into()) == Liveness::Gone {
            return true;
        }
        let Some(stat) = Stat::read(self.pid).filter(|_| process::proc_is_ours()) else {
            return false;
        };
        self.start_ticks
            .is_some_and(|ticks| ticks != stat.start_ticks)
            || stat.is_zombie() && process::is_dead_zombie(self.pid) == Some(true)
    }

    /// Returns once it has ended; `end` is its pidfd.
    pub fn wait(self, end: Option<OwnedFd>) {
        let limit = if end.is_some() { Duration::MAX } else { POLL };
        // This look comes after the descriptor was opened, so the descriptor is of this process.
        while !self.has_ended() && wait_for([end.as_ref().map(AsFd::as_fd)], limit) != [true] {}
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperKind {
    /// It keeps the claim that `acquire` has left behind.
    LeaseKeeper,
    Watchdog,
}

impl HelperKind {
    /// By the request on its command line; `None`: it is another process.
    pub fn of(pid: i32) -> Option<Self> {
        let request: Map<String, Value> = request_of(pid)?;
        match request.keys().next()?.as_str() {
            "LeaseKeeper" => Some(Self::LeaseKeeper),
            "Watchdog" => Some(Self::Watchdog),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::sys::pidfd_open;
    use std::process::Command;

    #[test]
    fn waits_for_the_end_of_a_process_with_a_pidfd_and_without() {
        for with_pidfd in [true, false] {
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            let process = KnownProcess::of(child.id().cast_signed());
            assert!(process.start_ticks.is_some() && !process.has_ended());
            let end = pidfd_open(process.pid).ok().filter(|_| with_pidfd);
            let waiting = std::thread::spawn(move || process.wait(end));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "{with_pidfd}");
            child.kill().unwrap();
            waiting.join().unwrap(); // A zombie has ended.
            assert!(process.has_ended());
            child.wait().unwrap();
            process.wait(pidfd_open(process.pid).ok());
        }
    }

    #[test]
    fn a_pid_that_is_another_process_by_now_is_not_waited_for() {
        let me = KnownProcess::of(std::process::id().cast_signed());
        let earlier = KnownProcess {
            start_ticks: me.start_ticks.map(|ticks| ticks - 1),
            ..me
        };
        assert!(!me.has_ended() && earlier.has_ended());
        earlier.wait(pidfd_open(me.pid).ok());
    }
}
