//! System calls that no safe crate offers, and the only `unsafe` of the project: flock on a descriptor that is
//! kept, leases, pidfd, renameat2, fork. Linux; each has a portable fallback where it is used.
#![expect(
    unsafe_code,
    reason = "the one module for system calls; each block has its SAFETY comment"
)]

mod flock;
mod lease;
mod process;
mod rename;
mod signals;
mod spawn;
mod start;

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

pub use flock::{Flock, Mode, byte_lock, flock, range_lock};
pub use lease::{drop_lease, lease_unbroken, take_lease, take_write_lease};
pub use process::{ChildEnd, ended_child, pidfd_open, process_id};
pub use rename::{RenameMode, renameat2};
pub use signals::sigqueue;
pub use signals::{at_exit, default_actions, default_in_forks, die_of, exit_at_once, ignore};
pub use spawn::{Spawn, Starting, Waiting, end_with_this_thread, fork_waiting, inherit, inherited};
pub use spawn::{killed_with_this_thread, pass_on, start_in, to_pass_on};
pub use start::{give_back_actions, ignore_size_limit, is_ignored, stdout_was_closed};

/// Whether an open file has a POSIX ACL beyond its mode (Linux). Fails with EBADF for a descriptor for look-ups alone.
pub fn has_access_list(fd: impl AsFd) -> nix::Result<bool> {
    let name = c"system.posix_acl_access";
    // SAFETY: the descriptor is open for as long as it is borrowed, the name ends with a NUL, and with a length of zero
    // nothing is written.
    let length = unsafe {
        libc::fgetxattr(
            fd.as_fd().as_raw_fd(),
            name.as_ptr(),
            std::ptr::null_mut(),
            0,
        )
    };
    match Errno::result(length) {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Forks in this thread, as a program that uses this library may do at any time; the child does `work` and ends,
/// without the end of this process. True: the child came to its end. Only tests do this.
#[doc(hidden)]
pub fn in_a_fork(work: impl FnOnce()) -> std::io::Result<bool> {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    // SAFETY: of the other threads' locks `work` may find only those of the allocator taken, and the C library sees
    // to these.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(waitpid(child, None)? == WaitStatus::Exited(child, 0)),
        ForkResult::Child => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            exit_at_once(i32::from(done.is_err()))
        }
    }
}
