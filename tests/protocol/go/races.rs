//! Cycles in Go among claims of `beadlock hold`, and both among kills: no two are at work at once. The kernel tells that they
//! are (`tests/src/bin/witness.rs`). Without the gate, or without a look at the lock, they meet.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use beadlock_checker::Record;
use beadlock_tests::{
    Dice, PATIENCE, Running, Scene, become_subreaper, binaries, go, until, wait_until,
};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::target;

const CLAIMS: usize = 60;
const CLAIMERS: usize = 2;
const LONG: Duration = Duration::from_secs(60);

struct Arena {
    scene: Scene,
    racer: PathBuf,
}

impl Arena {
    /// `None`: there is no Go, and it was said.
    fn new() -> Option<Self> {
        let scene = Scene::new();
        let racer = go::build("./internal/racer", target(), scene.path())?;
        std::fs::create_dir(scene.file("ground")).expect("a directory");
        become_subreaper();
        Some(Self { scene, racer })
    }

    fn race(&self, way: &str) -> Running {
        let mut command = self.scene.command(&self.racer);
        let path = std::env::join_paths([
            binaries::directory(),
            Path::new("/usr/bin"),
            Path::new("/bin"),
        ]);
        command.args([way, ".beads", "ground", "1ms"]);
        Running::start({
            command.env("PATH", path.expect("a PATH"));
            command
        })
    }

    /// A claim that is at work for some milliseconds.
    fn claim(&self, millis: u64) -> Running {
        let (beads, millis) = (self.scene.beads(), millis.to_string());
        let beads = beads.to_str().expect("UTF-8");
        let mut args = vec!["hold", "-q", "--holder", "claimer", "--wait", "60s", "--"];
        args.extend([
            env!("CARGO_BIN_EXE_witness"),
            "claim",
            "ground",
            beads,
            &millis,
        ]);
        self.scene.start(&args)
    }

    /// The command of a `beadlock hold` that was killed is ours to reap: a zombie would hold its lock for ever. It is named in
    /// the lock, if it has come so far, or aside, if it was killed in its release; whom a lock of somebody else names is no
    /// child of ours. Three looks, for the lock may be moved back meanwhile.
    fn reap_the_holder(&self) {
        let aside = self.scene.beads().join(".exclusive-lock.aside");
        for path in [self.scene.lock(), aside, self.scene.lock()] {
            let bytes = std::fs::read(path).unwrap_or_default();
            let Ok(record) = Record::read(&bytes) else {
                continue;
            };
            let pid = Pid::from_raw(i32::try_from(record.pid()).expect("a PID"));
            until("the end of a holder", || {
                waitpid(pid, Some(WaitPidFlag::WNOHANG)) != Ok(WaitStatus::StillAlive)
            });
        }
    }

    fn lines(&self, of: &str, with: &str) -> usize {
        let text = self.scene.read(&format!("ground/{of}"));
        text.lines().filter(|line| line.contains(with)).count()
    }

    fn overlaps(&self) -> String {
        self.scene.read("ground/overlaps")
    }
}

#[test]
fn cycles_in_go_and_claims_never_meet() {
    let Some(arena) = Arena::new() else { return };
    let seed = Dice::seed("GO_SEED");
    let (done, killed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut racers = [arena.race("gated"), arena.race("gated")];
    std::thread::scope(|threads| {
        let mut claimers = Vec::new();
        for claimer in 0..CLAIMERS {
            let (arena, done, killed) = (&arena, &done, &killed);
            let mut dice = Dice::new(seed, &format!("claimer {claimer}"));
            claimers.push(threads.spawn(move || {
                while done.fetch_add(1, Ordering::Relaxed) < CLAIMS {
                    let mut claim = arena.claim(dice.below(20));
                    if dice.below(4) == 0 {
                        dice.pause(1, 60);
                        claim.signal(Signal::SIGKILL);
                        killed.fetch_add(1, Ordering::Relaxed);
                        claim.wait(LONG);
                        arena.reap_the_holder();
                        continue;
                    }
                    let ended = claim.finish(LONG);
                    assert!(ended.status.success(), "{ended:?}");
                    dice.pause(1, 40);
                }
            }));
        }
        let mut dice = Dice::new(seed, "racers");
        while claimers.iter().any(|claimer| !claimer.is_finished()) {
            let one = dice.one_of(&[0, 1]);
            dice.pause(50, 300);
            assert!(racers[*one].is_running(), "{}", racers[*one].err());
            racers[*one].signal(Signal::SIGKILL);
            racers[*one].wait(LONG);
            racers[*one] = arena.race("gated");
            killed.fetch_add(1, Ordering::Relaxed);
        }
    });
    // Whatever was killed has left nothing that keeps the cycles out.
    let entered = arena.lines("entered", "go gated");
    until("more cycles", || {
        arena.lines("entered", "go gated") > entered + 5
    });
    drop(racers);
    assert!(arena.claim(1).finish(PATIENCE).status.success());
    let claims = arena.lines("entered", "claim");
    println!(
        "{claims} claims and {} cycles in Go at work, {} killed, no two at once",
        arena.lines("entered", "go gated"),
        killed.into_inner()
    );
    let overlaps = arena.overlaps();
    let some: Vec<&str> = overlaps.lines().take(5).collect();
    assert!(some.is_empty(), "two at work at once: {some:#?}");
    assert!(claims >= CLAIMS / 2, "this run has shown nothing");
}

/// The control: the test above can fail.
#[test]
fn without_the_gate_or_the_look_they_meet() {
    for way in ["ungated", "unchecked"] {
        let Some(arena) = Arena::new() else { return };
        let racer = arena.race(way);
        until("a cycle", || arena.lines("entered", way) > 0);
        wait_until(LONG, &format!("an overlap, {way}"), || {
            assert!(arena.claim(20).finish(LONG).status.success());
            !arena.overlaps().is_empty()
        });
        println!(
            "{way}: {}",
            arena.overlaps().lines().next().unwrap_or_default()
        );
        drop(racer);
    }
}
