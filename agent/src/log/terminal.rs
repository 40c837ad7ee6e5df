//! stderr, which may be a terminal that does not read (Ctrl-S): nothing may ever wait for it.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A terminal that sees the lines of the log.
pub(super) struct Terminal {
    file: File,
}

impl Terminal {
    /// stderr, when it is a terminal.
    pub(super) fn on_stderr() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        // Opened anew it can be told not to block, which who shares stderr would not expect of it.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let anew = OpenOptions::new().write(true).custom_flags(flags.bits()).open("/proc/self/fd/2");
        let file = anew.or_else(|_| io::stderr().as_fd().try_clone_to_owned().map(File::from));
        file.ok().map(Self::new)
    }

    pub(super) fn new(file: File) -> Self {
        Self { file }
    }

    /// Shows a line if it reads.
    pub(super) fn show(&mut self, line: &str) {
        if has_room(&self.file) {
            let _ = self.file.write_all(line.as_bytes());
        }
    }
}

/// A write would not block.
pub(super) fn has_room(stream: impl AsFd) -> bool {
    let mut streams = [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)];
    poll(&mut streams, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}
