//! Children that this process has not started itself. The first process of a container gets every orphan there, and a
//! subreaper those below it. Nobody else collects them when they end: a dead holder would stay a zombie, whose PID answers,
//! and keep its lock for ever.
//!
//! [`reap_orphans`] collects them. It must not take the exit status of a child that some part of this process waits for, so
//! each of these is started by [`starting`], which keeps its PID until it was waited for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use nix::sys::prctl::{get_child_subreaper, set_child_subreaper};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use crate::process::proc_is_ours;
use crate::sys::ended_child;

/// The children that this process waits for.
static OWN: Mutex<Own> = Mutex::new(Own {
    starting: 0,
    pids: Vec::new(),
});

#[derive(Debug)]
struct Own {
    /// How many are being started: their PIDs are not known yet.
    starting: usize,
    pids: Vec<u32>,
}

/// Never kept while a child is being started: a file system that hangs can delay that.
fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child that this process has started, to be kept until it was waited for.
#[derive(Debug)]
#[must_use = "dropped, the child may be collected by others"]
pub struct OwnChild(u32);

impl Drop for OwnChild {
    fn drop(&mut self) {
        let mut own = own();
        if let Some(at) = own.pids.iter().position(|pid| *pid == self.0) {
            own.pids.swap_remove(at);
        }
    }
}

/// Starts a child, which [`reap_orphans`] leaves alone for as long as the [`OwnChild`] is kept. `pid` says which it is.
///
/// # Errors
/// Those of `start`.
pub fn starting<C>(
    start: impl FnOnce() -> io::Result<C>,
    pid: impl FnOnce(&C) -> u32,
) -> io::Result<(C, OwnChild)> {
    own().starting += 1;
    let started = start();
    let mut own = own();
    own.starting -= 1;
    let child = started?;
    let pid = pid(&child);
    own.pids.push(pid);
    Ok((child, OwnChild(pid)))
}

/// Makes this process a subreaper: the orphans below it fall to it from now on, and so stay below it. What it starts is
/// not a subreaper by that.
///
/// # Errors
/// Those of the system, such as of a kernel that forbids it.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(true)?)
}

/// Whether orphans fall to this process: it is the first of its PID namespace, or a subreaper.
pub fn gets_orphans() -> bool {
    getpid() == Pid::from_raw(1) || get_child_subreaper().is_ok_and(|is_one| is_one)
}

/// Collects the children that have ended and that nobody here waits for, where orphans fall to this process. Returns
/// whether it could look at all of them: while a child is being started it cannot, and is to be called again soon.
/// Otherwise the next SIGCHLD is the next occasion.
pub fn reap_orphans() -> bool {
    if !gets_orphans() || !matches!(ended_child(None), Ok(Some(_))) {
        return true;
    }
    // Until this ends no other child is started.
    let own = own();
    if own.starting > 0 {
        return false;
    }
    let is_own = |pid: i32| own.pids.contains(&pid.cast_unsigned());
    let reap = |pid: i32| waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    if let Some(children) = children() {
        for pid in children.into_iter().filter(|pid| !is_own(*pid)) {
            let _ = reap(pid);
        }
        return true;
    }
    // wait(2) shows the first alone. Behind a child of ours the others wait until that one was waited for.
    loop {
        match ended_child(None) {
            Ok(Some((pid, _))) if is_own(pid) => return false,
            Ok(Some((pid, _))) if reap(pid).is_ok() => {}
            _ => return true,
        }
    }
}

/// The children of all threads of this process, in the order in which they became its children. `None` where the kernel
/// does not list them, or by the numbers of another PID namespace.
pub fn children() -> Option<Vec<i32>> {
    if !proc_is_ours() {
        return None;
    }
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        let Ok(list) = fs::read_to_string(task.ok()?.path().join("children")) else {
            // A thread that has just ended; its children are another's now, and listed there or the next time.
            continue;
        };
        let pids = list.split_ascii_whitespace();
        children.extend(pids.filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Some(children)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::Stat;

    fn ended_one() -> std::process::Child {
        let child = Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while !Stat::read(pid).is_some_and(|stat| stat.is_zombie()) {
            std::thread::yield_now();
        }
        child
    }

    /// One process for all of it: whether orphans fall to it is known of a process alone.
    #[test]
    #[expect(clippy::zombie_processes, reason = "zombies are what this is about")]
    fn what_nobody_waits_for_is_collected_and_the_status_of_others_stays() {
        let mut before = ended_one();
        reap_orphans();
        assert!(before.try_wait().unwrap().is_some(), "no orphans fall here");

        adopt_orphans().unwrap();
        let (mut own, kept) = starting(|| Ok(ended_one()), std::process::Child::id).unwrap();
        // Behind one of our own, which wait(2) shows first.
        let orphan = ended_one();
        let pid = orphan.id().cast_signed();
        reap_orphans();
        assert!(Stat::read(pid).is_none(), "the orphan was collected");
        assert!(
            own.try_wait()
                .unwrap()
                .is_some_and(|status| status.success())
        );
        drop(kept);
        assert!(super::own().pids.is_empty());

        let (child, kept) = starting(
            || {
                let orphan = ended_one();
                reap_orphans();
                Ok(orphan)
            },
            std::process::Child::id,
        )
        .unwrap();
        drop(kept);
        let pid = child.id().cast_signed();
        assert!(Stat::read(pid).is_some(), "collected while it was started");
        reap_orphans();
        assert!(Stat::read(pid).is_none());
        set_child_subreaper(false).unwrap();
    }
}
