//! What a runner waits for: the end of the command, the loss of the gate, and the daemon's leave.

use std::{io, os::fd::AsFd, time::Duration, time::Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::{errno::Errno, sys::stat::SFlag, sys::stat::fstat, unistd::Pid};

use crate::{gate_loss::GateWatch, sys};

/// The runner's stdin is a directory where there is a gate.
pub(super) fn has_gate() -> bool {
    fstat(io::stdin())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR)
}

/// What a wait for the command has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// It has ended, and is not reaped yet.
    Ended,
    /// The time is over.
    TimedOut,
    /// The gate is lost.
    GateLost,
}

/// Waits for a child's end without reaping it, so that its PID stays the name of its group.
pub(super) fn wait_for(pid: Pid, bound: Duration, mut watch: Option<&GateWatch>) -> WaitEnd {
    let begun = Instant::now();
    let pidfd = sys::pidfd_open(pid.as_raw());
    loop {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(pid), flags) {
            Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
            _ => return WaitEnd::Ended,
        }
        let left = bound.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return WaitEnd::TimedOut;
        }
        // Without a pidfd only the clock tells of the end.
        let pause = if pidfd.is_ok() { left } else { left.min(Duration::from_millis(10)) };
        let millis = i32::try_from(pause.as_millis().max(1)).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut ready: Vec<PollFd<'_>> = watch.iter().map(|watch| readable(watch.as_fd())).collect();
        ready.extend(pidfd.iter().map(|pidfd| readable(pidfd.as_fd())));
        if poll(&mut ready, timeout).is_ok() && watch.is_some() {
            match ready[0].revents() {
                Some(events) if events.contains(PollFlags::POLLIN) => return WaitEnd::GateLost,
                Some(events) if !events.is_empty() => watch = None, // Its thread is gone.
                _ => {}
            }
        }
    }
}

/// Returns once nobody has the other end of the pipe on descriptor 2: the daemon has left the cycle, or was killed.
pub(super) fn wait_for_reader() {
    loop {
        let stderr = io::stderr();
        // A pipe without a reader tells POLLERR, which needs not be asked for.
        match poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::empty())], PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            _ => return,
        }
    }
}
