//! Holders and waiters of gates and of other flocks, as far as `/proc` shows them (Linux).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::{fs, iter, os::fd::AsRawFd, os::fd::OwnedFd, os::unix::fs::MetadataExt, path::Path};

use nix::{fcntl::OFlag, fcntl::open, sys::stat};

use crate::helper_request::{OpenGate, WatchdogRequest};
use beadlock_base::{
    helper, namespace,
    process::{self, Stat},
    sys::Mode,
};

/// Flocks of this machine at one moment. One look at every process answers questions about any number of gates.
#[derive(Debug, Default)]
pub struct GateHolders {
    /// Processes that share a locked file, by its device and inode, from `/proc/PID/fdinfo`. The flag is true for the
    /// process that took the flock.
    holders: HashMap<(u64, u64), BTreeMap<i32, bool>>,
    /// Lines of `/proc/locks`, which also shows waiting processes and those of other users.
    lines: Vec<ListedFlock>,
}

impl GateHolders {
    /// Reads the flocks of this moment. Where `/proc` belongs to another PID namespace, the result is empty: a PID
    /// there is another process here.
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

    /// Processes that held the gate of `dir`, or the flock on the file `dir`.
    ///
    /// For a gate, these are the process that took it, and its runner or gate keeper. Processes that have only
    /// inherited the gate are returned when none of those lives.
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
        // A process that is ending loses its command line and its environment before its descriptors. It cannot be
        // told from a process outside the cycle then, so it counts only when no other is left.
        if pids.iter().any(|pid| !is_ending(*pid)) {
            pids.retain(|pid| !is_ending(*pid));
        }
        let mut holders: Vec<GateHolder> = pids.into_iter().map(GateHolder::of).collect();
        // It may have ended since.
        if holders.iter().any(|holder| !holder.command.is_empty()) {
            holders.retain(|holder| !holder.command.is_empty());
        }
        holders
    }

    /// Processes of a cycle's command that keep the gate of `dir` shut after every process of beadlock that held it was
    /// killed. `BEADLOCK_CYCLE` in its environment tells that a process belongs to the cycle.
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

    /// Processes that waited for the gate of `dir`, or for the flock on the file `dir`, blocked in flock(2).
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

/// True for the process that took the gate, and for a runner or gate keeper; false for one that only inherited it.
fn answers((pid, took): (&i32, &bool)) -> bool {
    *took || StandIn::of(*pid).is_some()
}

/// True if the process has no command line any more, or is gone.
fn is_ending(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .unwrap_or_default()
        .is_empty()
}

/// True if the environment of the process names a cycle of this database.
fn is_of_cycle(pid: i32, dir: &Path) -> bool {
    process::environment_has(pid, "BEADLOCK_CYCLE", dir.as_os_str())
}

/// Process that holds the gate, or waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateHolder {
    /// PID of the process.
    pub pid: i32,
    /// Command line of the process; untrusted.
    pub command: String,
}

/// Why a process holds the gate: a cycle, a claim, or a stand-in for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateRole {
    /// Runner or gate keeper of a cycle's command, while its daemon lives.
    Runner {
        /// PID of the daemon.
        daemon: i32,
    },
    /// Runner or gate keeper whose daemon is gone. The gate stays shut until the command has ended.
    Orphan {
        /// PID of the daemon that is gone.
        daemon: i32,
        /// Processes of the command.
        work: Vec<GateHolder>,
    },
    /// Process of a cycle's command, when every process of beadlock is gone. The gate stays shut until all such
    /// processes have ended.
    Left,
    /// Any other process: a daemon, a claim, or another tool.
    Other,
}

impl GateHolder {
    pub(crate) fn of(pid: i32) -> Self {
        Self {
            pid,
            command: process::command_line(pid).unwrap_or_default(),
        }
    }

    /// Why this process holds the gate, as far as `/proc` shows now. Never [`GateRole::Left`], which
    /// [`GateHolders::left`] tells.
    pub fn role(&self) -> GateRole {
        let Some((stand_in, stat)) = StandIn::of(self.pid).zip(Stat::read(self.pid)) else {
            return GateRole::Other;
        };
        let StandIn {
            daemon,
            work,
            group,
        } = stand_in;
        // The runner's argument has the daemon's PID in the runner's PID namespace, and `stat` the parent's in ours.
        // In another namespace the two cannot be compared.
        if stat.ppid == daemon || !namespace::is_of_ours(self.pid) {
            return GateRole::Runner { daemon };
        }
        let mut living = process::all();
        living.retain(|stat| !stat.is_zombie());
        let is_work = |stat: &Stat| work.map_or(stat.ppid == self.pid, |work| stat.pid == work);
        // The command's process has ended, and processes of its group are left.
        let is_group = group && !living.iter().any(is_work);
        let is_work = |stat: &Stat| {
            if is_group {
                work == Some(stat.pgrp)
            } else {
                is_work(stat)
            }
        };
        let work = living.iter().filter(|stat| is_work(stat));
        GateRole::Orphan {
            daemon,
            work: work.map(|stat| Self::of(stat.pid)).collect(),
        }
    }
}

/// Arguments of a cycle's runner, or of a gate keeper.
struct StandIn {
    daemon: i32,
    /// PID of the command's process. `None`: the command is a child of the runner.
    work: Option<i32>,
    /// True if the command's process leads a group, whose processes belong to the work.
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
        let daemon = str::from_utf8(&helper::argument_of(pid, helper::RUNNER).ok()??)
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

/// Mode in which the process `pid` holds the flock on the file at `path`, which has this device and inode. `None`: the
/// process does not hold it, or `/proc` does not show it.
pub fn flock_of(pid: i32, path: &Path, inode: (u64, u64)) -> Option<Mode> {
    let seen = flocks(pid).find_map(|(shown, file)| (file == inode).then_some(shown.mode));
    let in_locks = || {
        let name = inode_in_locks(path, &fs::metadata(path).ok()?)?;
        let lines = ListedFlock::all_with(iter::once(inode.1));
        let its = |line: &ListedFlock| !line.waits && line.pid == pid && line.inode == name;
        lines.into_iter().find(its).map(|line| line.mode)
    };
    seen.or_else(in_locks)
}

/// The descriptors of the process `pid` through which it shares the flock on the file with this device and inode, in
/// ascending order. Empty where `/proc` does not show them.
pub fn descriptors_of(pid: i32, inode: (u64, u64)) -> Vec<i32> {
    let ours = flocks_by_descriptor(pid).filter(|(_, _, file)| *file == inode);
    let mut descriptors: Vec<i32> = ours.filter_map(|(name, ..)| name.parse().ok()).collect();
    descriptors.sort_unstable();
    descriptors
}

fn flocks(pid: i32) -> impl Iterator<Item = (ListedFlock, (u64, u64))> {
    flocks_by_descriptor(pid).map(|(_, shown, inode)| (shown, inode))
}

/// Flocks that the process holds through its descriptors (`/proc/PID/fdinfo`), each with the device and inode of its
/// file. Only a descriptor with a flock is looked at by `stat`: a file of another one may lie on a file system that
/// never answers. Each comes with the number of its descriptor.
fn flocks_by_descriptor(pid: i32) -> impl Iterator<Item = (String, ListedFlock, (u64, u64))> {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo"))
        .into_iter()
        .flatten()
        .flatten();
    infos.filter_map(move |info| {
        let text = fs::read_to_string(info.path()).ok()?;
        let shown = text
            .lines()
            .find_map(|line| ListedFlock::parse(line.strip_prefix("lock")?.strip_prefix(':')?))?;
        let name = info.file_name().to_string_lossy().into_owned();
        let meta = fs::metadata(format!("/proc/{pid}/fd/{name}")).ok()?;
        Some((name, shown, (meta.dev(), meta.ino())))
    })
}

/// Flock as `/proc/locks` or `fdinfo` lists it, such as `3: -> FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF`.
#[derive(Debug, PartialEq, Eq)]
struct ListedFlock {
    waits: bool,
    mode: Mode,
    /// PID of the process that took the flock; 0 if that process has ended, or belongs to another PID namespace.
    pid: i32,
    /// Locked file, as `MAJOR:MINOR:INODE`.
    inode: String,
}

/// Most reads of `/proc/locks` for lines that an earlier read has left out.
const READS: usize = 10;

impl ListedFlock {
    /// Reads every flock of `/proc/locks` once. The inodes of `known` are locked, so the file is read again until they
    /// are listed.
    ///
    /// The kernel returns the file a page at a time. When a lock ends between two pages, the kernel skips the next lock
    /// and its waiters. When a lock is added between two pages, one lock is listed twice.
    fn all_with(known: impl Iterator<Item = u64> + Clone) -> Vec<Self> {
        let (mut seen, mut lines) = (HashSet::new(), Vec::<Self>::new());
        for _ in 0..READS {
            let text = fs::read_to_string("/proc/locks").unwrap_or_default();
            for line in text.lines() {
                // The text before the colon is the number of the line.
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
            Mode::Shared
        } else {
            Mode::Exclusive
        };
        Some(Self {
            waits,
            mode,
            pid: pid.parse().ok()?,
            inode: inode.to_owned(),
        })
    }
}

/// Name of the directory or file in `/proc/locks`: `MAJOR:MINOR:INODE`.
fn inode_in_locks(path: &Path, meta: &fs::Metadata) -> Option<String> {
    let fd = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, stat::Mode::empty()).ok()?;
    let by_stat = || (stat::major(meta.dev()), stat::minor(meta.dev()));
    let (major, minor) = device_of_mount(&fd).unwrap_or_else(by_stat);
    Some(format!("{major:02x}:{minor:02x}:{}", meta.ino()))
}

/// Device of the mount of a descriptor, as major and minor number. On some file systems, such as btrfs, `stat` returns
/// another device. `None`: the mount is not visible, for example in a chroot.
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

    /// Two threads take and release other flocks all the time.
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
        let (writes, reads) = (Mode::Exclusive, Mode::Shared);
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

    /// `/proc/locks` names the process that took a flock also where its `/proc/PID/fdinfo` cannot be read.
    #[test]
    fn proc_locks_names_the_holder_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Gate::try_take(dir.path()).unwrap().unwrap();
        let gates = GateHolders {
            holders: HashMap::new(),
            ..GateHolders::now()
        };
        let me = GateHolder::of(std::process::id().cast_signed());
        assert_eq!(gates.holders(dir.path()), std::slice::from_ref(&me));
        assert_eq!(me.role(), GateRole::Other);
        let meta = fs::metadata(dir.path()).unwrap();
        let inode = (meta.dev(), meta.ino());
        assert_eq!(flock_of(me.pid, dir.path(), inode), Some(Mode::Exclusive));
        assert_eq!(flock_of(1, dir.path(), inode), None);
        drop(gate);
        assert_eq!(flock_of(me.pid, dir.path(), inode), None);
        assert_eq!(GateHolders::now().holders(dir.path()), []);
    }
}
