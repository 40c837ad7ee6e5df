//! What runs below this process, when a signal ends it.

use beadlock_checker::process::{self, Stat};
use nix::sys::signal::Signal;
use nix::unistd::getpgrp;

use crate::claim::signals::Received;
use crate::claim::tree::{self, Tree};

/// The children and all that they have started, but those that were there before the lock.
///
/// Limits: a library makes nobody a subreaper. Who left its parent before the signal came, as a daemon does, is not seen.
#[derive(Debug)]
pub struct Children {
    tree: Tree,
    /// Those that live, as far as is known: an orphan stays known.
    known: Vec<Stat>,
    /// What ends the process: everybody hears of it once.
    first: Received,
    has_looked: bool,
}

impl Children {
    /// All below this process but what is not of `tree`; they are to hear of `first`.
    pub fn of(tree: Tree, first: Received) -> Self {
        Self { tree, known: Vec::new(), first, has_looked: false }
    }

    /// Those that live. Who is new among them hears of the signal that ends the process.
    pub fn look(&mut self) -> Vec<Stat> {
        let living =
            match self.known.is_empty() && tree::children().is_some_and(|children| children.is_empty()) {
                true => Vec::new(),
                false => self.tree.living_with(process::all(), &self.known),
            };
        let is_known = |stat: &Stat| self.known.iter().any(|known| is_same(known, stat));
        let new: Vec<Stat> = living.iter().filter(|stat| !is_known(stat)).cloned().collect();
        // What the terminal sent to the whole group was sent before anybody who is born later.
        send(&new, Received { from_terminal: self.first.from_terminal && !self.has_looked, ..self.first });
        self.known.clone_from(&living);
        self.has_looked = true;
        living
    }

    /// Another signal has come: they hear of it too.
    pub fn forward(&self, received: Received) {
        send(&self.known, received);
    }

    /// Kills those that were seen last.
    pub fn kill(&self) {
        tree::signal(&self.known, Signal::SIGKILL);
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.pid, one.start_ticks) == (other.pid, other.start_ticks)
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
