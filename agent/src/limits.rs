//! Limits of the system on descriptors and threads, and the error for a limit that is reached.

use std::io;
use std::os::fd::AsFd;

/// How many descriptors tokio's loop opens: for its polls, and two sockets for the signals.
const DESCRIPTORS_OF_THE_LOOP: usize = 6;

/// Whether there are descriptors for the loop. Without those for its signals tokio panics.
pub(crate) fn has_descriptors_for_the_loop() -> io::Result<()> {
    let another = |_| io::stderr().as_fd().try_clone_to_owned();
    let all: io::Result<Vec<_>> = (0..DESCRIPTORS_OF_THE_LOOP).map(another).collect();
    all.map(drop)
}

/// The error when the system has no thread or descriptor for a daemon to wait with.
pub(crate) fn no_events(error: io::Error) -> io::Error {
    let why = beadlock_base::error::system_words(&error);
    let message = format!(
        "no threads or descriptors to wait with: {why}; look at `ulimit -n` and `ulimit -u`"
    );
    io::Error::new(error.kind(), message)
}
