//! The daemon of a clone, and its end when nobody expects it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use beadlock_tests::Running;
use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ledger::Span;
use super::world::World;
use crate::bench::{Bench, NAIVE, script};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `beadlock-agent --action git`.
    Git,
    /// A loop that asks nobody.
    Naive,
}

pub struct Daemon {
    pub clone: char,
    kind: Kind,
    running: Mutex<Option<Running>>,
    /// Where its git notes what it changes.
    trace: PathBuf,
    bin: PathBuf,
}

/// A git that notes when it changes something, and is git otherwise.
const WRAPPER: &str = "what= value=
for word; do
    if [ \"$value\" ]; then value=; continue; fi
    case $word in -c | -C) value=1 ;; -*) ;; *) what=$word; break ;; esac
done
export PATH='PATH_OF_ALL'
case $what in
add | am | checkout | checkout-index | cherry-pick | commit | commit-tree | merge | pull | push | read-tree | rebase | reset | \
    restore | rm | stash | update-index | update-ref) ;;
*) exec git \"$@\" ;;
esac
begun=$(date +%s%N)
git \"$@\"
code=$?
echo \"$begun $(date +%s%N) $what\" >>'TRACE'
exit $code";

impl Daemon {
    pub fn new(bench: &Bench, clone: char, kind: Kind) -> Self {
        let trace = bench.path().join(format!("trace-{clone}"));
        let bin = bench.path().join(format!("bin-{clone}"));
        let path = std::env::var("PATH").expect("PATH");
        let wrapper = WRAPPER
            .replace("PATH_OF_ALL", &path)
            .replace("TRACE", &trace.to_string_lossy());
        script(&bin.join("git"), &wrapper);
        Self {
            clone,
            kind,
            running: Mutex::default(),
            trace,
            bin,
        }
    }

    pub fn start(&self, bench: &Bench) {
        let path = format!(
            "{}:{}",
            self.bin.display(),
            std::env::var("PATH").expect("PATH")
        );
        let clone = bench.path().join(self.clone.to_string());
        let mut command: Command = match self.kind {
            Kind::Git => {
                let mut agent = bench.scene().agent(&[
                    "--action",
                    "git",
                    "--interval",
                    "300ms",
                    "--debounce",
                    "50ms",
                    "--fetch-interval",
                    "300ms",
                ]);
                agent
                    .arg("--db")
                    .arg(clone.join(".beads"))
                    .arg("--log-file")
                    .arg(self.log(bench));
                agent
            }
            Kind::Naive => bench
                .scene()
                .shell(&format!("while :; do {NAIVE}; sleep 0.3; done")),
        };
        command
            .current_dir(&clone)
            .env("PATH", path)
            .env(MARK, self.clone.to_string());
        *self.running.lock().expect("the daemon") = Some(Running::start(command));
    }

    pub fn stop(&self) {
        let Some(running) = self.running.lock().expect("the daemon").take() else {
            return;
        };
        running.signal(Signal::SIGTERM);
        let _ = running.finish(PATIENCE);
    }

    pub fn log(&self, bench: &Bench) -> PathBuf {
        bench.path().join(format!("log-{}", self.clone))
    }

    /// When its git changed something, and by which command.
    pub fn changes(&self) -> Vec<(Span, String)> {
        let text = fs::read_to_string(&self.trace).unwrap_or_default();
        let change = |line: &str| {
            let mut words = line.split(' ');
            let (from, to) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(((from, to), words.next()?.to_owned()))
        };
        text.lines().filter_map(change).collect()
    }

    /// SIGKILL, to the agent alone or to all that it has started, and a new one; again and again.
    pub fn is_killed_now_and_then(&self, world: &World) {
        let mut dice = world.dice("kills", self.clone);
        while !world.is_over() {
            for _ in 0..40 + dice.below(80) {
                if world.is_over() {
                    return;
                }
                dice.pause(40, 60);
            }
            dice.pause(1, 300);
            let whole = dice.below(3) > 0;
            if whole {
                self.kill_tree(world);
            }
            drop(self.running.lock().expect("the daemon").take());
            world.ledger().count(format!(
                "killed {}{}",
                self.clone,
                if whole { ", with its tree" } else { "" }
            ));
            self.start(&world.bench);
            self.clear_locks(world);
        }
    }

    /// All at once: they stand still before the first of them goes, or what is left would work on without the gate
    /// that its runner held.
    fn kill_tree(&self, world: &World) {
        let mut stopped = Vec::new();
        loop {
            let living = self.living(world);
            if living.iter().all(|pid| stopped.contains(pid)) {
                break;
            }
            for pid in &living {
                let _ = kill(*pid, Signal::SIGSTOP);
            }
            stopped = living;
        }
        while !stopped.is_empty() {
            for pid in &stopped {
                let _ = kill(*pid, Signal::SIGKILL);
            }
            std::thread::sleep(Duration::from_millis(2));
            stopped = self.living(world);
        }
    }

    /// The processes that it has started, and itself.
    fn living(&self, world: &World) -> Vec<Pid> {
        let mark = format!("{MARK}={}", self.clone);
        let ours = |pid: &Pid| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == mark.as_bytes())
        };
        marked_by(world.bench.scene())
            .into_iter()
            .filter(ours)
            .collect()
    }

    /// What a person does after a crash: a lock of git's that stays for two seconds has no owner any more.
    fn clear_locks(&self, world: &World) {
        let git = world.clone_of(self.clone).join(".git");
        let before = locks(&git);
        if before.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_secs(2));
        for (path, inode) in locks(&git) {
            if before.contains(&(path.clone(), inode)) && fs::remove_file(&path).is_ok() {
                let name = path
                    .strip_prefix(&git)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                world
                    .ledger()
                    .count(format!("removed {name} by hand after a kill"));
            }
        }
    }
}

fn locks(git: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut dirs = vec![git.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() && entry.file_name() != "objects" {
                dirs.push(entry.path());
            } else if entry.path().extension().is_some_and(|end| end == "lock") {
                found.push((entry.path(), metadata.ino()));
            }
        }
    }
    found
}

const MARK: &str = "BEADLOCK_TEST_DAEMON";
