//! How long after a release who waits for it goes on.
//!
//! The clock (CLOCK_MONOTONIC) is read here, right before the release is asked for. That is before `beadlock release`
//! is started, before the command of the `hold` that has the lock is told to end, or before an old client unlinks its
//! file. So the figures have in them what those programs need until the lock is gone. It is read again when the
//! waiting `hold`'s command, an `echo`, has written its word into a pipe, and when the agent's line
//! `Starting sync cycle...` is in its log, which an inotify of ours tells. What that costs by itself is a row too: an
//! `echo` that waits for nothing.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_core::record::beads::Record;
use beadlock_tests::{Dice, Scene, Spread, become_subreaper, wait_until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::table::{Table, Unit};

/// Of each way of release.
const SAMPLES: usize = 200;

/// Of a holder that is killed: each takes the removal's grace and longer.
const KILLED: usize = 100;

/// For how long the removal of a stale lock watches it.
const GRACE: Duration = Duration::from_millis(100);

const PATIENCE: Duration = Duration::from_secs(30);

/// How a claim ends.
#[derive(Debug, Clone, Copy)]
enum Way {
    Release,
    EndOfHold,
    Unlink,
}

impl Way {
    const ALL: [Self; 3] = [Self::Release, Self::EndOfHold, Self::Unlink];

    fn words(self) -> &'static str {
        match self {
            Self::Release => "by beadlock release",
            Self::EndOfHold => "by the end of a hold",
            Self::Unlink => "by an old client's unlink",
        }
    }

    /// Claims the database.
    fn claim(self, scene: &Scene) -> Claim {
        let me = std::process::id().to_string();
        match self {
            Self::Release => {
                let ended = scene.run(&["acquire", "-q", "--for", &me]);
                let id = ended
                    .out
                    .lines()
                    .find_map(|line| Some(line.split_once("BEADLOCK_ID=")?.1.trim_matches('\'')));
                Claim::Acquired(id.unwrap_or_else(|| panic!("{ended:?}")).to_owned())
            }
            Self::EndOfHold => {
                let hold = start(
                    scene
                        .beadlock(&["hold", "-q", "--", "cat"])
                        .stdin(Stdio::piped()),
                );
                scene.wait_for_lock();
                Claim::Held(hold)
            }
            Self::Unlink => {
                let record = Record::new("an old client", "1").expect("a record");
                scene.write_lock(
                    Record {
                        beadlock: None,
                        ..record
                    }
                    .to_json(),
                );
                Claim::Written
            }
        }
    }
}

/// A claim that waits for its end.
enum Claim {
    Acquired(String),
    Held(Started),
    Written,
}

impl Claim {
    /// Asks for its end, and returns at once; what was returned ends soon.
    fn end(self, scene: &Scene) -> Option<Started> {
        match self {
            Self::Acquired(id) => Some(start(&mut scene.beadlock(&["release", "-q", "--id", &id]))),
            Self::Held(mut hold) => {
                drop(hold.0.stdin.take());
                Some(hold)
            }
            Self::Written => {
                fs::remove_file(scene.lock()).expect("nobody else removes it");
                None
            }
        }
    }
}

/// A program that does not outlive this.
struct Started(Child);

fn start(command: &mut Command) -> Started {
    let name = format!("{command:?}");
    Started(
        command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}")),
    )
}

impl Started {
    fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// Waits for its first word, and returns the moment.
    fn speaks(&mut self) -> Instant {
        let mut word = [0];
        self.0
            .stdout
            .as_mut()
            .expect("a pipe")
            .read_exact(&mut word)
            .expect("a word");
        Instant::now()
    }

    /// Waits for its end, which must be a good one.
    fn end(mut self) {
        let status = self.0.wait().expect("a child of ours");
        assert!(status.success(), "{status}");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A `hold` that waits for the holder of the lock. Its command then says a word.
fn waiting_hold(scene: &Scene, dice: &mut Dice) -> Started {
    let mut command = scene.beadlock(&["hold", "-q", "--wait", "60s", "--", "echo", "mine"]);
    let waiting = start(command.stdout(Stdio::piped()));
    let watches = |entry: std::io::Result<fs::DirEntry>| {
        fs::read_link(entry?.path()).map(|link| link.as_os_str() == "anon_inode:inotify")
    };
    wait_until(PATIENCE, "the hold waits", || {
        fs::read_dir(format!("/proc/{}/fd", waiting.pid()))
            .is_ok_and(|mut fds| fds.any(|entry| watches(entry).unwrap_or(false)))
    });
    pause(dice);
    waiting
}

/// At no moment of the waiting schedule in particular, and so long that the claim is older than the grace of its
/// release.
fn pause(dice: &mut Dice) {
    std::thread::sleep(Duration::from_millis(25 + dice.below(20)));
}

pub fn measure(table: &mut Table) {
    become_subreaper();
    let samples = |many: usize| if table.is_short { 2 } else { many };
    let (released, killed) = (samples(SAMPLES), samples(KILLED));
    let mut dice = Dice::new(6, "latency");
    let spread =
        |count: usize, sample: &mut dyn FnMut() -> f64| Spread::of((0..count).map(|_| sample()));

    let scene = Scene::new();
    let alone = spread(released, &mut || {
        let begun = Instant::now();
        let mut echo = start(scene.command("echo").arg("mine").stdout(Stdio::piped()));
        let took = echo.speaks() - begun;
        echo.end();
        took.as_secs_f64()
    });
    table.value(
        "the start of an echo by itself, p50",
        Unit::Seconds,
        None,
        alone.median(),
        Some(&alone),
    );
    for way in Way::ALL {
        let found = spread(released, &mut || to_hold(&scene, way, &mut dice));
        percentiles(
            table,
            &format!("release to a waiting hold's command, {}", way.words()),
            &found,
        );
    }
    for way in Way::ALL {
        let scene = Scene::new();
        let mut agent = Agent::start(&scene);
        let found = spread(released, &mut || {
            to_cycle(&scene, way, &mut agent, &mut dice)
        });
        percentiles(
            table,
            &format!("release to an agent's cycle, {}", way.words()),
            &found,
        );
    }
    let found = spread(killed, &mut || from_kill(&scene, &mut dice));
    let figure = "a holder's SIGKILL to a waiting hold's command, beyond 100 ms, p50";
    table.value(
        figure,
        Unit::Seconds,
        Some(0.020),
        found.median(),
        Some(&found),
    );
}

fn percentiles(table: &mut Table, figure: &str, found: &Spread) {
    for (percent, at_most) in [(50, 0.005), (99, 0.020)] {
        let figure = format!("{figure}, p{percent}");
        table.value(
            &figure,
            Unit::Seconds,
            Some(at_most),
            found.percentile(percent),
            Some(found),
        );
    }
}

/// Seconds from the release to the command of a `hold` that waits for it.
fn to_hold(scene: &Scene, way: Way, dice: &mut Dice) -> f64 {
    let claim = way.claim(scene);
    let mut waiting = waiting_hold(scene, dice);
    let begun = Instant::now();
    let ending = claim.end(scene);
    let took = waiting.speaks() - begun;
    waiting.end();
    if let Some(ending) = ending {
        ending.end();
    }
    took.as_secs_f64()
}

/// Seconds from the death of a holder, beyond the removal's grace, to the command of a `hold` that waits for it.
fn from_kill(scene: &Scene, dice: &mut Dice) -> f64 {
    let hold = start(&mut scene.beadlock(&["hold", "-q", "--", "sleep", "600"]));
    scene.wait_for_lock();
    let record = Record::parse(scene.lock_text().as_bytes()).expect("a record");
    let command = i32::try_from(record.pid).expect("a PID");
    let mut waiting = waiting_hold(scene, dice);
    // Its command is ours now: the record names it, and it is reaped by nobody else.
    drop(hold);
    pause(dice);
    let begun = Instant::now();
    kill(Pid::from_raw(command), Signal::SIGKILL).expect("the command lives");
    waitpid(Pid::from_raw(command), None).expect("an orphan of ours");
    let took = waiting.speaks() - begun;
    waiting.end();
    (took.saturating_sub(GRACE)).as_secs_f64()
}

/// Seconds from the release to the line of an agent that has skipped the database.
fn to_cycle(scene: &Scene, way: Way, agent: &mut Agent, dice: &mut Dice) -> f64 {
    let claim = way.claim(scene);
    fs::write(scene.beads().join("issues.jsonl"), "{}\n").expect("a change");
    agent.says("Skipping database (locked by");
    pause(dice);
    let begun = Instant::now();
    let ending = claim.end(scene);
    let took = agent.says("Starting sync cycle...") - begun;
    if let Some(ending) = ending {
        ending.end();
    }
    agent.says("Sync cycle complete");
    took.as_secs_f64()
}

/// An agent that never polls, and its log as it comes.
struct Agent {
    _running: Started,
    log: File,
    grows: Inotify,
    /// What is in the log beyond what was waited for.
    rest: String,
}

impl Agent {
    fn start(scene: &Scene) -> Self {
        let words = ["--interval", "1h", "--debounce", "10ms", "--action", "none"];
        let running = start(
            scene
                .agent(&words)
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        scene.wait_for_log("a first cycle", |log| log.contains("Sync cycle complete"));
        let path = scene.beads().join("daemon.log");
        let grows = Inotify::init(InitFlags::IN_CLOEXEC).expect("an inotify");
        grows
            .add_watch(&path, AddWatchFlags::IN_MODIFY)
            .expect("a log");
        let mut log = File::open(path).expect("a log");
        log.seek(SeekFrom::End(0)).expect("its end");
        Self {
            _running: running,
            log,
            grows,
            rest: String::new(),
        }
    }

    /// Waits for a line with this in it, and returns the moment.
    fn says(&mut self, wanted: &str) -> Instant {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.log.read_to_string(&mut self.rest).expect("a log");
            let seen = Instant::now();
            if let Some(at) = self.rest.find(wanted) {
                self.rest.drain(..at + wanted.len());
                return seen;
            }
            assert!(seen < deadline, "waited for {wanted:?} in: {}", self.rest);
            let mut fds = [PollFd::new(self.grows.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(1000_u16)).expect("a poll") > 0 {
                self.grows.read_events().expect("events");
            }
        }
    }
}
