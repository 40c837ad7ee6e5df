//! Processes that another process of beadlock is told of.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use beadlock_base::helper::kind_of;
use beadlock_core::helper_request;

use beadlock_base::poll::wait_for;

pub use beadlock_base::process::ProcessRef;

/// How often a process is looked at where there is no pidfd.
const POLL: Duration = Duration::from_millis(20);

/// Returns once the process has ended; `end` is its pidfd.
pub fn wait_for_end(process: ProcessRef, end: Option<OwnedFd>) {
    let limit = if end.is_some() { Duration::MAX } else { POLL };
    // This look comes after the descriptor was opened, so the descriptor is of this process.
    while !process.has_ended() && wait_for([end.as_ref().map(AsFd::as_fd)], limit) != [true] {}
}

/// A helper process that outlives `beadlock` for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperKind {
    /// It keeps the claim that `acquire` has left behind.
    LeaseKeeper,
    /// A watchdog, or a gate keeper.
    Watchdog,
}

/// The kind of a lease keeper on its command line.
pub const LEASE_KEEPER: &str = "LeaseKeeper";

impl HelperKind {
    /// By the request on its command line; `None`: it is another process.
    pub fn of(pid: i32) -> Option<Self> {
        match kind_of(pid)?.as_str() {
            LEASE_KEEPER => Some(Self::LeaseKeeper),
            helper_request::KIND => Some(Self::Watchdog),
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
            let process = ProcessRef::of(child.id().cast_signed());
            assert!(process.start_ticks.is_some() && !process.has_ended());
            let end = pidfd_open(process.pid).ok().filter(|_| with_pidfd);
            let waiting = std::thread::spawn(move || wait_for_end(process, end));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "{with_pidfd}");
            child.kill().unwrap();
            waiting.join().unwrap(); // A zombie has ended.
            assert!(process.has_ended());
            child.wait().unwrap();
            wait_for_end(process, pidfd_open(process.pid).ok());
        }
    }

    #[test]
    fn a_pid_that_is_another_process_by_now_is_not_waited_for() {
        let me = ProcessRef::of(std::process::id().cast_signed());
        let earlier = ProcessRef {
            start_ticks: me.start_ticks.map(|ticks| ticks - 1),
            ..me
        };
        assert!(!me.has_ended() && earlier.has_ended());
        wait_for_end(earlier, pidfd_open(me.pid).ok());
    }
}
