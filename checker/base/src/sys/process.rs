//! The PID of this process, its children, and the ends of others.

use std::sync::OnceLock;
use std::{
    io, mem::MaybeUninit, os::fd::FromRawFd, os::fd::OwnedFd, sync::atomic::AtomicU32,
    sync::atomic::Ordering,
};

use nix::errno::Errno;

/// A descriptor that becomes readable when the process ends (`pidfd_open(2)`, Linux 5.3); ESRCH, ENOSYS before that.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = Errno::result(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    let fd = i32::try_from(fd).map_err(|_| io::Error::from(Errno::EBADF))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnd {
    /// The child exited with this code.
    Exited(i32),
    /// The child was killed by the signal of this number, which may be a real-time signal.
    Killed(i32),
}

/// The child `pid`, or any child, that has ended, and how; it stays unreaped. ECHILD: there is no such child.
pub fn ended_child(pid: Option<i32>) -> nix::Result<Option<(i32, ChildEnd)>> {
    let (kind, id) = pid.map_or((libc::P_ALL, 0), |pid| (libc::P_PID, pid.unsigned_abs()));
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // All zeros, so that a PID of 0 afterwards says that nothing has ended.
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: `info` is valid for the write of a siginfo_t, and stays so during the call.
    Errno::result(unsafe { libc::waitid(kind, id, info.as_mut_ptr(), flags) })?;
    // SAFETY: zeros are a valid siginfo_t, and so is what the kernel has written over them. The fields are those
    // of SIGCHLD, which is all that waitid writes.
    let (code, pid, status) = unsafe {
        let info = info.assume_init();
        (info.si_code, info.si_pid(), info.si_status())
    };
    let end = if code == libc::CLD_EXITED {
        ChildEnd::Exited(status)
    } else {
        ChildEnd::Killed(status)
    };
    Ok((pid != 0).then_some((pid, end)))
}

/// The PID of this process, for which the kernel is asked once: it is kept in a page that is empty in a fork
/// (`MADV_WIPEONFORK`, Linux 4.14). Where there is no such page the kernel is asked each time.
pub fn process_id() -> u32 {
    static KEPT: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(|| empty_in_a_fork().ok()) else {
        return std::process::id();
    };
    match kept.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            kept.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// A number that is 0, and 0 again in whatever is forked from here. It is there until this process ends.
fn empty_in_a_fork() -> io::Result<&'static AtomicU32> {
    let size = size_of::<AtomicU32>();
    let (access, kind) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    // SAFETY: a new mapping, at an address of the kernel's choice, overlaps nothing.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), size, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is the page that was just mapped, which nobody else knows.
    if let Err(errno) = Errno::result(unsafe { libc::madvise(page, size, libc::MADV_WIPEONFORK) }) {
        // SAFETY: as above, and nobody will know it.
        let _ = unsafe { libc::munmap(page, size) };
        return Err(errno.into());
    }
    // SAFETY: it is all zeros, aligned to a page, never unmapped, and accessed by this reference alone.
    Ok(unsafe { AtomicU32::from_ptr(page.cast()) })
}
