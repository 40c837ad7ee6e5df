//! The processes that have a gate, or any other flock, and those that wait for it, as far as `/proc` shows (Linux).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::{fs, iter, os::fd::AsRawFd, os::fd::OwnedFd, os::unix::fs::MetadataExt, path::Path};

use nix::{fcntl::OFlag, fcntl::open, sys::stat};

use crate::helper_request::{OpenGate, WatchdogRequest};
use beadlock_base::{
    beside, namespace,
    process::{self, Stat},
    sys::FlockMode,
};

/// Every flock of this machine at one moment: one look at every process, however many gates are asked about.
#[derive(Debug, Default)]
pub struct Gates {
    /// By device and inode, from `/proc/PID/fdinfo`: each process that shares the file, and whether it took the flock.
    holders: HashMap<(u64, u64), BTreeMap<i32, bool>>,
    /// From `/proc/locks`, which also shows other users' processes and waiting ones.
    lines: Vec<ListedFlock>,
}

impl Gates {
    /// As it is now. Where `/proc` is another PID namespace's nobody is seen: its PIDs are strangers' here.
    pub fn now() -> Self {
        if !process::proc_is_ours() {
            return Self::default();
        }
        let mut holders: HashMap<_, BTreeMap<i32, bool>> = HashMap::new();
        for pid in process::pids() {
            for (shown, inode) in flocks(pid) {
                *holders.entry(inode).or_default().entry(pid).or_default() |= shown.pid == pid;
            }
        }
        let lines = ListedFlock::all_with(holders.keys().map(|(_, inode): &(u64, u64)| *inode));
        Self { holders, lines }
    }

    /// The processes that had the gate of `dir`, or the flock on that file. Of a gate: the process that took it, the
    /// runner or the gate keeper beside that; only where none of them lives, the processes that have inherited it.
    pub fn holders(&self, dir: &Path) -> Vec<GateHolder> {
        let Ok(meta) = fs::metadata(dir) else {
            return Vec::new();
        };
        let Some(sharers) = self.holders.get(&(meta.dev(), meta.ino())) else {
            return self.in_locks(dir, false);
        };
        let all_count = !meta.is_dir() || !sharers.iter().any(answers);
        let mut pids: Vec<i32> = sharers
            .iter()
            .filter(|one| all_count || answers(*one))
            .map(|(pid, _)| *pid)
            .collect();
        // A process loses its command line and its environment before its descriptors. Then nothing tells it from a
        // stranger.
        if pids.iter().any(|pid| !is_ending(*pid)) {
            pids.retain(|pid| !is_ending(*pid));
        }
        pids.into_iter().map(GateHolder::of).collect()
    }

    /// The processes of a cycle's command that keep the gate of `dir` shut, where every process of beadlock's that
    /// had it was killed. Whether a process is of a cycle is told by its environment.
    pub fn left(&self, dir: &Path) -> Vec<GateHolder> {
        let Ok(meta) = fs::metadata(dir) else {
            return Vec::new();
        };
        let sharers = self.holders.get(&(meta.dev(), meta.ino()));
        let Some(sharers) = sharers.filter(|sharers| !sharers.iter().any(answers)) else {
            return Vec::new();
        };
        let resolved = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        sharers
            .keys()
            .filter(|pid| is_of_cycle(**pid, &resolved))
            .map(|pid| GateHolder::of(*pid))
            .collect()
    }

    /// The processes that waited for the gate of `dir`, or the flock on that file, blocked in flock(2).
    pub fn waiters(&self, dir: &Path) -> Vec<GateHolder> {
        self.in_locks(dir, true)
    }

    fn in_locks(&self, dir: &Path, waits: bool) -> Vec<GateHolder> {
        let Ok(meta) = fs::metadata(dir) else {
            return Vec::new();
        };
        let alike = |line: &&ListedFlock| line.waits == waits && line.number() == Some(meta.ino());
        let mut alike = self.lines.iter().filter(alike).peekable();
        let Some(inode) = alike.peek().and_then(|_| inode_in_locks(dir, &meta)) else {
            return Vec::new();
        };
        alike
            .filter(|line| line.inode == inode)
            .map(|line| GateHolder::of(line.pid))
            .collect()
    }
}

/// The process has not merely inherited the gate.
fn answers((pid, took): (&i32, &bool)) -> bool {
    *took || StandIn::of(*pid).is_some()
}

/// It has no command line any more, or is gone.
fn is_ending(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .is_empty()
}

/// The environment of the process says that it works in a cycle of this database.
fn is_of_cycle(pid: i32, dir: &Path) -> bool {
    process::environment_has(pid, "BEADLOCK_CYCLE", dir.as_os_str())
}

/// A process that has the gate, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateHolder {
    /// The process.
    pub pid: i32,
    /// Its command line; untrusted.
    pub command: String,
}

/// What a process that has a gate has it for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The runner or the gate keeper of a cycle's command, and its daemon lives.
    Runner {
        /// The daemon.
        daemon: i32,
    },
    /// The same, and its daemon is gone: the gate stays shut until the command has ended.
    Orphan {
        /// The daemon that is gone.
        daemon: i32,
        /// The command.
        work: Vec<GateHolder>,
    },
    /// A process of a cycle's command, where all of beadlock's are gone: the gate is shut until all such have ended.
    Left,
    /// Anything else: a daemon, a claim, a tool of somebody's own.
    Other,
}

impl GateHolder {
    pub(crate) fn of(pid: i32) -> Self {
        Self {
            pid,
            command: process::command_line(pid).unwrap_or_default(),
        }
    }

    /// What it has the gate for, as far as `/proc` shows now.
    pub fn role(&self) -> Role {
        let Some((stand_in, stat)) = StandIn::of(self.pid).zip(Stat::read(self.pid)) else {
            return Role::Other;
        };
        let StandIn {
            daemon,
            work,
            group,
        } = stand_in;
        // The daemon's number is of its own namespace, its parent's of ours.
        if stat.ppid == daemon || !namespace::is_of_ours(self.pid) {
            return Role::Runner { daemon };
        }
        let mut living = process::all();
        living.retain(|stat| !stat.is_zombie());
        let is_work = |stat: &Stat| work.map_or(stat.ppid == self.pid, |work| stat.pid == work);
        // The command's process has ended: what it has started in its group is left.
        let is_group = group && !living.iter().any(is_work);
        let is_work = |stat: &Stat| {
            if is_group {
                work == Some(stat.pgrp)
            } else {
                is_work(stat)
            }
        };
        let work = living.iter().filter(|stat| is_work(stat));
        Role::Orphan {
            daemon,
            work: work.map(|stat| Self::of(stat.pid)).collect(),
        }
    }
}

/// What the arguments of a cycle's runner say, and of a gate keeper.
struct StandIn {
    daemon: i32,
    /// The command's process; `None`: its child.
    work: Option<i32>,
    /// That process leads a group, which is worked in as well.
    group: bool,
}

impl StandIn {
    fn of(pid: i32) -> Option<Self> {
        if let Some(keeper) = WatchdogRequest::<OpenGate>::of_process(pid) {
            return Some(Self {
                daemon: keeper.parent,
                work: Some(keeper.command.process.pid),
                group: keeper.command.leads,
            });
        }
        let daemon = str::from_utf8(&beside::argument_of(pid, beside::RUNNER).ok()??)
            .ok()?
            .parse()
            .ok()?;
        Some(Self {
            daemon,
            work: None,
            group: false,
        })
    }
}

/// How the process `pid` has the flock on the file at `path`, of this device and inode; `None`: not, or unseen.
pub fn flock_of(pid: i32, path: &Path, inode: (u64, u64)) -> Option<FlockMode> {
    let seen = flocks(pid).find_map(|(shown, file)| (file == inode).then_some(shown.mode));
    let in_locks = || {
        let name = inode_in_locks(path, &fs::metadata(path).ok()?)?;
        let lines = ListedFlock::all_with(iter::once(inode.1));
        let its = |line: &ListedFlock| !line.waits && line.pid == pid && line.inode == name;
        lines.into_iter().find(its).map(|line| line.mode)
    };
    seen.or_else(in_locks)
}

/// `/proc/PID/fdinfo` shows a flock through a descriptor; then which inode it is of. In this order: a `stat` of
/// whatever else is open there might never answer.
fn flocks(pid: i32) -> impl Iterator<Item = (ListedFlock, (u64, u64))> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten();
    infos.filter_map(move |info| {
        let text = fs::read_to_string(info.path()).ok()?;
        let shown = text
            .lines()
            .find_map(|line| ListedFlock::parse(line.strip_prefix("lock")?.strip_prefix(':')?))?;
        let meta = fs::metadata(format!(
            "/proc/{pid}/fd/{}",
            info.file_name().to_string_lossy()
        ))
        .ok()?;
        Some((shown, (meta.dev(), meta.ino())))
    })
}

/// A flock of `/proc/locks` or of a descriptor, such as `3: -> FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF`.
#[derive(Debug, PartialEq, Eq)]
struct ListedFlock {
    waits: bool,
    mode: FlockMode,
    /// The process that took it; 0 where that has ended, or is of another PID namespace.
    pid: i32,
    /// `MAJOR:MINOR:INODE`.
    inode: String,
}

/// How often `/proc/locks` is read at most, for what it has left out.
const READS: usize = 10;

impl ListedFlock {
    /// Each of them once, and among them those of these inodes, which are held to be locked. The file comes a page at
    /// a time: when a lock goes between two pages the kernel skips the next one, with all who wait for it; when one
    /// comes, one comes twice.
    fn all_with(known: impl Iterator<Item = u64> + Clone) -> Vec<Self> {
        let (mut seen, mut lines) = (HashSet::new(), Vec::<Self>::new());
        for _ in 0..READS {
            let text = fs::read_to_string("/proc/locks").unwrap_or_default();
            for line in text.lines() {
                // What comes before the colon counts the lines.
                let is_new = line
                    .split_once(':')
                    .is_some_and(|(_, lock)| seen.insert(lock.trim_start().to_owned()));
                lines.extend(Self::parse(line).filter(|lock| is_new && lock.pid > 0));
            }
            let numbers: HashSet<u64> = lines.iter().filter_map(Self::number).collect();
            if known.clone().all(|inode| numbers.contains(&inode)) {
                break;
            }
        }
        lines
    }

    fn number(&self) -> Option<u64> {
        self.inode.rsplit(':').next()?.parse().ok()
    }

    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (waits, kind, pid, inode) = match fields[..] {
            [_, "->", "FLOCK", _, kind, pid, inode, ..] => (true, kind, pid, inode),
            [_, "FLOCK", _, kind, pid, inode, ..] => (false, kind, pid, inode),
            _ => return None,
        };
        let mode = if kind == "READ" {
            FlockMode::Shared
        } else {
            FlockMode::Exclusive
        };
        Some(Self {
            waits,
            mode,
            pid: pid.parse().ok()?,
            inode: inode.to_owned(),
        })
    }
}

/// The directory, or the file, as `/proc/locks` names it.
fn inode_in_locks(path: &Path, meta: &fs::Metadata) -> Option<String> {
    let fd = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, stat::Mode::empty()).ok()?;
    let by_stat = || (stat::major(meta.dev()), stat::minor(meta.dev()));
    let (major, minor) = device_of_mount(&fd).unwrap_or_else(by_stat);
    Some(format!("{major:02x}:{minor:02x}:{}", meta.ino()))
}

/// The device of the mount that a descriptor is on: on some file systems, such as btrfs, `stat` tells another one.
/// `None` where the mount is not to be seen, as in a chroot.
fn device_of_mount(fd: &OwnedFd) -> Option<(u64, u64)> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let mount = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?
        .trim();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').next() == Some(mount))?;
    let (major, minor) = line.split(' ').nth(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    /// Beside others who take and let go theirs all the time.
    #[test]
    fn a_lock_that_is_held_is_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let gate = |name: &str| {
            let dir = dir.path().join(name);
            let _ = fs::create_dir(&dir);
            Gate::try_take(&dir).unwrap().unwrap()
        };
        let held: Vec<Gate> = (0..150).map(|number| gate(&number.to_string())).collect();
        let inode = |number: usize| {
            fs::metadata(dir.path().join(number.to_string()))
                .unwrap()
                .ino()
        };
        let inodes: Vec<u64> = (0..held.len()).map(inode).collect();
        let over = AtomicBool::new(false);
        let wrong = thread::scope(|scope| {
            for name in ["one", "other"] {
                let (over, gate) = (&over, &gate);
                scope.spawn(move || {
                    while !over.load(Relaxed) {
                        drop(gate(name));
                    }
                });
            }
            let is_wrong = |_: &i32| {
                let lines = ListedFlock::all_with(inodes.iter().copied());
                let is_ours = |line: &&ListedFlock| line.pid == std::process::id().cast_signed();
                let ours: Vec<u64> = lines
                    .iter()
                    .filter(is_ours)
                    .filter_map(ListedFlock::number)
                    .collect();
                let count = |inode| ours.iter().filter(|ours| **ours == inode).count();
                inodes.iter().any(|inode| count(*inode) != 1)
            };
            let wrong = (0..50).filter(is_wrong).count();
            over.store(true, Relaxed);
            wrong
        });
        assert_eq!(wrong, 0);
    }

    #[test]
    fn a_line_tells_who_has_it_from_who_waits() {
        let line = |waits, mode| {
            Some(ListedFlock {
                waits,
                mode,
                pid: 4242,
                inode: "fe:00:131".to_owned(),
            })
        };
        let (writes, reads) = (FlockMode::Exclusive, FlockMode::Shared);
        assert_eq!(
            ListedFlock::parse("3:  -> FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF"),
            line(true, writes)
        );
        assert_eq!(
            ListedFlock::parse("3: FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF"),
            line(false, writes)
        );
        assert_eq!(
            ListedFlock::parse("3: FLOCK  ADVISORY  READ  4242 fe:00:131 0 EOF"),
            line(false, reads)
        );
        for other in [
            "3: -> POSIX ADVISORY WRITE 4242 fe:00:131 0 EOF",
            "3: FLOCK ADVISORY WRITE x 0",
            "",
        ] {
            assert_eq!(ListedFlock::parse(other), None, "{other}");
        }
    }

    /// Where `/proc/PID/fdinfo` is not ours to read, `/proc/locks` still names who took it.
    #[test]
    fn proc_locks_names_the_holder_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::try_take(dir.path()).unwrap().unwrap();
        let gates = Gates {
            holders: HashMap::new(),
            ..Gates::now()
        };
        let me = GateHolder::of(std::process::id().cast_signed());
        assert_eq!(gates.holders(dir.path()), std::slice::from_ref(&me));
        assert_eq!(me.role(), Role::Other);
        let meta = fs::metadata(dir.path()).unwrap();
        let inode = (meta.dev(), meta.ino());
        assert_eq!(
            flock_of(me.pid, dir.path(), inode),
            Some(FlockMode::Exclusive)
        );
        assert_eq!(flock_of(1, dir.path(), inode), None);
        drop(gate);
        assert_eq!(flock_of(me.pid, dir.path(), inode), None);
        assert_eq!(Gates::now().holders(dir.path()), []);
    }
}
