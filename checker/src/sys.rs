//! System calls that no safe crate offers, and the only `unsafe` of the project: flock on a descriptor that is
//! kept, leases, pidfd, fork. Linux; each has a portable fallback where it is used.
#![expect(unsafe_code, reason = "the one module for system calls; each block has its SAFETY comment")]

use std::ffi::{CStr, CString};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, signal, sigprocmask};
use nix::unistd::{
    ForkResult, Pid, dup2_stdin, dup2_stdout, execve, fchdir, fork, getpid, getppid, pipe2, setpgid,
};

/// How to ask for a flock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flock {
    /// Take it or say busy.
    Try,
    /// The same for one that others may share.
    TryShared,
    /// Block until it is there.
    Wait,
    /// The same for one that others may share.
    WaitShared,
    /// Let it go, for every descriptor of the same open file.
    Unlock,
}

/// `flock(2)`. `Ok(false)` is busy; only [`Flock::Try`] and [`Flock::TryShared`] say so. A signal does not interrupt
/// it.
///
/// # Errors
/// ENOLCK, EOPNOTSUPP, ENOSYS and the like where the file system knows no flock.
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

/// This machine's host name, without its NUL, in the caller's buffer: nothing is allocated.
///
/// # Errors
/// ENAMETOOLONG where the buffer is too short.
pub(crate) fn host_name(buffer: &mut [u8]) -> nix::Result<&[u8]> {
    // SAFETY: no more is written than the buffer is long, and nothing of it is kept.
    Errno::result(unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) })?;
    let end = buffer.iter().position(|byte| *byte == 0);
    Ok(&buffer[..end.unwrap_or(buffer.len())])
}

/// Whether an open file has a POSIX ACL beyond its mode (Linux). False too where its file system knows none.
///
/// # Errors
/// What the system said; EBADF for a descriptor for look-ups alone.
pub fn has_access_list(fd: impl AsFd) -> nix::Result<bool> {
    let name = c"system.posix_acl_access";
    // SAFETY: the descriptor is open for as long as it is borrowed, the name ends with a NUL, and with a length of zero
    // nothing is written.
    let length = unsafe { libc::fgetxattr(fd.as_fd().as_raw_fd(), name.as_ptr(), std::ptr::null_mut(), 0) };
    match Errno::result(length) {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// A lock on all bytes of a file that belongs to the open file, not to the process (`F_OFD_SETLK`, Linux 3.15): it
/// knows nothing of flocks, nor they of it. Asked for as a [`flock`].
///
/// # Errors
/// EBADF where the file is not open for writing, or to share it for reading.
pub fn range_lock(fd: impl AsFd, how: Flock) -> io::Result<bool> {
    let kind = match how {
        Flock::Try | Flock::Wait => libc::F_WRLCK,
        Flock::TryShared | Flock::WaitShared => libc::F_RDLCK,
        Flock::Unlock => libc::F_UNLCK,
    };
    let all = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        let waits = matches!(how, Flock::Wait | Flock::WaitShared);
        let command = if waits { FcntlArg::F_OFD_SETLKW(&all) } else { FcntlArg::F_OFD_SETLK(&all) };
        match fcntl(fd.as_fd(), command) {
            Ok(_) => return Ok(true),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Which signal a broken lease would send; the kernel's number on every architecture, unknown to the libc crate.
const F_SETSIG: libc::c_int = 10;

fn fcntl_int(fd: &impl AsFd, command: libc::c_int, argument: libc::c_int) -> nix::Result<libc::c_int> {
    // SAFETY: the lease and owner commands take an int or nothing, never a pointer; the descriptor is borrowed.
    Errno::result(unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), command, argument) })
}

/// Takes a read lease: granted only when nobody has the file open for writing, broken by whoever opens it so.
/// No signal is ever sent; ask [`lease_unbroken`].
///
/// # Errors
/// EAGAIN when somebody has the file open for writing, EACCES when it is another user's, EINVAL where there are no
/// leases.
pub fn take_lease(fd: &impl AsFd) -> nix::Result<()> {
    take(fd, libc::F_RDLCK)
}

/// Takes a write lease: granted only when nobody else has the file open at all; whoever opens it then waits until
/// [`drop_lease`]. No signal is ever sent.
///
/// # Errors
/// As [`take_lease`]; EAGAIN also when somebody reads it.
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

/// Nobody has opened the file for writing, nor truncated it, since the lease was taken.
pub fn lease_unbroken(fd: &impl AsFd) -> bool {
    fcntl_int(fd, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
}

/// Gives the lease up; who waits to write goes on at once.
pub fn drop_lease(fd: &impl AsFd) {
    // An error means that there is no lease any more, which is what was asked for.
    let _ = fcntl_int(fd, libc::F_SETLEASE, libc::F_UNLCK);
}

/// A descriptor that becomes readable when the process ends (`pidfd_open(2)`, Linux 5.3).
///
/// # Errors
/// ESRCH when there is no such process, ENOSYS on older kernels.
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
    /// With this exit code.
    Exited(i32),
    /// Killed by this signal's number, which may be a real-time signal's.
    Killed(i32),
}

/// The child `pid`, or any child, that has ended, and how; it stays unreaped. `Ok(None)`: none has.
///
/// # Errors
/// ECHILD when there is no such child, ended or not.
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
    let end = if code == libc::CLD_EXITED { ChildEnd::Exited(status) } else { ChildEnd::Killed(status) };
    Ok((pid != 0).then_some((pid, end)))
}

/// SIGPIPE was ignored when this program was started: Rust's runtime, which ignores it always, comes later.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// SIGXFSZ was: [`ignore_size_limit`] comes later.
static SIGXFSZ_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// stdout was closed then: the runtime puts `/dev/null` in its place, where everything can be written.
static STDOUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// True when this program was started with its stdout closed, so that nobody has what it prints.
pub fn stdout_was_closed() -> bool {
    STDOUT_WAS_CLOSED.load(Ordering::Relaxed)
}

extern "C" fn remember_start() {
    for (signal, was_ignored) in
        [(libc::SIGPIPE, &SIGPIPE_WAS_IGNORED), (libc::SIGXFSZ, &SIGXFSZ_WAS_IGNORED)]
    {
        was_ignored.store(is_ignored_now(signal), Ordering::Relaxed);
    }
    // SAFETY: F_GETFD takes a number that may be no descriptor's, and nothing else.
    let is_open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
    STDOUT_WAS_CLOSED.store(!is_open, Ordering::Relaxed);
}

fn is_ignored_now(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action is given, and `action` is valid for the write of the present one; zeros are valid too.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// This process ignores the signal at present.
pub fn is_ignored(signal: Signal) -> bool {
    is_ignored_now(signal as libc::c_int)
}

// SAFETY: the loader calls what is in this section once, before `main`, in the only thread, with arguments that a
// C function without parameters may ignore. It needs nothing of Rust's runtime: system calls and atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER_START: extern "C" fn() = remember_start;

/// A command that is ready to execute, all of it prepared before the fork.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The path of the program, as found in PATH; it has a slash.
    pub program: &'a CStr,
    /// Its arguments, its own name first.
    pub argv: &'a [CString],
    /// Its environment, `NAME=value` each.
    pub envp: &'a [CString],
    /// Put it in a process group of its own.
    pub own_group: bool,
    /// The signal mask it starts with.
    pub mask: SigSet,
    /// The signal that it gets when this process dies, however that happens (Linux). The kernel ties it to the thread
    /// that forks, which here is the only one there is, and so the main one. A program that is set-user-id or has
    /// capabilities of its own takes it off; what the command starts does not inherit it.
    pub parent_death: Option<Signal>,
    /// Its standard input and output, where they are not ours.
    pub streams: Option<[BorrowedFd<'a>; 2]>,
    /// A descriptor that it inherits beside its streams.
    pub inherited: Option<BorrowedFd<'a>>,
}

/// A forked process that waits for one byte before it executes; its PID is the command's. When this is dropped
/// (or this process dies) it ends without executing; whoever dropped it reaps it.
#[derive(Debug)]
#[must_use = "dropping it ends the process without executing the command"]
pub struct Waiting {
    pid: i32,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Forks the process of a command that is to start later, under the same PID (docs/design.md#start).
///
/// # Errors
/// What pipe or fork said; EDEADLK when this process already has more than one thread, since only a process of
/// one thread may do in the child what is done here.
pub fn fork_waiting(spawn: &Spawn<'_>) -> io::Result<Waiting> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.flatten().count() > 1) {
        return Err(Errno::EDEADLK.into());
    }
    let (go_reader, go) = pipe2(OFlag::O_CLOEXEC)?;
    let (failure, failure_writer) = pipe2(OFlag::O_CLOEXEC)?;
    let parent = getpid();
    // SAFETY: this process has one thread, so the child may do all that a process may.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            if spawn.own_group {
                // The child does it too; whoever comes second is told that it is done already.
                let _ = setpgid(child, child);
            }
            Ok(Waiting { pid: child.as_raw(), go, failure })
        }
        ForkResult::Child => {
            drop((go, failure));
            let code = wait_and_execute(spawn, parent, go_reader, failure_writer);
            // SAFETY: _exit takes an int, and does not run what the parent has registered for its own end.
            unsafe { libc::_exit(code) }
        }
    }
}

/// The child: waits for the byte, executes; returns only when it may not or cannot.
fn wait_and_execute(spawn: &Spawn<'_>, parent: Pid, go: OwnedFd, failure: OwnedFd) -> i32 {
    if let Some(signal) = spawn.parent_death {
        // A parent that died before that is told by the pipe, which comes later.
        if set_pdeathsig(signal).is_err() || getppid() != parent {
            return 125;
        }
    }
    if spawn.own_group {
        let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    }
    let mut byte = [0];
    if std::fs::File::from(go).read_exact(&mut byte).is_err() {
        return 125;
    }
    if let Some([input, output]) = spawn.streams
        && dup2_stdin(input).and_then(|()| dup2_stdout(output)).is_err()
    {
        return 125;
    }
    if let Some(Err(error)) = spawn.inherited.map(pass_on) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let _ = std::fs::File::from(failure).write_all(&errno.to_ne_bytes());
        return 126;
    }
    actions_of_the_start();
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&spawn.mask), None);
    let Err(mut errno) = execve(spawn.program, spawn.argv, spawn.envp);
    if errno == Errno::ENOEXEC {
        // A script without `#!`: what every shell and execvp do.
        let mut argv = vec![c"/bin/sh".to_owned(), spawn.program.to_owned()];
        argv.extend(spawn.argv.iter().skip(1).cloned());
        let Err(again) = execve(c"/bin/sh", &argv, spawn.envp);
        errno = again;
    }
    let _ = std::fs::File::from(failure).write_all(&(errno as i32).to_ne_bytes());
    if errno == Errno::ENOENT { 127 } else { 126 }
}

/// Rust's runtime ignores SIGPIPE, [`ignore_size_limit`] SIGXFSZ. What is executed inherits that only from whoever
/// started us.
fn actions_of_the_start() {
    for (one, was_ignored) in
        [(Signal::SIGPIPE, &SIGPIPE_WAS_IGNORED), (Signal::SIGXFSZ, &SIGXFSZ_WAS_IGNORED)]
    {
        if !was_ignored.load(Ordering::Relaxed) {
            // SAFETY: SIG_DFL is no handler.
            let _ = unsafe { signal(one, SigHandler::SigDfl) };
        }
    }
}

/// What `command` starts gets the actions that this program was started with.
pub fn give_back_actions(command: &mut Command) {
    let give_back = || {
        actions_of_the_start();
        Ok(())
    };
    // SAFETY: between fork and exec it calls only signal(2), which may be called there, and reads atomics.
    unsafe { command.pre_exec(give_back) };
}

/// What `command` starts begins in this directory, wherever its path leads by now. The descriptor may be one for
/// look-ups alone.
pub fn start_in(command: &mut Command, dir: OwnedFd) {
    let enter = move || Ok(fchdir(&dir)?);
    // SAFETY: between fork and exec it calls only fchdir(2), which may be called there, on a descriptor that the
    // closure owns and that is therefore open.
    unsafe { command.pre_exec(enter) };
}

/// The lowest number of a descriptor that a command inherits beside its streams. Shell scripts use those below 10, and
/// service managers and build tools number theirs from 3 on.
const FIRST_INHERITED: RawFd = 20;

/// Another descriptor of the same open file, to be inherited by a command: once [`pass_on`] was called for it. Where
/// the limit of open files is lower than the number that is wanted, it has a lower one, but never a stream's.
///
/// # Errors
/// When there are no more descriptors.
pub fn to_pass_on(fd: impl AsFd) -> io::Result<OwnedFd> {
    let above = |first| fcntl(fd.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(first));
    let fd = above(FIRST_INHERITED).or_else(|_| above(libc::STDERR_FILENO + 1))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whatever this process executes from now on inherits the descriptor.
///
/// # Errors
/// None that is known.
pub fn pass_on(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// What `command` starts inherits the descriptor, and nothing else that this process starts does.
pub fn inherit(command: &mut Command, fd: OwnedFd) {
    // SAFETY: between fork and exec it calls only fcntl(2), which may be called there.
    unsafe { command.pre_exec(move || pass_on(&fd)) };
}

/// What `command` starts is told to end (SIGTERM) when the thread that has started it ends, however it ends (Linux).
pub fn end_with_this_thread(command: &mut Command) {
    let end_with = || {
        // It fails for no signal that there is.
        let _ = set_pdeathsig(Signal::SIGTERM);
        Ok(())
    };
    // SAFETY: between fork and exec it calls only prctl(2), which may be called there.
    unsafe { command.pre_exec(end_with) };
}

/// A write beyond the limit for files (`ulimit -f`) fails with EFBIG from here on, and does not kill this program. What
/// [`fork_waiting`] and [`give_back_actions`] start does not inherit that.
pub fn ignore_size_limit() {
    // It can be ignored, so this cannot fail.
    let _ = ignore(Signal::SIGXFSZ);
}

impl Waiting {
    /// The PID that the command will have.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it execute. That may still take its time, or fail.
    ///
    /// # Errors
    /// EPIPE when the process has ended meanwhile.
    pub fn go(self) -> io::Result<Starting> {
        std::fs::File::from(self.go).write_all(&[1])?;
        Ok(Starting { failure: self.failure })
    }
}

/// A process that was told to execute its command. Readable once it has, or has failed or ended.
#[derive(Debug)]
#[must_use = "an execution that failed is learned here"]
pub struct Starting {
    failure: OwnedFd,
}

impl Starting {
    /// How the execution went; blocks until this is readable.
    ///
    /// # Errors
    /// What `execve` said; the process ends then, with 127 for ENOENT and 126 otherwise, and is unreaped.
    pub fn result(self) -> io::Result<()> {
        let mut errno = [0; 4];
        match std::fs::File::from(self.failure).read_exact(&mut errno) {
            Ok(()) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            // Closed by the execution itself (or by a death before it, which waiting for the process will tell).
            Err(_) => Ok(()),
        }
    }
}

impl AsFd for Starting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.failure.as_fd()
    }
}

/// Gives signals their default action again. SIGCHLD: ended children stay as zombies until they are waited for.
///
/// # Errors
/// EINVAL for one that cannot be changed.
pub fn default_actions(signals: &[Signal]) -> io::Result<()> {
    for one in signals {
        // SAFETY: SIG_DFL is no handler.
        unsafe { signal(*one, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Ignores a signal from here on; what is executed inherits that.
///
/// # Errors
/// EINVAL for one that cannot be ignored.
pub fn ignore(ignored: Signal) -> io::Result<()> {
    // SAFETY: SIG_IGN is no handler.
    unsafe { signal(ignored, SigHandler::SigIgn) }?;
    Ok(())
}

/// Ends this process by `signal` with its default action, so that a shell sees what happened.
pub fn die_of(dying: Signal) {
    let _ = default_actions(&[dying]);
    let mut set = SigSet::empty();
    set.add(dying);
    let _ = sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&set), None);
    let _ = nix::sys::signal::raise(dying);
}

/// Ends this process with this code, now: nothing that was registered for its end runs, and nothing is flushed.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: _exit takes an int, and does not return.
    unsafe { libc::_exit(code) }
}

/// Runs `callback` when this process ends by `exit` or by the end of `main`: in whichever thread that is, beside the
/// others, which run on. A forked child inherits it.
///
/// # Errors
/// When there is no memory for it.
pub fn at_exit(callback: extern "C" fn()) -> io::Result<()> {
    // SAFETY: `callback` is a function of this program, and a panic in it cannot unwind out of it.
    match unsafe { libc::atexit(callback) } {
        0 => Ok(()),
        _ => Err(Errno::ENOMEM.into()),
    }
}

/// The PID of this process, for which the kernel is asked once: it is kept in a page that is empty in a fork
/// (`MADV_WIPEONFORK`, Linux 4.14). Where there is no such page the kernel is asked each time.
pub fn process_id() -> u32 {
    static KEPT: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(kept) = KEPT.get_or_init(|| empty_in_a_fork().ok()) else { return std::process::id() };
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
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
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

/// In a forked child that executes nothing, a handler of `owner`'s signal has nobody to tell. There the signal has its
/// default action; in the process `owner` this does nothing.
///
/// # Errors
/// When the system refuses a handler.
pub fn default_in_forks(signal: Signal, owner: &'static AtomicU32) -> io::Result<()> {
    let number = signal as libc::c_int;
    let action = move || {
        if getpid().as_raw().unsigned_abs() != owner.load(Ordering::Relaxed) {
            let _ = signal_hook::low_level::emulate_default_handler(number);
        }
    };
    // SAFETY: in a handler it reads an atomic and its own PID, and what it calls is made to be called there.
    unsafe { signal_hook::low_level::register(number, action) }?;
    Ok(())
}

/// What a program that uses this library may do at any time: forks in this thread; the child does `work` and ends,
/// without the end of this process. True: it came to its end.
#[cfg(test)]
pub(crate) fn in_a_fork(work: impl FnOnce()) -> io::Result<bool> {
    use nix::sys::wait::{WaitStatus, waitpid};
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
