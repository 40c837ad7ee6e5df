//! Processes: whether one lives, and what `/proc` says of it.
//!
//! `kill(pid, 0)`: success or EPERM is alive, ESRCH is gone, anything else unknown, and unknown is alive. No
//! signal is ever sent from here.

use std::os::unix::ffi::OsStrExt;
use std::{ffi::OsStr, fs, ops::Range};

use nix::{errno::Errno, sys::signal::kill, sys::signal::killpg, unistd::Pid};
use serde::{Deserialize, Serialize};

use crate::helper;

/// Whether a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// `kill(pid, 0)` succeeded.
    Alive,
    /// EPERM: it lives, and belongs to someone else.
    NotPermitted,
    /// ESRCH: there is no such process.
    Gone,
    /// Any other answer, or a PID that cannot be asked; counts as alive.
    Unknown,
    /// Another host's process, or another namespace's.
    NotAsked,
}

/// Whether the process lives in this PID namespace. A PID outside 1 to 2^31-1 is not asked: [`Liveness::Unknown`].
pub fn probe(pid: i64) -> Liveness {
    let Ok(pid @ 1..) = i32::try_from(pid) else {
        return Liveness::Unknown;
    };
    match kill(Pid::from_raw(pid), None) {
        Ok(()) => Liveness::Alive,
        Err(Errno::EPERM) => Liveness::NotPermitted,
        Err(Errno::ESRCH) => Liveness::Gone,
        Err(_) => Liveness::Unknown,
    }
}

/// Fields of `/proc/PID/stat` (Linux).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// PID of the process.
    pub pid: i32,
    /// State of the process: `R`, `S`, `D`, `Z` …
    pub state: char,
    /// PID of its parent.
    pub ppid: i32,
    /// ID of its process group.
    pub pgrp: i32,
    /// ID of its session.
    pub session: i32,
    /// Device number of its controlling terminal; 0 where it has none.
    pub terminal: i32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Address where its stack begins; 0 or 1 where the kernel does not show it.
    start_stack: u64,
    /// Addresses of its command line: the start, and the end behind the last NUL; 0 where the kernel does not show them.
    arguments: (u64, u64),
}

impl Stat {
    /// Reads the fields of one process; `None` when it is gone or unreadable.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the content of the file; `None`: a field is missing. The name in parentheses may hold anything, also `)`,
    /// so the fields are counted from the last one.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(line);
        let (pid, rest) = line.split_once(' ')?;
        let fields: Vec<&str> = rest
            .get(rest.rfind(')')? + 1..)?
            .split_ascii_whitespace()
            .collect();
        let address = |at: usize| fields.get(at).and_then(|field| field.parse().ok());
        Some(Self {
            pid: pid.parse().ok()?,
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            pgrp: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            terminal: fields.get(4)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
            start_stack: address(25).unwrap_or_default(),
            arguments: (
                address(45).unwrap_or_default(),
                address(46).unwrap_or_default(),
            ),
        })
    }

    /// The addresses of its command line in its memory; `None`: the kernel does not show them.
    pub fn command_line(&self) -> Option<Range<u64>> {
        let (start, end) = self.arguments;
        (start != 0 && start < end).then_some(start..end)
    }

    /// True when the process is stopped, by a signal or by a debugger.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// True when the process is shown as ended, and its parent has not collected it.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A process, told from a later one that has the same PID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRef {
    /// PID of the process.
    pub pid: i32,
    /// When it started, in clock ticks after boot; `None` where `/proc` does not say.
    pub start_ticks: Option<u64>,
}

impl ProcessRef {
    /// The process that has this PID now.
    pub fn of(pid: i32) -> Self {
        Self {
            pid,
            start_ticks: start_ticks(pid.into()),
        }
    }

    /// True when `stat` is of this process.
    pub fn is(self, stat: &Stat) -> bool {
        stat.pid == self.pid && Some(stat.start_ticks) == self.start_ticks
    }

    /// True when the process has ended, reaped or not, or its PID belongs to another process by now.
    pub fn has_ended(self) -> bool {
        if probe(self.pid.into()) == Liveness::Gone {
            return true;
        }
        let Some(stat) = Stat::read(self.pid).filter(|_| proc_is_ours()) else {
            return false;
        };
        self.start_ticks
            .is_some_and(|ticks| ticks != stat.start_ticks)
            || stat.is_zombie() && is_dead_zombie(self.pid) == Some(true)
    }
}

/// Every process that `/proc` shows; one that ends meanwhile is left out.
pub fn all() -> Vec<Stat> {
    pids().filter_map(Stat::read).collect()
}

/// The living processes of a process group, by one scan, which can miss one that is being made. Zombies have ended.
/// `None`: the group exists, and `/proc` does not show who is in it.
pub fn living_in_group(group: i32) -> Option<Vec<Stat>> {
    if killpg(Pid::from_raw(group), None) == Err(Errno::ESRCH) {
        return Some(Vec::new());
    }
    let mut members = all();
    members.retain(|stat| stat.pgrp == group);
    if members.is_empty() {
        return None;
    }
    members.retain(|stat| !stat.is_zombie() || is_dead_zombie(stat.pid) == Some(false));
    Some(members)
}

/// No process lives in the process group, seen twice: one scan can miss a process that is being made. A group that
/// exists and that `/proc` does not show counts as alive.
pub fn group_is_gone(group: i32) -> bool {
    let is_gone = || living_in_group(group).is_some_and(|living| living.is_empty());
    is_gone() && is_gone()
}

/// The PIDs of this PID namespace that /proc lists.
pub fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The process's command line joined by spaces, else its name; of a helper of `beadlock` only what it does. `None`
/// when `/proc` does not say, or is another namespace's: there the name would be a stranger's. Untrusted.
pub fn command_line(pid: i32) -> Option<String> {
    if !proc_is_ours() {
        return None;
    }
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&words);
    let line = line.trim_end_matches('\0');
    match line.split_once('\0') {
        Some((title, rest)) if rest.split('\0').next() == Some(helper::HELPER) => {
            Some(title.to_owned())
        }
        _ if line.is_empty() => name(pid),
        _ => Some(line.replace('\0', " ")),
    }
}

/// The environment that a process was started with (Linux). Untrusted: what the process has changed in it since is not
/// seen, and any process can be started with any variable.
#[derive(Debug)]
pub struct StartEnvironment(Vec<u8>);

impl StartEnvironment {
    /// The environment of the process `pid`. `None`: the process is gone, or belongs to another user.
    pub fn of(pid: i32) -> Option<Self> {
        fs::read(format!("/proc/{pid}/environ")).ok().map(Self)
    }

    /// The environment in these bytes: `NAME=VALUE`, with a NUL behind each.
    pub fn of_bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The values of the variable `name`, in their order: one, unless the process was started with several of that name.
    /// `getenv` answers with the first.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let entries = self.0.split(|byte| *byte == 0);
        entries.filter_map(move |entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }
}

/// The process was started with this variable and value. False also where its environment cannot be read.
pub fn environment_has(pid: i32, name: &str, value: &OsStr) -> bool {
    StartEnvironment::of(pid)
        .is_some_and(|environment| environment.values(name).any(|one| one == value.as_bytes()))
}

/// The process's name; `None` as for [`command_line`]. Untrusted.
pub fn name(pid: i32) -> Option<String> {
    let name = || fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    Some(proc_is_ours().then(name)??.trim_end().to_owned())
}

/// True when `/proc` is of this PID namespace, so that what it says of a PID is about that PID.
pub fn proc_is_ours() -> bool {
    fs::read_link("/proc/self")
        .is_ok_and(|link| link.as_os_str() == std::process::id().to_string().as_str())
}

/// When the process started, in clock ticks after boot; `None` also when `/proc` is another namespace's.
pub fn start_ticks(pid: i64) -> Option<u64> {
    let pid = i32::try_from(pid).ok().filter(|_| proc_is_ours())?;
    Stat::read(pid).map(|stat| stat.start_ticks)
}

/// The process is a copy that another has made of itself, and has executed nothing since: a shell's subshell, say.
/// Where the stack begins is chosen at random for each program that is executed. False also when it is not to be seen.
pub fn is_forked_copy(pid: i32, of: i32) -> bool {
    let stack = |pid: i32| {
        let start = Stat::read(pid)?.start_stack;
        (start > 1).then_some((start, fs::read_link(format!("/proc/{pid}/exe")).ok()?))
    };
    proc_is_ours() && stack(pid).is_some_and(|mine| stack(of) == Some(mine))
}

/// This process lives in the PID namespace that the kernel has started with.
pub fn is_initial_namespace() -> bool {
    /// The kernel's fixed number (`PROC_PID_INIT_INO`).
    const INITIAL: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|ours| ours.as_os_str() == INITIAL)
}

/// The process is a zombie and none of its threads lives: one whose main thread has ended is shown as a zombie while
/// the others work on. `None`: unknown.
pub fn is_dead_zombie(pid: i32) -> Option<bool> {
    if !proc_is_ours() {
        return None;
    }
    if !Stat::read(pid)?.is_zombie() {
        return Some(false);
    }
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let line = fs::read(task.ok()?.path().join("stat")).ok()?;
        if !Stat::parse(&line)?.is_zombie() {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_parentheses_and_newlines_is_no_trap() {
        let line = b"77 (a) b)\n(c) S 5 6 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(
            (
                stat.pid,
                stat.ppid,
                stat.pgrp,
                stat.session,
                stat.start_ticks
            ),
            (77, 5, 6, 7, 4242)
        );
        assert_eq!(stat.start_stack, 0, "cut off before it");
        assert_eq!(Stat::parse(b""), None);
        assert_eq!(Stat::parse(b"7 (x"), None);
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name_and_value() {
        let environment = StartEnvironment::of_bytes(*b"XA=0\0A=1\0AB=2\0B=A=3\0A=\0A");
        let values: Vec<&[u8]> = environment.values("A").collect();
        assert_eq!(values, [&b"1"[..], b""]);
        let mut child = Command::new("sleep")
            .arg("60")
            .env("BEADLOCK_CYCLE", "/x")
            .spawn()
            .unwrap();
        let has = |name: &str, value: &str| {
            environment_has(child.id().cast_signed(), name, OsStr::new(value))
        };
        // It has executed, and its new environment may not be there yet.
        beadlock_testkit::until("its environment", || has("BEADLOCK_CYCLE", "/x"));
        assert!(!has("BEADLOCK_CYCLE", "/x/y") && !has("BEADLOCK", "/x"));
        let pid = child.id().cast_signed();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(StartEnvironment::of(pid).is_none(), "it is gone");
    }

    #[test]
    fn a_pid_that_no_kernel_has_is_not_asked() {
        for pid in [
            i64::MIN,
            -1,
            0,
            i64::from(i32::MAX) + 1,
            1 << 32,
            (1 << 32) + 1,
            i64::MAX,
        ] {
            assert_eq!(probe(pid), Liveness::Unknown, "{pid}");
        }
    }

    #[test]
    fn a_program_that_was_executed_is_no_copy() {
        let me = std::process::id().cast_signed();
        assert!(is_forked_copy(me, me) && Stat::read(me).unwrap().start_stack > 1);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!is_forked_copy(child.id().cast_signed(), me));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_forked_copy(child.id().cast_signed(), me), "gone");
    }

    #[test]
    fn a_group_is_gone_when_no_process_lives_in_it() {
        let script = "sleep 60 & echo $!; wait";
        let mut leader = Command::new("sh");
        leader
            .args(["-c", script])
            .process_group(0)
            .stdout(Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let group = leader.id().cast_signed();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let member = Pid::from_raw(line.trim().parse().unwrap());
        leader.kill().unwrap();
        while is_dead_zombie(group) != Some(true) {
            std::thread::yield_now();
        }
        assert!(
            !group_is_gone(group),
            "its leader has ended, and one of it lives"
        );
        kill(member, nix::sys::signal::Signal::SIGKILL).unwrap();
        // The member was never ours to reap; the leader is a zombie of the group.
        while !group_is_gone(group) {
            std::thread::yield_now();
        }
        leader.wait().unwrap();
        assert!(group_is_gone(group));
    }

    #[test]
    fn a_reaped_child_is_gone_and_a_zombie_is_not() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        while Stat::read(pid.cast_signed()).is_some_and(|stat| !stat.is_zombie()) {
            std::thread::yield_now();
        }
        assert_eq!(probe(i64::from(pid)), Liveness::Alive, "a zombie answers");
        assert_eq!(is_dead_zombie(pid.cast_signed()), Some(true));
        child.wait().unwrap();
        assert_eq!(probe(i64::from(pid)), Liveness::Gone);
        assert_eq!(probe(i64::from(std::process::id())), Liveness::Alive);
    }
}
