//! A program that is killed before a certain one of its system calls: a crash that comes at the same place every time.

pub mod walk;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, gettid};

/// The calls that change something which others see. To be killed between any two of the others leaves the same.
const CHANGES: [libc::c_long; 24] = [
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_execve,
    libc::SYS_exit_group,
    libc::SYS_fchmod,
    libc::SYS_fsetxattr,
    libc::SYS_fremovexattr,
    libc::SYS_fchown,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_kill,
    libc::SYS_linkat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_setpgid,
    libc::SYS_setsid,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_splice,
];
/// Calls that are tried at a time.
const LANES: usize = 4;
/// Of the commands of fcntl.
const SET_LEASE: u64 = 1024;

/// Before which of its calls it may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Those that change something.
    Changes,
    /// Every one.
    All,
    /// Those that write to its standard output.
    Output,
}

/// When what was started along with the program, and lives on, stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// When the program has ended, wherever that finds it.
    AtTheEnd,
    /// When it is about to make this one of those of its calls after the kill that change something.
    BeforeChange(usize),
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Stepped {
    /// It was killed before this call: the program itself, or a process that it had forked.
    Killed,
    /// It ended with this code.
    Ended(i32, Counted),
    /// Nobody may be stopped by us here.
    Impossible,
}

/// The calls of a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// Those that were begun: before each of them it may be killed.
    pub begun: usize,
    /// Those that came back, and the `execve` of the program: what strace counts.
    pub returned: usize,
    /// Those that were begun before a program was executed for the last time: where there is one, the command.
    pub before_command: usize,
}

/// Tries each call in its turn, four at a time, since they mostly wait for a disk. `try_at` kills the program before
/// that call, or finds that it has ended by then, and judges what is left. Returns the first call that the program
/// does not make, at most `most`, and the number of kills; `None` where no program may be traced.
pub fn kill_at_each(
    most: usize,
    try_at: impl Fn(usize) -> Stepped + Sync,
) -> Option<(usize, usize)> {
    let (next, ends, kills) = (
        AtomicUsize::new(0),
        AtomicUsize::new(most),
        AtomicUsize::new(0),
    );
    std::thread::scope(|threads| {
        for _ in 0..LANES {
            threads.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= ends.load(Ordering::Relaxed) {
                        return;
                    }
                    match try_at(at) {
                        Stepped::Killed => kills.fetch_add(1, Ordering::Relaxed),
                        Stepped::Ended(..) => ends.fetch_min(at, Ordering::Relaxed),
                        Stepped::Impossible => ends.swap(0, Ordering::Relaxed),
                    };
                }
            });
        }
    });
    let ends = ends.into_inner();
    (ends > 0).then_some((ends, kills.into_inner()))
}

/// Runs a shell that stops itself and becomes a program then. Of that and of all that it forks the `at`th call is not
/// made: the process that is about to make it is killed. When the program has ended, what it has left behind stands
/// still while `look` looks at it. Then it lives on, untraced: a kill of the program is none of its children.
pub fn kill_at(command: Command, at: usize, calls: Calls, look: impl FnOnce(&[Pid])) -> Stepped {
    kill_and_stop(command, at, calls, Stands::AtTheEnd, look)
}

/// [`kill_at`], and what is left behind goes on until it `stands`.
pub fn kill_and_stop(
    command: Command,
    at: usize,
    calls: Calls,
    stands: Stands,
    look: impl FnOnce(&[Pid]),
) -> Stepped {
    let Some(pid) = seize(command) else {
        return Stepped::Impossible;
    };
    let mut traced = Traced {
        calls,
        at,
        counted: Counted::default(),
        stands,
        changes: 0,
        still: None,
        killed: false,
        executed: false,
        inside: HashMap::new(),
    };
    traced.inside.insert(pid, true);
    let code = traced.run_to_the_end_of(pid);
    let left = traced.freeze();
    look(&left.iter().map(|(pid, _)| *pid).collect::<Vec<_>>());
    for (pid, signal) in left {
        // An error: it was killed meanwhile.
        let _ = ptrace::detach(pid, signal);
    }
    if traced.killed {
        Stepped::Killed
    } else {
        Stepped::Ended(code, traced.counted)
    }
}

/// Starts a shell that stops itself, and goes on under our eyes; `None` where nobody may be traced.
#[expect(clippy::zombie_processes, reason = "waitpid has the end of it")]
fn seize(mut command: Command) -> Option<Pid> {
    let child = command.spawn().expect("sh starts");
    let pid = Pid::from_raw(child.id().cast_signed());
    waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("it stops");
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_EXITKILL;
    if ptrace::seize(pid, options).is_err() {
        kill(pid, Signal::SIGKILL).expect("it is ours");
        waitpid(pid, None).expect("it ends");
        return None;
    }
    kill(pid, Signal::SIGCONT).expect("it is ours");
    Some(pid)
}

struct Traced {
    calls: Calls,
    at: usize,
    counted: Counted,
    stands: Stands,
    /// What was changed since the kill.
    changes: usize,
    /// The thread that stands before the change that was asked for.
    still: Option<Pid>,
    killed: bool,
    /// Until it executes the program it is a shell.
    executed: bool,
    /// The threads, and whether each is inside a call.
    inside: HashMap<Pid, bool>,
}

impl Traced {
    /// The code that the program ends with, once what it leaves behind stands where it is to stand, or has ended too.
    fn run_to_the_end_of(&mut self, program: Pid) -> i32 {
        let mut ended = None;
        loop {
            if let Some(code) = ended
                && (self.is_where_it_stands() || self.inside.is_empty())
            {
                return code;
            }
            // Of this thread's children alone: other tests run beside it.
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            let status = waitpid(Pid::from_raw(-1), Some(flags)).expect("the program is ours");
            let Some(pid) = status.pid() else { continue };
            let pass_on = match status {
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    self.inside.remove(&pid);
                    match status {
                        WaitStatus::Exited(_, code) if pid == program => ended = Some(code),
                        WaitStatus::Signaled(_, signal, _) if pid == program => {
                            ended = Some(128 + signal as i32);
                        }
                        _ => {}
                    }
                    continue;
                }
                WaitStatus::PtraceEvent(_, _, event) => {
                    if event == libc::PTRACE_EVENT_EXEC {
                        self.executed = true;
                        self.counted.before_command = self.counted.begun;
                        self.inside.insert(pid, true);
                    }
                    None
                }
                WaitStatus::PtraceSyscall(_) => {
                    let inside = self.inside.entry(pid).or_insert(false);
                    *inside = !*inside;
                    let begins = *inside;
                    if self.executed && !begins {
                        self.counted.returned += 1;
                    }
                    if self.executed && begins && self.counts(pid) {
                        self.counted.begun += 1;
                        if self.counted.begun > self.at && !self.killed {
                            self.killed = true;
                            kill(pid, Signal::SIGKILL).expect("it is ours");
                            continue;
                        }
                    }
                    if begins && self.stands_before_a_change(pid) {
                        continue;
                    }
                    None
                }
                WaitStatus::Stopped(_, signal) => Some(signal),
                _ => None,
            };
            self.inside.entry(pid).or_insert(false);
            // An error: it was killed by somebody else, which the next round sees.
            let _ = ptrace::syscall(pid, pass_on);
        }
    }

    fn counts(&self, pid: Pid) -> bool {
        match self.calls {
            Calls::All => true,
            Calls::Changes => changes_something(pid),
            Calls::Output => writes_to_stdout(pid),
        }
    }

    fn is_where_it_stands(&self) -> bool {
        !self.killed || self.stands == Stands::AtTheEnd || self.still.is_some()
    }

    /// It is about to make the change before which it is to stand still: it goes no further.
    fn stands_before_a_change(&mut self, pid: Pid) -> bool {
        let Stands::BeforeChange(at) = self.stands else {
            return false;
        };
        if !self.killed || self.still.is_some() || !changes_something(pid) {
            return false;
        }
        self.changes += 1;
        let stands = self.changes > at;
        self.still = stands.then_some(pid);
        stands
    }

    /// The threads that live on, each of them stopped, and the signal that each is about to get.
    ///
    /// `inside` does not know them all: a process that is killed while another thread of it forks does not tell of the
    /// child. That would stand still for as long as we live, with all that it has open. `/proc` has them.
    fn freeze(&mut self) -> Vec<(Pid, Option<Signal>)> {
        let mut left: HashMap<Pid, Option<Signal>> =
            self.still.iter().map(|pid| (*pid, None)).collect();
        let mut ended: HashSet<Pid> = HashSet::new();
        loop {
            let traced = traced_by(gettid());
            let new: Vec<Pid> = traced
                .into_iter()
                .filter(|pid| !left.contains_key(pid) && !ended.contains(pid))
                .collect();
            if new.is_empty() {
                return left.into_iter().collect();
            }
            for pid in new {
                let _ = ptrace::interrupt(pid);
                match waitpid(pid, Some(WaitPidFlag::__WALL)) {
                    Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => {
                        ended.insert(pid);
                    }
                    Ok(WaitStatus::Stopped(_, signal)) => {
                        left.insert(pid, Some(signal));
                    }
                    Ok(_) => {
                        left.insert(pid, None);
                    }
                }
            }
        }
    }
}

/// The threads that this one traces; of each process the first one last, whose end is not to be had before that of the
/// others.
fn traced_by(tracer: Pid) -> Vec<Pid> {
    let numbers = |dir: &str| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .collect::<Vec<_>>()
    };
    let line = format!("TracerPid:\t{tracer}");
    let threads_of = |pid| {
        numbers(&format!("/proc/{pid}/task"))
            .into_iter()
            .map(move |thread| (thread == pid, thread))
    };
    let is_traced = |(_, thread): &(bool, i32)| {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        status.lines().any(|text| text == line)
    };
    let mut threads: Vec<_> = numbers("/proc")
        .into_iter()
        .flat_map(threads_of)
        .filter(is_traced)
        .collect();
    threads.sort_unstable();
    threads
        .into_iter()
        .map(|(_, thread)| Pid::from_raw(thread))
        .collect()
}

/// The number of the call that it is about to make, and the arguments; `None` when `/proc` does not say.
fn call_of(pid: Pid) -> Option<(libc::c_long, Vec<u64>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let argument = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    Some((number, words.filter_map(argument).collect()))
}

fn writes_to_stdout(pid: Pid) -> bool {
    call_of(pid).is_some_and(|(number, arguments)| {
        number == libc::SYS_write && arguments.first() == Some(&1)
    })
}

fn changes_something(pid: Pid) -> bool {
    let Some((number, arguments)) = call_of(pid) else {
        return false;
    };
    let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
    let writes = (libc::O_CREAT | libc::O_TMPFILE | libc::O_WRONLY | libc::O_RDWR) as u64;
    CHANGES.contains(&number)
        && match number {
            libc::SYS_fcntl => argument(1) == SET_LEASE,
            libc::SYS_openat => argument(2) & writes != 0,
            _ => true,
        }
}
