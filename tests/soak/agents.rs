//! The agents: one that runs all the time, one that is killed now and then; and the naive loop of the
//! control.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use beadlock_base::process::Stat;
use beadlock_tests::binaries;
use beadlock_tests::wait::PATIENCE;
use nix::sys::signal::Signal;

use super::actor::{Actor, children, kill_tree};
use super::site::{Database, NAIVE, Site, WITNESS};

/// How long a cycle of ours works, in milliseconds: up to this, or longer where somebody waits for it. Then it
/// outlives an agent that is killed, and meets the next process if the gate does not keep that out.
const WORK: u64 = 60;
const LONG_WORK: u64 = 5000;

pub struct Agent {
    groups: [&'static str; 2],
    running: Mutex<Option<Actor>>,
}

impl Agent {
    pub const fn serving(groups: [&'static str; 2]) -> Self {
        Self {
            groups,
            running: Mutex::new(None),
        }
    }

    /// Whether a database is in one of its groups.
    pub fn serves(&self, database: &Database) -> bool {
        self.groups
            .iter()
            .any(|group| database.name.starts_with(&format!("{group}-")))
    }

    pub fn start(&self, site: &Site) {
        let mut command = site.scene.command(binaries::agent());
        let ground = site.ground();
        let long = self.long_work_is_wanted(site);
        let work = format!(
            "millis=$(($$ % {WORK})); [ ! -e '{long}' ] || ! rm '{long}' 2>/dev/null || millis={LONG_WORK}\n\
             exec '{WITNESS}' cycle '{}' \"$BEADS_DIR\" $millis",
            ground.display(),
            long = long.display()
        );
        command.args([
            "--interval",
            "10s",
            "--debounce",
            "100ms",
            "--jobs",
            "2",
            "--exec",
            &work,
        ]);
        for group in self.groups {
            command.arg("--root").arg(site.scene.path().join(group));
        }
        let talk = fs::File::options()
            .append(true)
            .create(true)
            .open(ground.join("talk"))
            .expect("open");
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Actor::start({
            command.stderr(talk);
            command
        }));
    }

    /// The file that makes its next cycle a long one.
    fn long_work_is_wanted(&self, site: &Site) -> PathBuf {
        site.ground().join(format!("long-{}", self.groups.concat()))
    }

    /// 0: it does not run.
    pub fn pid(&self) -> i32 {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map_or(0, Actor::pid)
    }

    /// SIGTERM; anything but exit 0 is wrong.
    pub fn stop(&self, site: &Site) {
        let Some(mut running) = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        else {
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
                drop(
                    self.running
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take(),
                );
            } else {
                fs::write(self.long_work_is_wanted(site), "").expect("ask for long work");
                let works = long_works(self.pid(), site);
                drop(
                    self.running
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take(),
                );
                site.count("kills: agent, alone");
                works.iter().for_each(|beads| comes_by(beads, site));
            }
            self.start(site);
        }
    }
}

/// Where a long cycle of this agent works; waits for one, though not for ever.
fn long_works(agent: i32, site: &Site) -> Vec<String> {
    let beads = |work: &Stat| {
        let line = fs::read_to_string(format!("/proc/{}/cmdline", work.pid)).unwrap_or_default();
        let words: Vec<_> = line.split_terminator('\0').collect();
        let [WITNESS, "cycle", _, beads, millis] = words[..] else {
            return None;
        };
        (millis == LONG_WORK.to_string()).then(|| beads.to_owned())
    };
    let begun = Instant::now();
    loop {
        let runners = children(agent);
        let works: Vec<_> = runners
            .iter()
            .flat_map(|runner| children(runner.pid))
            .filter_map(|work| beads(&work))
            .collect();
        if !works.is_empty() || site.is_over() || begun.elapsed() > PATIENCE {
            return works;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Another cycle where a killed agent's work goes on: the gate must still be shut, or the two meet.
fn comes_by(beads: &str, site: &Site) {
    let ground = site.ground().display().to_string();
    let words = [
        "cycle", "--json", beads, "--", WITNESS, "cycle", &ground, beads, "0",
    ];
    let mut cycle = Actor::start(site.scene.beadlock(&words));
    let said = cycle.line();
    // Exit 0: that work has ended meanwhile, or the witnesses have met.
    match cycle.wait().code() {
        Some(4) if said.contains("in progress") => {
            site.count("kept out by the work of a killed agent")
        }
        Some(0 | 4) => {}
        code => site.wrong(format!("a cycle in {beads}: {code:?}, {said}")),
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
