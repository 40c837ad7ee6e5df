//! Everything that a command has started (docs/design.md#signals). There are two ways to find it:
//!
//! - A process that is the subreaper of its command finds its own descendants.
//! - A process that has not started the command finds the command's process, its group where it leads one, every
//!   process with the command's token in [`VARIABLE`], and all descendants of these. The token is needed because the
//!   tree falls apart with its root: what it leaves behind is a child of the system's first process then.
//!
//! Limits: what `/proc` does not show (other users' processes under `hidepid`) is not seen; where it is another PID
//! namespace's (`unshare --pid` without `--mount-proc`), its numbers mean others, and nothing of it is. A process that
//! has cleared its environment and whose parents have ended is found only by a subreaper.

use std::ffi::{OsStr, OsString};
use std::{collections::HashSet, fs, io, sync::mpsc, thread, time::Duration};

use beadlock_base::children::{adopt_orphans, children};
use beadlock_base::process::{self, StartEnvironment, Stat, is_dead_zombie, proc_is_ours};
use beadlock_base::sys::{ChildEnd, ended_child};
use beadlock_core::helper_request::CommandRef;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::{errno::Errno, unistd::Pid};

use super::{process_ref::HelperKind, tree_ending::TreeLook};
use beadlock_base::escape::process_name;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// With this exit code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// The variable of a command's environment by which its descendants are known: tokens, a colon between them.
pub const VARIABLE: &str = "BEADLOCK_WARDS";

/// What [`VARIABLE`] is to be for a command with this token, where it is `outer` already.
pub fn variable(token: &str, outer: Option<&OsStr>) -> OsString {
    let mut value = outer.map(OsStr::to_owned).unwrap_or_default();
    if !value.is_empty() {
        value.push(":");
    }
    value.push(token);
    value
}

/// The processes that a command has started, and how they are found.
#[derive(Debug, Default)]
pub struct ProcessTree {
    root: Root,
    /// What was there before the command.
    before: HashSet<(i32, u64)>,
}

#[derive(Debug, Default)]
enum Root {
    #[default]
    Us,
    /// At a command that another process has started, and at every process with this token.
    Command(CommandRef, String),
}

impl ProcessTree {
    /// The tree of a command that another process has started. `token` is its own, and has no colon.
    pub fn of_command(command: CommandRef, token: String) -> Self {
        Self {
            root: Root::Command(command, token),
            before: HashSet::new(),
        }
    }

    /// From now on the orphans of the command fall to us.
    pub fn as_subreaper() -> io::Result<Self> {
        adopt_orphans()?;
        Ok(Self::from_now_on())
    }

    /// Our descendants by now (a shell that had children may have executed us) do not belong to the command. What those
    /// start later is not known: it counts once it is an orphan, and so falls to us.
    pub fn from_now_on() -> Self {
        if ended_child(None) == Err(Errno::ECHILD) {
            return Self::default();
        }
        let before = Self::default().with_descendants(process::all(), &[]);
        let before = before
            .iter()
            .map(|stat| (stat.pid, stat.start_ticks))
            .collect();
        Self {
            root: Root::Us,
            before,
        }
    }

    /// Without the child `pid`, which does not belong to the command.
    pub fn without(mut self, pid: i32) -> Self {
        self.before
            .extend(Stat::read(pid).map(|stat| (stat.pid, stat.start_ticks)));
        self
    }

    /// Its living processes, that of the command among them.
    pub fn living(&self) -> Vec<Stat> {
        self.living_of(process::all())
    }

    /// [`ProcessTree::living`], of these processes.
    pub fn living_of(&self, all: Vec<Stat>) -> Vec<Stat> {
        self.living_with(all, &[])
    }

    /// The same, and those of `known` that live and what they have started: orphans do not fall to a process that is
    /// not a subreaper.
    pub fn living_with(&self, mut all: Vec<Stat>, known: &[Stat]) -> Vec<Stat> {
        if !proc_is_ours() {
            return Vec::new();
        }
        all.retain(|stat| !self.before.contains(&(stat.pid, stat.start_ticks)));
        let mut tree = self.with_descendants(all, known);
        tree.retain(|stat| !(stat.is_zombie() && has_ended(stat.pid)));
        tree
    }

    /// The roots among `all`, those of `known` that are there still, and what descends from them.
    fn with_descendants(&self, mut all: Vec<Stat>, known: &[Stat]) -> Vec<Stat> {
        let me = std::process::id().cast_signed();
        all.retain(|stat| stat.pid != me);
        let is_root = self.is_root(&all);
        let is_known = |stat: &Stat| {
            known
                .iter()
                .any(|one| (one.pid, one.start_ticks) == (stat.pid, stat.start_ticks))
        };
        let (mut tree, mut others): (Vec<Stat>, Vec<Stat>) = all
            .into_iter()
            .partition(|stat| is_known(stat) || is_root(stat));
        let mut parents: HashSet<i32> = tree.iter().map(|stat| stat.pid).collect();
        // Every round finds the children of the round before, whatever the order of the PIDs.
        while !parents.is_empty() {
            let (found, rest): (Vec<Stat>, Vec<Stat>) = others
                .into_iter()
                .partition(|stat| parents.contains(&stat.ppid));
            parents = found.iter().map(|stat| stat.pid).collect();
            tree.extend(found);
            others = rest;
        }
        tree
    }

    fn is_root<'t>(&'t self, all: &[Stat]) -> impl Fn(&Stat) -> bool + use<'t> {
        let me = std::process::id().cast_signed();
        let is_command = |stat: &Stat| matches!(&self.root, Root::Command(command, _) if command.process.is(stat));
        // The number of a group goes to another process only when the group is empty.
        let is_number_taken = |pid| all.iter().any(|stat| stat.pid == pid && !is_command(stat));
        let group = match &self.root {
            Root::Command(
                CommandRef {
                    process,
                    leads: true,
                },
                _,
            ) => Some(process.pid).filter(|pid| !is_number_taken(*pid)),
            _ => None,
        };
        move |stat| match &self.root {
            Root::Us => stat.ppid == me,
            Root::Command(_, token) => {
                is_command(stat) || group == Some(stat.pgrp) || has_token(stat.pid, token)
            }
        }
    }

    /// The living ones among our own children but the command `main`; those that have ended are reaped. `None` where
    /// the kernel does not list children.
    ///
    /// None of them means that nothing of the tree lives, also when its members end and are born faster than one scan
    /// of all processes takes. Each that lives is our child or below one. A child that has ended stays in the list, in
    /// front of the children that fell to us by its end, until it is reaped here.
    fn orphans(&self, main: i32) -> Option<Vec<Stat>> {
        loop {
            let (mut living, mut reaped) = (Vec::new(), false);
            for pid in children()?.into_iter().filter(|pid| *pid != main) {
                let Some(stat) = Stat::read(pid) else {
                    continue;
                };
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

    /// What lives of the tree of our child `main`, which is not reaped. Mostly nothing once that has ended, and then
    /// our own children tell it, however many processes there are. The tree's end is not believed by scans of them all:
    /// a chain of processes that each start the next and end is faster.
    pub fn look(&self, main: i32) -> TreeLook {
        if end_of(main).is_none() {
            // It lives, seen or not.
            return match TreeLook::of_scan(self.living()) {
                TreeLook::NoneSeen => TreeLook::Hidden,
                look => look,
            };
        }
        if self.orphans(main).is_some_and(|none| none.is_empty()) {
            return TreeLook::Nobody;
        }
        let all = process::all();
        reap_orphans_of(&all, main);
        let living = self.living_of(all);
        if !living.is_empty() {
            return TreeLook::Living(living);
        }
        match self.orphans(main) {
            Some(none) if none.is_empty() => TreeLook::Nobody,
            Some(orphans) => TreeLook::Living(orphans),
            None => TreeLook::NoneSeen,
        }
    }

    /// Kills our own children but `main`, and those that fall to us by it, again and again for a while. A chain of
    /// processes that each start the next and end is faster than a scan. A child's number is its own until we reap it.
    /// The watchdogs of holds in the tree are left to [`Ending`](crate::tree_ending::Ending): what they watch may still
    /// live.
    pub fn kill_orphans(&self, main: i32) {
        for _ in 0..KILL_ROUNDS {
            let mut orphans = self.orphans(main).unwrap_or_default();
            orphans.retain(|stat| HelperKind::of(stat.pid) != Some(HelperKind::Watchdog));
            if orphans.is_empty() {
                return;
            }
            for stat in orphans {
                let _ = kill(Pid::from_raw(stat.pid), Signal::SIGKILL);
            }
        }
    }
}

/// The processes whose environment `is_meant`, apart from us: not ours, those above us and those that were started with
/// us, as in a pipe; and no helper of beadlock's. None where that is not known within `patience`.
pub fn others_by_environment(
    is_meant: impl Fn(&StartEnvironment) -> bool + Send + 'static,
    patience: Duration,
) -> Vec<Stat> {
    let (sender, receiver) = mpsc::channel();
    let looking = move || sender.send(others_of(&is_meant));
    // The thread is left alone when its time is over.
    let started = thread::Builder::new()
        .name("under".to_owned())
        .spawn(looking);
    let found = started
        .ok()
        .and_then(|_| receiver.recv_timeout(patience).ok());
    found.unwrap_or_default()
}

fn others_of(is_meant: impl Fn(&StartEnvironment) -> bool) -> Vec<Stat> {
    let all = if proc_is_ours() {
        process::all()
    } else {
        Vec::new()
    };
    let of_pid = |pid: i32| all.iter().find(|stat| stat.pid == pid);
    let Some(me) = of_pid(std::process::id().cast_signed()) else {
        return Vec::new();
    };
    let above = |stat: &&Stat| of_pid(stat.ppid);
    let ours: Vec<i32> = std::iter::successors(Some(me), above)
        .map(|stat| stat.pid)
        .collect();
    let is_apart = |stat: &&Stat| {
        let is_with_us = stat.pgrp == me.pgrp && stat.start_ticks + WITH_US >= me.start_ticks;
        !ours.contains(&stat.pid) && !is_with_us && !stat.is_zombie()
    };
    let is_helper = |stat: &&Stat| HelperKind::of(stat.pid).is_some();
    let others = all.iter().filter(is_apart).filter(|stat| {
        let environment = StartEnvironment::of(stat.pid);
        environment.is_some_and(|environment| is_meant(&environment))
    });
    others.filter(|stat| !is_helper(stat)).cloned().collect()
}

/// How much earlier than we a process may have begun that was started with us, in clock ticks.
const WITH_US: u64 = 5;

fn has_token(pid: i32, token: &str) -> bool {
    StartEnvironment::of(pid).is_some_and(|environment| is_marked(&environment, token))
}

fn is_marked(environment: &StartEnvironment, token: &str) -> bool {
    let mut tokens = environment.values(VARIABLE);
    tokens.next().is_some_and(|tokens| {
        tokens
            .split(|byte| *byte == b':')
            .any(|one| one == token.as_bytes())
    })
}

/// How often children that come anew are killed before there is a pause.
const KILL_ROUNDS: usize = 200;

/// One whose main thread alone has ended looks like a zombie, and lives; one that is gone by now has ended.
fn has_ended(pid: i32) -> bool {
    is_dead_zombie(pid).unwrap_or_else(|| Stat::read(pid).is_none())
}

/// Sends a signal to each, unless its PID is another process by now. Answers those that we were not permitted to
/// signal.
pub fn signal(tree: &[Stat], signal: Signal) -> Vec<Stat> {
    let is_still =
        |stat: &&Stat| Stat::read(stat.pid).is_some_and(|now| now.start_ticks == stat.start_ticks);
    let refused = |stat: &&Stat| kill(Pid::from_raw(stat.pid), signal) == Err(Errno::EPERM);
    tree.iter()
        .filter(is_still)
        .filter(refused)
        .cloned()
        .collect()
}

/// Without git's own upkeep and what that has started: a commit leaves `git maintenance run --auto --detach` behind,
/// which packs objects and changes nothing that a lock is for.
pub fn without_upkeep(left: &[Stat]) -> Vec<Stat> {
    let is_its_own = |stat: &&Stat| {
        let words = fs::read(format!("/proc/{}/cmdline", stat.pid)).unwrap_or_default();
        is_upkeep(&words)
    };
    let (mut upkeep, mut rest): (Vec<Stat>, Vec<Stat>) =
        left.iter().cloned().partition(|stat| is_its_own(&stat));
    loop {
        let of_it = |stat: &Stat| upkeep.iter().any(|above| above.pid == stat.ppid);
        let (found, others): (Vec<Stat>, Vec<Stat>) = rest.into_iter().partition(of_it);
        rest = others;
        if found.is_empty() {
            return rest;
        }
        upkeep.extend(found);
    }
}

/// The command line, with a NUL behind each word, is of git's upkeep in the background.
fn is_upkeep(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == 0);
    let program = words.next().unwrap_or_default();
    let mut words = words.skip_while({
        let mut takes_next = false;
        move |word| {
            let is_option = takes_next || word.first() == Some(&b'-');
            takes_next = !takes_next && [&b"-c"[..], b"-C"].contains(word);
            is_option
        }
    });
    let command = words.next();
    program.rsplit(|byte| *byte == b'/').next() == Some(b"git")
        && [Some(&b"maintenance"[..]), Some(b"gc")].contains(&command)
        && words.any(|word| word == b"--auto" || word == b"--detach")
}

/// `PID 44 (sleep 60), PID 45 (make)`; many are counted.
pub fn names(tree: &[Stat]) -> String {
    let name = |stat: &Stat| {
        process_name(
            stat.pid,
            &process::command_line(stat.pid).unwrap_or_default(),
        )
    };
    let mut names: Vec<String> = tree.iter().take(5).map(name).collect();
    if tree.len() > 5 {
        names.push(format!("{} more", tree.len() - 5));
    }
    names.join(", ")
}

/// How the child `pid` ended, without reaping it; `None` while it lives.
pub fn end_of(pid: i32) -> Option<CommandEnd> {
    match ended_child(Some(pid)) {
        Ok(ended) => ended.map(|(_, end)| match end {
            ChildEnd::Exited(code) => {
                CommandEnd::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX))
            }
            ChildEnd::Killed(signal) => CommandEnd::Killed(signal),
        }),
        // Nobody else may reap it; should it be gone all the same, it has ended.
        Err(Errno::ECHILD) => Some(CommandEnd::Exited(u8::MAX)),
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
fn reap_orphans_of(all: &[Stat], main: i32) {
    let me = std::process::id().cast_signed();
    for stat in all {
        if stat.ppid == me && stat.is_zombie() && stat.pid != main {
            let _ = waitpid(Pid::from_raw(stat.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

#[cfg(test)]
mod tests;
