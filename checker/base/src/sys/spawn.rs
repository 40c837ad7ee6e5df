//! A command whose process is there before it may begin; and what a program has from the one that starts it.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{
    ffi::CStr, ffi::CString, io, io::Read, io::Write, os::unix::process::CommandExt,
    process::Command,
};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{
    ForkResult, Pid, close, dup2_stdin, dup2_stdout, execve, fchdir, fork, getpid, getppid, pipe2,
    setpgid,
};
use nix::{errno::Errno, sys::prctl::set_pdeathsig};

use super::{signals::exit_at_once, start::actions_of_the_start};

/// A command that is ready to execute, all of it prepared before the fork.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// The path of the program, as found in PATH; it has a slash.
    pub program: &'a CStr,
    /// Arguments of the program, its own name first.
    pub argv: &'a [CString],
    /// Environment of the program, `NAME=value` each.
    pub envp: &'a [CString],
    /// Put it in a process group of its own.
    pub own_group: bool,
    /// The signal mask it starts with.
    pub mask: SigSet,
    /// The signal that it gets when this process dies, however that happens (Linux). The kernel ties it to the thread
    /// that forks, which here is the only one there is, and so the main one. A program that is set-user-id or has
    /// capabilities of its own takes it off; what the command starts does not inherit it.
    pub parent_death: Option<Signal>,
    /// Standard input and output of the program; `None`: it has ours.
    pub streams: Option<[BorrowedFd<'a>; 2]>,
    /// A descriptor that it inherits beside its streams.
    pub inherited: Option<BorrowedFd<'a>>,
}

/// A forked process that waits for a word of its parent before it executes; its PID is the command's. When this is
/// dropped (or this process dies) it ends without executing; the caller reaps it.
#[derive(Debug)]
#[must_use = "dropping it ends the process without executing the command"]
pub struct Waiting {
    pid: i32,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Forks the process of a command that is to start later, under the same PID (docs/design.md#start). The error is what
/// pipe or fork said; EDEADLK when this process already has more than one thread, since only a process of one thread
/// may do in the child what is done here.
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
                // The child does it too; the second of the two calls changes nothing.
                let _ = setpgid(child, child);
            }
            Ok(Waiting {
                pid: child.as_raw(),
                go,
                failure,
            })
        }
        ForkResult::Child => {
            drop((go, failure));
            exit_at_once(wait_and_execute(spawn, parent, go_reader, failure_writer))
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
    let Some(late) = read_go(go) else { return 125 };
    let mut envp = spawn.envp.to_vec();
    envp.retain(|known| !late.iter().any(|late| name_of(late) == name_of(known)));
    envp.extend(late);
    if let Some([input, output]) = spawn.streams
        && dup2_stdin(input)
            .and_then(|()| dup2_stdout(output))
            .is_err()
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
    let Err(mut errno) = execve(spawn.program, spawn.argv, &envp);
    if errno == Errno::ENOEXEC {
        // A script without `#!`: what every shell and execvp do.
        let mut argv = vec![c"/bin/sh".to_owned(), spawn.program.to_owned()];
        argv.extend(spawn.argv.iter().skip(1).cloned());
        let Err(again) = execve(c"/bin/sh", &argv, &envp);
        errno = again;
    }
    let _ = std::fs::File::from(failure).write_all(&(errno as i32).to_ne_bytes());
    if errno == Errno::ENOENT { 127 } else { 126 }
}

/// The byte that lets the process execute; nothing follows it.
const GO: u8 = 1;
/// The byte that lets it execute with more variables: their length in four bytes, then each with a NUL at its end.
const GO_WITH: u8 = 2;
/// A write into a pipe of at most so many bytes is never torn.
const UNTORN: usize = libc::PIPE_BUF;

/// Waits until the process may execute; the variables that came late. `None`: it must not.
fn read_go(go: OwnedFd) -> Option<Vec<CString>> {
    let mut go = std::fs::File::from(go);
    let mut byte = [0];
    go.read_exact(&mut byte).ok()?;
    if byte == [GO] {
        return Some(Vec::new());
    }
    let mut length = [0; 4];
    go.read_exact(&mut length).ok()?;
    let mut bytes = vec![
        0;
        usize::try_from(u32::from_ne_bytes(length))
            .ok()?
            .min(UNTORN)
    ];
    go.read_exact(&mut bytes).ok()?;
    let variables = bytes.split_inclusive(|byte| *byte == 0);
    variables
        .map(|variable| CString::from_vec_with_nul(variable.to_vec()).ok())
        .collect()
}

fn name_of(variable: &CString) -> &[u8] {
    variable
        .to_bytes()
        .split(|byte| *byte == b'=')
        .next()
        .unwrap_or_default()
}

impl Waiting {
    /// The PID that the command will have.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets it execute. That may still take its time, or fail. Errors: EPIPE when the process has ended meanwhile.
    pub fn go(self) -> io::Result<Starting> {
        self.go_with(&[])
    }

    /// [`Self::go`] with more variables in the environment: `NAME=value` each, which were not known before. Fails with
    /// E2BIG when they are longer than a pipe takes at once.
    pub fn go_with(self, late: &[CString]) -> io::Result<Starting> {
        let variables = late
            .iter()
            .map(|variable| variable.as_bytes_with_nul())
            .collect::<Vec<_>>()
            .concat();
        let length = u32::try_from(variables.len()).map_err(|_| Errno::E2BIG)?;
        let message = match late {
            [] => vec![GO],
            _ => [&[GO_WITH][..], &length.to_ne_bytes(), &variables].concat(),
        };
        if message.len() > UNTORN {
            return Err(Errno::E2BIG.into());
        }
        std::fs::File::from(self.go).write_all(&message)?;
        Ok(Starting {
            failure: self.failure,
        })
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
    /// The error is what `execve` said; the process ends then, with 127 for ENOENT and 126 otherwise, and is unreaped.
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

/// Starts the program of `command` in this directory, whose descriptor may be one for look-ups alone.
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
pub fn to_pass_on(fd: impl AsFd) -> io::Result<OwnedFd> {
    let above = |first| fcntl(fd.as_fd(), FcntlArg::F_DUPFD_CLOEXEC(first));
    let fd = above(FIRST_INHERITED).or_else(|_| above(libc::STDERR_FILENO + 1))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whatever this process executes from now on inherits the descriptor.
pub fn pass_on(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd.as_fd(), FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

/// Passes the descriptor on to the program that `command` starts, and to no other that this process starts.
pub fn inherit(command: &mut Command, fd: OwnedFd) {
    // SAFETY: between fork and exec it calls only fcntl(2), which may be called there.
    unsafe { command.pre_exec(move || pass_on(&fd)) };
}

/// Takes over the descriptor `number`, which this process was started with; what it executes does not inherit it. Fails
/// when it is not open.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes two integers.
    let fd = Errno::result(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) })?;
    let _ = close(number);
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kills the program that `command` starts when the thread that has started it ends, however it ends (Linux).
pub fn killed_with_this_thread(command: &mut Command) {
    die_with_this_thread(command, Signal::SIGKILL);
}

/// Sends SIGTERM to the program that `command` starts when the thread that has started it ends, in any way (Linux).
pub fn end_with_this_thread(command: &mut Command) {
    die_with_this_thread(command, Signal::SIGTERM);
}

fn die_with_this_thread(command: &mut Command, of: Signal) {
    let end_with = move || {
        // It fails for no signal that there is.
        let _ = set_pdeathsig(of);
        Ok(())
    };
    // SAFETY: between fork and exec it calls only prctl(2), which may be called there.
    unsafe { command.pre_exec(end_with) };
}
