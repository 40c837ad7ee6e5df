//! A standstill: a tree of processes that does no work for as long as it is not known whether the lock is still its
//! own.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use beadlock_base::process::Stat;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How often all processes are looked at once no new one was found: a stopped process starts none.
const SELDOM: Duration = Duration::from_secs(1);

/// The stopped processes, by PID and start.
#[derive(Debug, Default)]
pub(super) struct Freeze {
    stopped: HashSet<(i32, u64)>,
    complete: Option<Instant>,
}

impl Freeze {
    /// Stops each running process of the tree, also one that somebody else has continued; to be called again and again.
    pub fn keep(&mut self, tree: impl FnOnce() -> Vec<Stat>) {
        for (pid, start) in &self.stopped {
            if Stat::read(*pid)
                .is_some_and(|stat| stat.start_ticks == *start && !stands_still(&stat))
            {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGSTOP);
            }
        }
        if self.complete.is_some_and(|since| since.elapsed() < SELDOM) {
            return;
        }
        let mut is_complete = true;
        for stat in tree() {
            // A process that others have stopped is theirs until it goes on.
            if !stands_still(&stat) && self.stopped.insert((stat.pid, stat.start_ticks)) {
                let _ = kill(Pid::from_raw(stat.pid), Signal::SIGSTOP);
                is_complete = false;
            }
        }
        self.complete = is_complete.then(Instant::now);
    }

    /// Continues each process that was stopped here.
    pub fn end(&mut self) {
        self.complete = None;
        for (pid, start) in self.stopped.drain() {
            if Stat::read(pid).is_some_and(|stat| stat.start_ticks == start) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
            }
        }
    }
}

/// Stopped, by a signal or under a debugger, or at its end.
fn stands_still(stat: &Stat) -> bool {
    matches!(stat.state, 'T' | 't') || stat.is_zombie()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "not within 30 s: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn who_is_made_to_go_on_is_stopped_again_and_who_stood_still_stays_so() {
        let mut children = [(); 2].map(|()| Command::new("sleep").arg("60").spawn().unwrap());
        let pids = children.each_ref().map(|child| child.id().cast_signed());
        let stat = |pid: i32| Stat::read(pid).unwrap();
        kill(Pid::from_raw(pids[1]), Signal::SIGSTOP).unwrap();
        until("it stands still", || stands_still(&stat(pids[1])));
        let mut standstill = Freeze::default();
        let tree = || pids.map(stat).to_vec();
        standstill.keep(tree);
        until("both stand still", || {
            pids.iter().all(|pid| stands_still(&stat(*pid)))
        });
        kill(Pid::from_raw(pids[0]), Signal::SIGCONT).unwrap();
        until("it runs", || !stands_still(&stat(pids[0])));
        standstill.keep(tree);
        until("it stands still again", || stands_still(&stat(pids[0])));
        standstill.end();
        until("it goes on", || !stands_still(&stat(pids[0])));
        assert!(stands_still(&stat(pids[1])), "somebody else has stopped it");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
