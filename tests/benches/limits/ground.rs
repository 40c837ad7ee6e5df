//! Many databases below one directory, and an agent that serves them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Pulse, Running, Scene, wait_until};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// The log has a line with this for each cycle.
const COMPLETE: &str = "Sync cycle complete";

/// They lie in so many directories, an equal number in each.
const GROUPS: usize = 100;

/// How long a sweep may take on a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(600);

/// A process that uses less than this in a [`MOMENT`] is at rest.
const REST: Duration = Duration::from_millis(2);
const MOMENT: Duration = Duration::from_millis(200);

/// Databases in which nothing changes.
pub struct Ground {
    scene: Scene,
    dirs: Vec<PathBuf>,
}

/// An agent that serves all of them. Dropped, it is killed.
pub struct Agent<'a> {
    ground: &'a Ground,
    process: Running,
    started: SystemTime,
}

impl Ground {
    /// So many, each with nothing in it.
    pub fn new(count: usize) -> Self {
        let scene = Scene::new();
        let dir = |number: usize| {
            scene
                .path()
                .join(format!("ground/{:02}/{number}/.beads", number % GROUPS))
        };
        let dirs: Vec<PathBuf> = (0..count).map(dir).collect();
        dirs.iter()
            .for_each(|dir| fs::create_dir_all(dir).expect("a database"));
        Self { scene, dirs }
    }

    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Moves one in so many out of the ground, with what they lie in.
    pub fn move_away(&self, of: usize) {
        fs::create_dir_all(self.scene.path().join("away")).expect("a place for them");
        for (here, away) in self.groups(of) {
            fs::rename(here, away).expect("move a group of databases");
        }
    }

    /// Deletes as many.
    pub fn delete(&self, of: usize) {
        self.groups(of)
            .for_each(|(here, _)| fs::remove_dir_all(here).expect("delete a group of databases"));
    }

    /// All are there again.
    pub fn bring_back(&self) {
        for (here, away) in self.groups(1) {
            // Those that were deleted are nowhere.
            let _ = fs::rename(away, here);
        }
        self.dirs
            .iter()
            .for_each(|dir| fs::create_dir_all(dir).expect("a database"));
    }

    /// The directories that have one in so many of the databases, and where each may be meanwhile.
    fn groups(&self, of: usize) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let [ground, away] = ["ground", "away"].map(|name| self.scene.path().join(name));
        let numbers = (0..GROUPS).step_by(of).map(|number| format!("{number:02}"));
        numbers.map(move |name| (ground.join(&name), away.join(name)))
    }

    /// Starts an agent that finds all of them, with logs that are not there yet.
    pub fn serve(&self, interval: Duration, more: &[&str]) -> Agent<'_> {
        for log in self
            .dirs
            .iter()
            .map(|dir| dir.join("daemon.log"))
            .filter(|log| log.exists())
        {
            fs::remove_file(log).expect("remove a log");
        }
        let interval = format!("{}ms", interval.as_millis());
        let args = [
            "--root",
            "ground",
            "--action",
            "none",
            "--interval",
            &interval,
        ];
        let command = self.scene.agent(&[&args, more].concat());
        let started = SystemTime::now();
        Agent {
            ground: self,
            process: Running::start(command),
            started,
        }
    }
}

impl Agent<'_> {
    /// Waits until each database has had so many cycles and the agent is at rest. Returns how many there were in all.
    /// Returns also how long after the start of the process the last line was in its log, in seconds, as the file
    /// system has it. So no observer is in the way.
    pub fn cycles_each(&self, least: usize) -> (usize, f64) {
        let mut found = (0, self.started);
        wait_until(BOUND, &format!("{least} cycles of each"), || {
            let before = self.cpu();
            std::thread::sleep(MOMENT);
            self.cpu() - before < REST && self.logs(least).map(|logs| found = logs).is_some()
        });
        let took = found
            .1
            .duration_since(self.started)
            .expect("a line is later than the start");
        (found.0, took.as_secs_f64())
    }

    /// How many cycles the logs have in all, and when the last of them was written; `None` when one has too few.
    fn logs(&self, least: usize) -> Option<(usize, SystemTime)> {
        let mut found = (0, self.started);
        for log in self.ground.dirs.iter().map(|dir| dir.join("daemon.log")) {
            let cycles = cycles_in(&log);
            if cycles < least {
                return None;
            }
            let written = fs::metadata(&log)
                .and_then(|meta| meta.modified())
                .expect("the time of a log");
            found = (found.0 + cycles, found.1.max(written));
        }
        Some(found)
    }

    /// How many cycles the logs have by now.
    pub fn cycles(&self) -> usize {
        self.ground
            .dirs
            .iter()
            .map(|dir| cycles_in(&dir.join("daemon.log")))
            .sum()
    }

    /// What it has used of processors, with the threads that have ended: the kernel's clock of the process, which
    /// counts nanoseconds and not ticks.
    pub fn cpu(&self) -> Duration {
        let clock = clock_getcpuclockid(Pid::from_raw(self.process.pid())).expect("it runs");
        time_of(clock)
    }

    pub fn pulse(&self) -> Pulse {
        Pulse::of(self.process.pid())
    }

    /// Has it look below its root now.
    pub fn look_again(&self) {
        self.process.signal(Signal::SIGHUP);
    }

    /// Waits until it has so many watches and is at rest. Since when.
    pub fn rests_with(&self, watches: usize) -> Instant {
        let mut since = Instant::now();
        wait_until(BOUND, &format!("{watches} watches"), || {
            let before = self.cpu();
            since = Instant::now();
            std::thread::sleep(MOMENT);
            self.cpu() - before < REST && self.pulse().watches == watches
        });
        since
    }

    /// Ends it as a service manager does.
    pub fn end(mut self) {
        self.process.signal(Signal::SIGTERM);
        assert!(
            self.process.wait(PATIENCE * 4).success(),
            "the agent ends well"
        );
    }
}

fn cycles_in(log: &Path) -> usize {
    fs::read_to_string(log)
        .unwrap_or_default()
        .matches(COMPLETE)
        .count()
}

/// What this thread uses of a processor for something.
pub fn cpu_of(what: impl FnOnce()) -> Duration {
    let before = time_of(ClockId::CLOCK_THREAD_CPUTIME_ID);
    what();
    time_of(ClockId::CLOCK_THREAD_CPUTIME_ID) - before
}

fn time_of(clock: ClockId) -> Duration {
    clock_gettime(clock)
        .expect("a clock of the processor")
        .into()
}
