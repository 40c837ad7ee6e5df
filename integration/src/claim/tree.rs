//! Everything that the command has started: all our descendants, since we are the subreaper (docs/design.md#signals).
//!
//! Limits: what `/proc` does not show (other users' processes under `hidepid`) is not seen; where it is another PID
//! namespace's (`unshare --pid` without `--mount-proc`), its numbers mean others, and nothing of it is.

use std::collections::HashSet;
use std::fs;

use beadlock_checker::internal::process::{self, Stat, is_dead_zombie, proc_is_ours};
use beadlock_checker::internal::sys::{ChildEnd, ended_child};
use beadlock_checker::internal::system_words;
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::error::Error;
use crate::words;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this exit code.
    Exited(u8),
    /// Killed by this signal's number.
    Killed(i32),
}

/// What of our descendants is the command's: all but those that were there before it.
#[derive(Debug, Default)]
pub struct Tree {
    before: HashSet<(i32, u64)>,
}

impl Tree {
    /// From now on the orphans of the command's fall to us.
    ///
    /// # Errors
    /// When the system refuses that.
    pub fn as_subreaper() -> Result<Self, Error> {
        set_child_subreaper(true).map_err(|errno| {
            let error = errno.into();
            let why = system_words(&error);
            Error::io(format!("failed to become the subreaper of the command: {why}"), error.kind())
        })?;
        Ok(Self::from_now_on())
    }

    /// Whoever is our descendant by now (we may have been executed by a shell that had children) is none of the
    /// command's. What those start later is not known: it counts once it is an orphan, and so falls to us.
    pub fn from_now_on() -> Self {
        if ended_child(None) == Err(Errno::ECHILD) {
            return Self::default();
        }
        Self {
            before: descendants(process::all(), &[])
                .iter()
                .map(|stat| (stat.pid, stat.start_ticks))
                .collect(),
        }
    }

    /// Without the child `pid`, which is ours and none of the command's.
    pub fn without(mut self, pid: i32) -> Self {
        self.before.extend(Stat::read(pid).map(|stat| (stat.pid, stat.start_ticks)));
        self
    }

    /// The living ones; zombies count as ended.
    pub fn living(&self) -> Vec<Stat> {
        self.living_of(process::all())
    }

    /// The living ones among `all` processes.
    pub fn living_of(&self, all: Vec<Stat>) -> Vec<Stat> {
        self.living_with(all, &[])
    }

    /// The same, and those of `known` that live and what they have started: orphans do not fall to who is no subreaper.
    pub fn living_with(&self, mut all: Vec<Stat>, known: &[Stat]) -> Vec<Stat> {
        if !proc_is_ours() {
            return Vec::new();
        }
        all.retain(|stat| !self.before.contains(&(stat.pid, stat.start_ticks)));
        let mut tree = descendants(all, known);
        tree.retain(|stat| !(stat.is_zombie() && has_ended(stat.pid)));
        tree
    }
}

impl Tree {
    /// The living ones among our own children but the command `main`; those that have ended are reaped. `None` where
    /// the kernel does not list children.
    ///
    /// None of them means that nothing of the tree lives, also when its members end and are born faster than one scan
    /// of all processes takes: whoever lives is our child or below one, and a child that has ended stays in the list,
    /// in front of the children that fell to us by its end, until it is reaped here.
    pub fn orphans(&self, main: i32) -> Option<Vec<Stat>> {
        loop {
            let (mut living, mut reaped) = (Vec::new(), false);
            for pid in children()?.into_iter().filter(|pid| *pid != main) {
                let Some(stat) = Stat::read(pid) else { continue };
                if self.before.contains(&(stat.pid, stat.start_ticks)) {
                    continue;
                }
                if stat.is_zombie() && has_ended(pid) {
                    let end = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
                    reaped |= end.is_ok_and(|end| end != WaitStatus::StillAlive);
                } else {
                    living.push(stat);
                }
            }
            if !reaped || !living.is_empty() {
                return Some(living);
            }
        }
    }

    /// Kills our own children but `main`, and those that fall to us by it, again and again for a while: a chain of
    /// processes that each start the next and end is faster than a scan. A child's number is its own until we reap it.
    pub fn kill_orphans(&self, main: i32) {
        for _ in 0..KILL_ROUNDS {
            match self.orphans(main) {
                Some(orphans) if !orphans.is_empty() => {
                    for stat in orphans {
                        let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
                    }
                }
                _ => return,
            }
        }
    }
}

/// How often children that come anew are killed before there is a pause.
const KILL_ROUNDS: usize = 200;

/// Our children, of all threads, in the order in which they became ours. `None` where the kernel does not list them, or
/// by the numbers of another PID namespace.
pub fn children() -> Option<Vec<i32>> {
    if !proc_is_ours() {
        return None;
    }
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let list = fs::read_to_string(task.ok()?.path().join("children")).ok()?;
        children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

/// One whose main thread alone has ended looks like a zombie, and lives; one that is gone by now has ended.
fn has_ended(pid: i32) -> bool {
    is_dead_zombie(pid).unwrap_or_else(|| Stat::read(pid).is_none())
}

/// Our descendants among `others`, those of `known` that are there still, and theirs.
fn descendants(others: Vec<Stat>, known: &[Stat]) -> Vec<Stat> {
    let is_known =
        |stat: &Stat| known.iter().any(|one| (one.pid, one.start_ticks) == (stat.pid, stat.start_ticks));
    let (mut tree, mut others): (Vec<Stat>, Vec<Stat>) = others.into_iter().partition(is_known);
    let mut parents: HashSet<i32> = tree.iter().map(|stat| stat.pid).collect();
    parents.insert(std::process::id().cast_signed());
    // Every round finds the children of the round before, whatever the order of the PIDs.
    loop {
        let (found, rest): (Vec<Stat>, Vec<Stat>) =
            others.into_iter().partition(|stat| parents.contains(&stat.ppid));
        if found.is_empty() {
            return tree;
        }
        parents = found.iter().map(|stat| stat.pid).collect();
        tree.extend(found);
        others = rest;
    }
}

/// Sends a signal to each, unless its PID is another process by now. Answers whom we were not permitted to signal.
pub fn signal(tree: &[Stat], signal: Signal) -> Vec<Stat> {
    let is_still = |stat: &&Stat| Stat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
    let refused = |stat: &&Stat| kill(Pid::from_raw(stat.pid), signal) == Err(Errno::EPERM);
    tree.iter().filter(is_still).filter(refused).cloned().collect()
}

/// `PID 44 (sleep 60), PID 45 (make)`; many are counted.
pub fn names(tree: &[Stat]) -> String {
    let name =
        |stat: &Stat| words::process_name(stat.pid, &process::command_line(stat.pid).unwrap_or_default());
    let mut names: Vec<String> = tree.iter().take(5).map(name).collect();
    if tree.len() > 5 {
        names.push(format!("{} more", tree.len() - 5));
    }
    names.join(", ")
}

/// How the child `pid` ended, without reaping it; `None` while it lives.
pub fn ending(pid: i32) -> Option<Ending> {
    match ended_child(Some(pid)) {
        Ok(ended) => ended.map(|(_, end)| match end {
            ChildEnd::Exited(code) => Ending::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
            ChildEnd::Killed(signal) => Ending::Killed(signal),
        }),
        // Nobody else may reap it; should it be gone all the same, it has ended.
        Err(Errno::ECHILD) => Some(Ending::Exited(u8::MAX)),
        Err(_) => None,
    }
}

/// Reaps the child `pid`, which has ended or is about to.
pub fn reap(pid: i32) {
    while waitpid(Pid::from_raw(pid), None) == Err(Errno::EINTR) {}
}

/// Reaps the orphans that fell to us and have ended, while the command `main` lives.
pub fn reap_orphans(main: i32) {
    while let Ok(Some((pid, _))) = ended_child(None)
        && pid != main
    {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// The same among `all` processes, once the command has ended: unreaped, it hides the others from wait(2).
pub fn reap_orphans_of(all: &[Stat], main: i32) {
    let me = std::process::id().cast_signed();
    for stat in all {
        if stat.ppid == me && stat.is_zombie() && stat.pid != main {
            let _ = waitpid(Pid::from_raw(stat.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "not within 30 s: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn tells_how_a_child_ended_without_reaping_it() {
        let cases = [
            ("exit 7", Ending::Exited(7)),
            ("kill -9 $$", Ending::Killed(9)),
            ("kill -40 $$", Ending::Killed(40)),
        ];
        for (script, expected) in cases {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let pid = child.id().cast_signed();
            until(script, || ending(pid).is_some());
            assert_eq!(ending(pid), Some(expected), "{script}");
            assert_eq!(ending(pid), Some(expected), "{script}, asked again");
            child.wait().unwrap();
        }
    }

    #[test]
    fn sees_grandchildren_and_no_zombies() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        let pid = child.id().cast_signed();
        let tree = Tree::default();
        let below = || {
            tree.living().into_iter().filter(|stat| stat.pid == pid || stat.ppid == pid).collect::<Vec<_>>()
        };
        until("two of them", || below().len() == 2);
        assert!(signal(&below(), Signal::SIGKILL).is_empty());
        until("none of them", || below().is_empty());
        child.wait().unwrap();
    }

    #[test]
    fn whom_a_shell_left_us_is_none_of_the_commands() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id().cast_signed();
        let has_it = |tree: &Tree| tree.living().iter().any(|stat| stat.pid == pid);
        assert!(has_it(&Tree::default()));
        assert!(!has_it(&Tree::from_now_on()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
