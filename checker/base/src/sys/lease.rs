//! File leases: the kernel tells that somebody else opens a file.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Which signal a broken lease would send; the kernel's number on every architecture, unknown to the libc crate.
const F_SETSIG: libc::c_int = 10;

fn fcntl_int(
    fd: &impl AsFd,
    command: libc::c_int,
    argument: libc::c_int,
) -> nix::Result<libc::c_int> {
    // SAFETY: the lease and owner commands take an int or nothing, never a pointer; the descriptor is borrowed.
    Errno::result(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), command, argument) })
}

/// Takes a read lease: granted only when nobody has the file open for writing, broken by an open for writing. No signal
/// is ever sent; ask [`lease_unbroken`]. Errors: EAGAIN when somebody has the file open for writing, EACCES when it is
/// another user's, EINVAL where there are no leases.
pub fn take_lease(fd: &impl AsFd) -> nix::Result<()> {
    take(fd, libc::F_RDLCK)
}

/// Takes a write lease: granted only when nobody else has the file open at all; an open then waits until
/// [`drop_lease`]. No signal is ever sent. Errors as [`take_lease`]; EAGAIN also when somebody reads it.
pub fn take_write_lease(fd: &impl AsFd) -> nix::Result<()> {
    take(fd, libc::F_WRLCK)
}

fn take(fd: &impl AsFd, lease: libc::c_int) -> nix::Result<()> {
    fcntl_int(fd, F_SETSIG, libc::SIGURG)?;
    fcntl_int(fd, libc::F_SETLEASE, lease)?;
    if let Err(errno) = fcntl_int(fd, libc::F_SETOWN, 0) {
        drop_lease(fd);
        return Err(errno);
    }
    Ok(())
}

/// True when nobody has opened the file for writing, nor truncated it, since the lease was taken.
pub fn lease_unbroken(fd: &impl AsFd) -> bool {
    fcntl_int(fd, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
}

/// Gives the lease up; a waiting open goes on at once.
pub fn drop_lease(fd: &impl AsFd) {
    // An error means that the lease is gone already.
    let _ = fcntl_int(fd, libc::F_SETLEASE, libc::F_UNLCK);
}
