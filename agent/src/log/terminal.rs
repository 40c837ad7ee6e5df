//! stderr, which may be a terminal that does not read (Ctrl-S): nothing may ever wait for it.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use beadlock_base::regular::CAREFULLY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub(super) fn on_stderr() -> Option<File> {
    if !io::stderr().is_terminal() {
        return None;
    }
    stderr_anew()
        .or_else(|_| io::stderr().as_fd().try_clone_to_owned().map(File::from))
        .ok()
}

/// stderr opened anew, so that it does not block; the others who share it would not expect that of theirs.
pub(crate) fn stderr_anew() -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(CAREFULLY.bits())
        .open("/proc/self/fd/2")
}

/// Shows a line if the terminal reads.
pub(super) fn show(terminal: &mut File, line: &str) {
    if has_room(&*terminal) {
        let _ = terminal.write_all(line.as_bytes());
    }
}

pub(super) fn has_room(stream: impl AsFd) -> bool {
    gets_room(stream, PollTimeout::ZERO)
}

/// A write would not block, now or within this time.
pub(crate) fn gets_room(stream: impl AsFd, wait: PollTimeout) -> bool {
    let mut streams = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    poll(&mut streams, wait).is_ok_and(|ready| ready > 0)
}
