//! Locks on open files, which the descriptor keeps.

use std::{io, os::fd::AsFd, os::fd::AsRawFd};

use nix::{errno::Errno, fcntl::FcntlArg, fcntl::fcntl};

words! {
    /// How a file is locked.
    #[derive(serde::Serialize, serde::Deserialize)]
    pub enum Mode {
        /// By one alone: to write.
        Exclusive = "exclusive",
        /// By any number at once, and by no exclusive one: to read.
        Shared = "shared",
    }
}

/// How to ask for a flock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flock {
    /// Take an exclusive lock, or answer busy.
    Try,
    /// Take a shared lock, or answer busy.
    TryShared,
    /// Wait for an exclusive lock.
    Wait,
    /// Wait for a shared lock.
    WaitShared,
    /// Release the lock, for every descriptor of the same open file.
    Unlock,
}

/// `flock(2)`. `Ok(false)` is busy; only [`Flock::Try`] and [`Flock::TryShared`] say so. A signal does not interrupt
/// it. Errors: ENOLCK, EOPNOTSUPP, ENOSYS and the like where the file system knows no flock.
pub fn flock(fd: impl AsFd, how: Flock) -> io::Result<bool> {
    let operation = match how {
        Flock::Try => libc::LOCK_EX | libc::LOCK_NB,
        Flock::TryShared => libc::LOCK_SH | libc::LOCK_NB,
        Flock::Wait => libc::LOCK_EX,
        Flock::WaitShared => libc::LOCK_SH,
        Flock::Unlock => libc::LOCK_UN,
    };
    loop {
        // SAFETY: flock takes no pointers, and the descriptor is open for as long as it is borrowed.
        match Errno::result(unsafe { libc::flock(fd.as_fd().as_raw_fd(), operation) }) {
            Ok(_) => return Ok(true),
            Err(Errno::EINTR) => {}
            Err(Errno::EWOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// A lock on all bytes of a file that belongs to the open file, not to the process (`F_OFD_SETLK`, Linux 3.15): it
/// knows nothing of flocks, nor they of it. Asked for as a [`flock`].
/// Errors: EBADF where the file is not open for writing, or to share it for reading.
pub fn range_lock(fd: impl AsFd, how: Flock) -> io::Result<bool> {
    lock_bytes(fd, how, (0, 0))
}

/// [`range_lock`] on the one byte at `offset` alone, which need not exist. Errors also: EINVAL for a negative offset.
pub fn byte_lock(fd: impl AsFd, how: Flock, offset: i64) -> io::Result<bool> {
    lock_bytes(fd, how, (offset, 1))
}

/// Locks the bytes from a start on, so many; none stands for all.
fn lock_bytes(fd: impl AsFd, how: Flock, (start, count): (i64, i64)) -> io::Result<bool> {
    let kind = match how {
        Flock::Try | Flock::Wait => libc::F_WRLCK,
        Flock::TryShared | Flock::WaitShared => libc::F_RDLCK,
        Flock::Unlock => libc::F_UNLCK,
    };
    let bytes = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: count,
        l_pid: 0,
    };
    loop {
        let waits = matches!(how, Flock::Wait | Flock::WaitShared);
        let command = if waits {
            FcntlArg::F_OFD_SETLKW(&bytes)
        } else {
            FcntlArg::F_OFD_SETLK(&bytes)
        };
        match fcntl(fd.as_fd(), command) {
            Ok(_) => return Ok(true),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}
