//! Waits on descriptors, for a limited time.

use std::os::fd::BorrowedFd;
use std::{thread::sleep, time::Duration};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until one of the descriptors is readable, or for `limit`; a signal's handler ends it too. Answers which
/// are readable.
pub fn wait_for<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], limit: Duration) -> [bool; N] {
    let ready = wait_for_each(&fds, limit);
    std::array::from_fn(|index| ready.get(index) == Some(&true))
}

/// [`wait_for`], for a list.
pub fn wait_for_each(fds: &[Option<BorrowedFd<'_>>], limit: Duration) -> Vec<bool> {
    let mut polled: Vec<PollFd<'_>> = fds
        .iter()
        .flatten()
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    // Rounded up, lest the last millisecond is spent spinning; cut to an hour, after which the caller comes again.
    let millis = limit
        .as_millis()
        .saturating_add(u128::from(!limit.subsec_nanos().is_multiple_of(1_000_000)))
        .min(3_600_000);
    let timeout = PollTimeout::try_from(u32::try_from(millis).unwrap_or(u32::MAX))
        .unwrap_or(PollTimeout::MAX);
    if let Err(errno) = poll(&mut polled, timeout) {
        // EINTR is not an event. Anything else must not become a spin.
        if errno != Errno::EINTR {
            sleep(limit.min(Duration::from_millis(50)));
        }
        return vec![false; fds.len()];
    }
    let mut answers = polled.iter().map(|fd| fd.any().unwrap_or(true));
    fds.iter()
        .map(|fd| fd.is_some() && answers.next().unwrap_or(false))
        .collect()
}
