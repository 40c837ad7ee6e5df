//! What runs below this process, when a signal ends it.

use std::{collections::HashMap, time::Duration};

use beadlock_checker::internal::process::{self, Stat};
use beadlock_checker::internal::{facts::boottime, sys::ended_child};
use nix::{errno::Errno, sys::prctl::set_child_subreaper, sys::signal::Signal, unistd::getpgrp};

use crate::claim::signals::Received;
use crate::claim::tree::{self, Tree};

/// The children and all that they have started, but those that were there before the lock.
///
/// Limits: a process that left its parent before the signal, as a daemon does, is not seen. Without a `/proc` of our
/// own PID namespace nobody is: children are waited for, and do not hear of the signal. A process that was
/// started by one that was told, in the same clock tick, does not hear of it.
#[derive(Debug)]
pub struct Children {
    tree: Tree,
    /// Those that live, as far as is known: an orphan stays known.
    known: Vec<Stat>,
    /// When each was told: in clock ticks after boot.
    told: HashMap<(i32, u64), u64>,
    /// What ends the process: everybody hears of it once.
    first: Received,
    has_looked: bool,
    are_unseen: bool,
}

impl Children {
    /// All below this process but what is not of `tree`; they are to hear of `first`.
    pub fn of(tree: Tree, first: Received) -> Self {
        // Orphans fall to us from now on: a child may have started one between a look and its own end. Where nobody can
        // be seen, nobody would be told, and their ends would count as children for ever.
        if process::proc_is_ours() {
            let _ = set_child_subreaper(true);
        }
        let (known, told) = (Vec::new(), HashMap::new());
        Self { tree, known, told, first, has_looked: false, are_unseen: false }
    }

    /// Whether any lives. Who is new among them hears of the signal that ends the process.
    pub fn look(&mut self) -> bool {
        // A scan takes time: a process that was started and orphaned during it is found by the next.
        self.scan() || self.scan()
    }

    /// One look at all processes.
    fn scan(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        if self.known.is_empty() && tree::children().is_some_and(|children| children.is_empty()) {
            return false;
        }
        let all = process::all();
        self.are_unseen = !process::proc_is_ours() && ended_child(None) != Err(Errno::ECHILD);
        self.known = self.tree.living_with(all, &self.known);
        self.tell(is_first);
        self.are_unseen || !self.known.is_empty()
    }

    /// Tells new ones, but not what a process has started that had heard of it, until that parent is gone.
    fn tell(&mut self, is_first: bool) {
        let by_pid: HashMap<i32, &Stat> = self.known.iter().map(|stat| (stat.pid, stat)).collect();
        let is_new = |stat: &&Stat| !self.has_heard(stat, &by_pid);
        let new: Vec<Stat> = self.known.iter().filter(is_new).cloned().collect();
        // What the terminal sent to the whole group was sent before anybody who is born later.
        send(&new, Received { from_terminal: self.first.from_terminal && is_first, ..self.first });
        let now = ticks(boottime());
        self.told.extend(new.iter().map(|stat| (key(stat), now)));
    }

    /// It was told, or comes from somebody who was before.
    fn has_heard(&self, stat: &Stat, by_pid: &HashMap<i32, &Stat>) -> bool {
        let mut ancestor = stat;
        // No more of them than there are: the numbers were read one after the other, and may lead in a circle.
        for _ in 0..by_pid.len() {
            match (self.told.get(&key(ancestor)), by_pid.get(&ancestor.ppid)) {
                (Some(since), _) => return ancestor == stat || stat.start_ticks >= *since,
                (None, Some(parent)) => ancestor = parent,
                (None, None) => return false,
            }
        }
        false
    }

    /// Another signal has come: they hear of it too.
    pub fn forward(&self, received: Received) {
        send(&self.known, received);
    }

    pub fn kill(&self) {
        tree::signal(&self.known, Signal::SIGKILL);
    }

    /// Those that lived at the last look, for a line.
    pub fn names(&self) -> String {
        match self.are_unseen {
            true => {
                "children that cannot be seen without a /proc of our own, and have not heard of the signal".to_owned()
            }
            false => tree::names(&self.known),
        }
    }
}

fn key(stat: &Stat) -> (i32, u64) {
    (stat.pid, stat.start_ticks)
}

/// As `/proc` counts them for every program: 100 in a second.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / 10).unwrap_or(u64::MAX)
}

/// Sends it to each that does not have it from the terminal. Who is stopped goes on, to heed it.
fn send(stats: &[Stat], Received { signal, from_terminal }: Received) {
    let ours = getpgrp().as_raw();
    let lacks_it = |stat: &&Stat| !(from_terminal && stat.pgrp == ours);
    let lacking: Vec<Stat> = stats.iter().filter(lacks_it).cloned().collect();
    tree::signal(&lacking, signal);
    let is_stopped = |stat: &&Stat| stat.state == 'T';
    let stopped: Vec<Stat> = stats.iter().filter(is_stopped).cloned().collect();
    tree::signal(&stopped, Signal::SIGCONT);
}
