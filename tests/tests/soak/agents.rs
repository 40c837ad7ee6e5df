//! The agents: one that runs all the time, one that is killed now and then; and the naive loop of the
//! control.

use std::fs;
use std::sync::{Mutex, PoisonError};

use beadlock_tests::binaries;
use nix::sys::signal::Signal;

use super::actor::{Actor, kill_tree};
use super::site::{Database, NAIVE, Site, WITNESS};

/// How long a cycle of ours works, in milliseconds: up to this, or now and then so much longer that it outlives an agent
/// that is killed, and meets the next one if the gate does not keep that out.
const WORK: u64 = 60;
const LONG_WORK: u64 = 1500;

pub struct Agent {
    groups: [&'static str; 2],
    running: Mutex<Option<Actor>>,
}

impl Agent {
    pub const fn serving(groups: [&'static str; 2]) -> Self {
        Self { groups, running: Mutex::new(None) }
    }

    /// Whether a database is in one of its groups.
    pub fn serves(&self, database: &Database) -> bool {
        self.groups.iter().any(|group| database.name.starts_with(&format!("{group}-")))
    }

    pub fn start(&self, site: &Site) {
        let mut command = site.scene.command(binaries::agent());
        let ground = site.ground();
        let work = format!(
            "exec '{WITNESS}' cycle '{}' \"$BEADS_DIR\" $(($$ % 16 ? $$ % {WORK} : {LONG_WORK}))",
            ground.display()
        );
        command.args(["--interval", "10s", "--debounce", "100ms", "--jobs", "2", "--exec", &work]);
        for group in self.groups {
            command.arg("--root").arg(site.scene.path().join(group));
        }
        let talk = fs::File::options().append(true).create(true).open(ground.join("talk")).expect("open");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Actor::start({
            command.stderr(talk);
            command
        }));
    }

    /// 0: it does not run.
    pub fn pid(&self) -> i32 {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Actor::pid)
    }

    /// SIGTERM; anything but exit 0 is wrong.
    pub fn stop(&self, site: &Site) {
        let Some(mut running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        running.signal(Signal::SIGTERM);
        let status = running.wait();
        if !status.success() {
            site.wrong(format!("an agent ended with {status}"));
        }
    }

    /// SIGKILL, to the agent alone or to all that it has started, and a new one; again and again.
    pub fn is_killed_now_and_then(&self, site: &Site) {
        let mut dice = site.dice("agent kills");
        while !site.is_over() {
            for _ in 0..20 + dice.below(40) {
                dice.pause(50, 150);
                if site.is_over() {
                    return;
                }
            }
            if dice.below(2) == 0 {
                kill_tree(self.pid());
                site.count("kills: agent, all below it");
            } else {
                site.count("kills: agent, alone");
            }
            drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
            self.start(site);
        }
    }
}

/// A daemon as one usually writes it: no lock, so it works. It is the control, and has databases of its own.
pub fn naive(site: &Site) -> Actor {
    let script = format!(
        "while :; do for db in {}/*/.beads; do\n\
         [ -e \"$db/.exclusive-lock\" ] || \"$WITNESS\" cycle ground \"$db\" {WORK}\n\
         sleep 0.01; done; done",
        NAIVE.0
    );
    let mut command = site.scene.shell(&script);
    command.env("WITNESS", WITNESS);
    Actor::start(command)
}
