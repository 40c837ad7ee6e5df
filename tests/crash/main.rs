//! A crash of any command at any point leaves a valid record or none, and the next command works without a human.
//!
//! Each command is killed before each of its system calls that changes something (`stepped`; in `make test` before one
//! in two, the others with another seed), and at moments that nobody chose, alone and together with all that it has
//! started.

mod claimed;
mod every_call;
mod faults;
mod orphaned_keeper;
mod power_cut;
mod sync;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beadlock_tests::process::marked_by;
use beadlock_tests::process::{dead_pid, this_host};
use beadlock_tests::stepped::{Calls, Stepped, kill_at, kill_at_each};
use beadlock_tests::{
    Ended, Kind, Running, Scene, become_subreaper, binaries, lock_text, run, skip,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use claimed::{recorded, still_claimed};

/// Kills that come at a time, for each command: in `make test`, and in `make syscalls`.
const MOMENTS: usize = 8;
const ALL_MOMENTS: usize = 40;
/// Scenes side by side: they mostly wait.
const LANES: usize = 4;
/// More calls that change something than any of the commands makes.
const CALLS: usize = 400;

/// What runs under a claim or in a cycle, long enough to outlive the process that has started it.
const COMMAND: &str = "sleep";

/// A command, what is there before it, and how the next process does it again that finds it undone.
struct Case {
    program: fn() -> PathBuf,
    /// What is there before; its answer are processes that live meanwhile.
    before: fn(&Scene) -> Vec<Running>,
    /// The words of the command, which may name what is there.
    words: fn(&Scene, &[Running]) -> Vec<String>,
    /// What somebody would type next, when the lock is still there and its process lives.
    again: Option<fn(&Scene) -> Vec<String>>,
    /// How it ends when nobody disturbs it: 0, or 4 where the lock of a living process keeps it out, or by a signal of
    /// its own.
    code: i32,
    /// It claims, and leaves no claim behind when it fails.
    claims: bool,
    /// It leaves a process behind that keeps the claim.
    keeper: bool,
    /// Whose lock it is about.
    kind: Kind,
    /// Before which of its calls it is killed.
    part: Part,
    /// The next process, when none of those before lives any more; how that ended.
    next: fn(&Self, &Scene) -> Ended,
    /// What it answers is an envelope, and it has no command: a tool that embeds its lock.
    is_tool: bool,
    /// Kills and faults where no stride is asked for.
    few: usize,
}

/// A part of the calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// From the first one of the command that it runs: those before are another case's.
    FromTheCommandOn,
}

/// The directory's own lock.
const MEMORY: &str = "memory:.beads";

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn nothing(_: &Scene) -> Vec<Running> {
    Vec::new()
}

fn stale(scene: &Scene) -> Vec<Running> {
    scene.write_stale_lock("long gone");
    Vec::new()
}

/// The same of the directory's own.
fn stale_memory(scene: &Scene) -> Vec<Running> {
    write_memory(scene, "long gone", dead_pid(), &this_host());
    Vec::new()
}

fn write_memory(scene: &Scene, holder: &str, pid: i32, hostname: &str) {
    let record = Kind::Memory.record(holder, pid.into(), hostname);
    fs::write(Kind::Memory.lock(scene), record).expect("write a lock");
}

/// A script that runs.
fn script(scene: &Scene) -> Vec<Running> {
    let mut command = scene.command("sleep");
    command.arg("300");
    vec![Running::start(command)]
}

/// The same, with a claim.
fn acquired(scene: &Scene) -> Vec<Running> {
    acquired_of(Kind::Beads, scene)
}

/// The same, with the directory's own lock, and a keeper beside it.
fn acquired_memory(scene: &Scene) -> Vec<Running> {
    acquired_of(Kind::Memory, scene)
}

fn acquired_of(kind: Kind, scene: &Scene) -> Vec<Running> {
    let script = script(scene);
    let ended = kind.run(
        scene,
        &["acquire", "-q", "--for", &script[0].pid().to_string()],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    script
}

/// The same with a lock of the directory that another tool has written, and nobody refreshes.
fn written_memory(scene: &Scene) -> Vec<Running> {
    let script = script(scene);
    write_memory(scene, "a script", script[0].pid(), &this_host());
    script
}

/// A claim that nothing but a human can end.
fn elsewhere(scene: &Scene) -> Vec<Running> {
    scene.write_lock(lock_text("elsewhere", 4711, "another-host"));
    Vec::new()
}

fn elsewhere_memory(scene: &Scene) -> Vec<Running> {
    write_memory(scene, "elsewhere", 4711, "another-host");
    Vec::new()
}

fn release_of(kind: Kind, scene: &Scene) -> Vec<String> {
    let (_, envelope) = scene.json(&kind.words(&["status"]));
    let id = envelope["data"][0]["id"].as_str().unwrap_or_default();
    words(&kind.words(&["release", "-q", "--id", id]))
}

fn release(scene: &Scene) -> Vec<String> {
    release_of(Kind::Beads, scene)
}

fn release_memory(scene: &Scene) -> Vec<String> {
    release_of(Kind::Memory, scene)
}

fn break_it(_: &Scene) -> Vec<String> {
    words(&["break", "-q", "--holder", "elsewhere", "--even-if-live"])
}

fn break_memory(scene: &Scene) -> Vec<String> {
    let mut words = break_it(scene);
    words.insert(1, MEMORY.into());
    words
}

const HOLD: Case = Case {
    program: binaries::beadlock,
    before: nothing,
    words: |_, _| words(&["hold", "-q", "--", COMMAND, "0.1"]),
    again: None,
    code: 0,
    claims: true,
    keeper: false,
    kind: Kind::Beads,
    part: Part::All,
    next: |case, scene| {
        case.kind
            .run(scene, &["hold", "-q", "--wait", "5s", "--", "true"])
    },
    is_tool: false,
    few: 6,
};
const HOLD_STALE: Case = Case {
    before: stale,
    ..HOLD
};
const ACQUIRE: Case = Case {
    before: script,
    words: |_, script| words(&["acquire", "-q", "--for", &script[0].pid().to_string()]),
    ..HOLD
};
const DETACH: Case = Case {
    before: stale,
    words: |_, _| words(&["acquire", "-q", "--detach"]),
    keeper: true,
    ..HOLD
};
const CHECK: Case = Case {
    before: stale,
    words: |_, _| words(&["check", "-q"]),
    claims: false,
    ..HOLD
};
const CYCLE: Case = Case {
    words: |_, _| words(&["cycle", "-q", "--", COMMAND, "0.1"]),
    ..CHECK
};
const RELEASE: Case = Case {
    before: acquired,
    words: |scene, _| release(scene),
    again: Some(release),
    ..CHECK
};
const BREAK: Case = Case {
    before: elsewhere,
    words: |scene, _| break_it(scene),
    again: Some(break_it),
    ..CHECK
};

const MEMORY_HOLD: Case = Case {
    words: |_, _| words(&["hold", MEMORY, "-q", "--", COMMAND, "0.1"]),
    kind: Kind::Memory,
    ..HOLD
};
const MEMORY_STALE: Case = Case {
    before: stale_memory,
    ..MEMORY_HOLD
};
const MEMORY_CHECK: Case = Case {
    words: |_, _| words(&["check", MEMORY, "-q"]),
    claims: false,
    ..MEMORY_STALE
};
const MEMORY_REFUSED: Case = Case {
    before: written_memory,
    words: |_, _| words(&["hold", MEMORY, "-q", "--no-wait", "--", COMMAND, "0.1"]),
    code: 4,
    claims: false,
    ..MEMORY_HOLD
};
/// For long enough to be refreshed once.
const MEMORY_REFRESH: Case = Case {
    words: |_, _| words(&["hold", MEMORY, "-q", "--", COMMAND, "3.2"]),
    part: Part::FromTheCommandOn,
    ..MEMORY_HOLD
};
const MEMORY_ACQUIRE: Case = Case {
    before: script,
    words: |_, script| {
        words(&[
            "acquire",
            MEMORY,
            "-q",
            "--for",
            &script[0].pid().to_string(),
        ])
    },
    keeper: true,
    ..MEMORY_HOLD
};
const MEMORY_RELEASE: Case = Case {
    before: acquired_memory,
    words: |scene, _| release_memory(scene),
    again: Some(release_memory),
    ..MEMORY_CHECK
};
const MEMORY_BREAK: Case = Case {
    before: elsewhere_memory,
    words: |scene, _| break_memory(scene),
    again: Some(break_memory),
    ..MEMORY_CHECK
};

const CHECK_REFUSED: Case = Case {
    before: acquired,
    code: 4,
    ..CHECK
};
const CYCLE_REFUSED: Case = Case {
    words: CYCLE.words,
    ..CHECK_REFUSED
};
const HOLD_REFUSED: Case = Case {
    words: |_, _| words(&["hold", "-q", "--no-wait", "--", COMMAND, "0.1"]),
    ..CHECK_REFUSED
};

/// Runs `work`, and the other again and again until that has ended.
fn beside<T>(again: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                again();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // Also after a panic: the other would go on for ever.
        let result = catch_unwind(AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// An orphan that has ended answers for its lock until somebody reaps it: here that is us.
fn reap_holder(lock: &Path) {
    if let Some(pid) = recorded(lock).and_then(|pid| i32::try_from(pid).ok()) {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

impl Case {
    /// The lock of a living process is in its way.
    fn is_refused(&self) -> bool {
        self.code == 4
    }

    /// A shell that does what `first` says and becomes the command then, whose output goes to the file `told`.
    fn command(&self, scene: &Scene, others: &[Running], first: &str) -> Command {
        let mut command = scene.shell(&format!("{first} exec \"$@\" > told 2> said"));
        command
            .arg("sh")
            .arg((self.program)())
            .args((self.words)(scene, others));
        command
    }

    /// What must hold after the crash, whose place `at` names.
    fn recovers(&self, scene: &Scene, others: Vec<Running>, at: &str) {
        let (kind, lock) = (self.kind, self.kind.lock(scene));
        let text = kind.text(scene);
        let is_whole = |text: &str| {
            let record: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
            kind.keys().iter().all(|key| !record[key].is_null())
        };
        assert!(
            !lock.exists() || is_whole(&text),
            "{at}: a lock that is not whole: {text:?}"
        );
        let told = fs::read_to_string(scene.path().join("told")).unwrap_or_default();
        if let Some(id) = told
            .lines()
            .filter(|line| !line.starts_with("unset"))
            .find_map(|line| Some(line.split_once("BEADLOCK_ID=")?.1.trim_matches('\'')))
            .filter(|id| !id.is_empty())
        {
            // A caller that was told the id has a claim, however the teller ended. (A keeper's goes with the keeper.)
            let is_in =
                |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains(id));
            let is_there = [lock.clone(), kind.aside(scene)].iter().any(is_in);
            assert!(
                self.keeper || is_there,
                "{at}: told of a claim that is not there: {:?}",
                scene.names()
            );
            let ended = kind.run(scene, &["release", "-q", "--id", id, "--missing-ok"]);
            assert_eq!(ended.code, 0, "{at}: {ended:?}");
        }
        if let Some(again) = self.again {
            // The crash came before the end, or the lock is moved aside: the second try finds it.
            let ended = kind.run(scene, &["check", "-q"]);
            if ended.code != 0 {
                let words = again(scene);
                let ended = scene.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
                assert_eq!(ended.code, 0, "{at}: {words:?}: {ended:?}");
            }
        }
        for other in others {
            other.signal(Signal::SIGKILL);
            drop(other);
        }
        let ended = beside(|| reap_holder(&lock), || (self.next)(self, scene));
        assert_eq!(
            ended.code,
            0,
            "{at}: the next claim: {ended:?}, beside {:?}",
            scene.names()
        );
        let broken = format!("{}.broken-", kind.name());
        let kept = |name: &String| name.starts_with(&broken) || name.starts_with("daemon.log");
        let names: Vec<String> = scene
            .names()
            .into_iter()
            .filter(|name| !kept(name))
            .collect();
        assert_eq!(names, ["issues.jsonl"], "{at}: left behind");
    }

    fn killed_at_each_call(&self) {
        become_subreaper();
        let stride = if every_call::is_every_call_asked_for() {
            1
        } else {
            2
        };
        let first = every_call::seed() % stride;
        let tried = kill_at_each(CALLS / stride, |turn| {
            let at = first + turn * stride;
            let scene = Scene::new();
            let others = (self.before)(&scene);
            let command = self.command(&scene, &others, "kill -STOP $$;");
            let what = format!("before change {at} of {:?}", command.get_args());
            let stepped = kill_at(command, at, Calls::Changes, |left| {
                still_claimed(self.kind, &scene, left, &what);
            });
            match stepped {
                Stepped::Ended(code, _) => {
                    assert_eq!(code, self.code, "{what}: it ended by itself")
                }
                Stepped::Impossible => return stepped,
                Stepped::Killed => {}
            }
            self.recovers(&scene, others, &what);
            stepped
        });
        match tried {
            None => skip::cannot("nobody may trace a program here"),
            Some((ends, kills)) => {
                assert!(
                    ends < CALLS / stride && kills * stride >= 5,
                    "{kills} kills, until {ends}: this shows nothing"
                );
            }
        }
    }

    /// The kill comes after a part of the time that the command takes.
    fn killed_at_any_moment(&self) {
        become_subreaper();
        let scene = Scene::new();
        let others = (self.before)(&scene);
        let command = self.command(&scene, &others, "");
        let begun = Instant::now();
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, self.code, "{ended:?}");
        let whole = begun.elapsed().min(Duration::from_secs(1));
        drop(others);
        let moments = if every_call::is_every_call_asked_for() {
            ALL_MOMENTS
        } else {
            MOMENTS
        };
        let next = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..LANES {
                threads.spawn(|| {
                    loop {
                        let round = next.fetch_add(1, Ordering::Relaxed);
                        if round >= moments {
                            return;
                        }
                        let moment = whole * round as u32 / moments as u32;
                        self.killed_after(moment, round.is_multiple_of(2));
                    }
                });
            }
        });
    }

    fn killed_after(&self, moment: Duration, all_of_it: bool) {
        let scene = Scene::new();
        let others = (self.before)(&scene);
        let spared: Vec<i32> = others.iter().map(Running::pid).collect();
        let command = self.command(&scene, &others, "");
        let at = format!(
            "after {moment:?} of {:?}, all of it: {all_of_it}",
            command.get_args()
        );
        let mut victim = Running::start(command);
        std::thread::sleep(moment);
        // An error: it has ended already.
        victim.signal(Signal::SIGKILL);
        while all_of_it && {
            let left: Vec<_> = marked_by(&scene)
                .into_iter()
                .filter(|pid| !spared.contains(&pid.as_raw()))
                .collect();
            for pid in &left {
                let _ = kill(*pid, Signal::SIGKILL);
            }
            !left.is_empty()
        } {}
        victim.wait(Duration::from_secs(30));
        self.recovers(&scene, others, &at);
    }
}

#[test]
fn of_a_hold() {
    HOLD.killed_at_each_call();
    HOLD.killed_at_any_moment();
}

#[test]
fn of_a_hold_that_takes_a_stale_lock_over() {
    HOLD_STALE.killed_at_each_call();
    HOLD_STALE.killed_at_any_moment();
}

#[test]
fn of_an_acquire() {
    ACQUIRE.killed_at_each_call();
    ACQUIRE.killed_at_any_moment();
}

#[test]
fn of_an_acquire_that_leaves_a_keeper() {
    DETACH.killed_at_each_call();
    DETACH.killed_at_any_moment();
}

#[test]
fn of_a_release() {
    RELEASE.killed_at_each_call();
    RELEASE.killed_at_any_moment();
}

#[test]
fn of_a_break() {
    BREAK.killed_at_each_call();
    BREAK.killed_at_any_moment();
}

#[test]
fn of_a_cycle() {
    CYCLE.killed_at_each_call();
    CYCLE.killed_at_any_moment();
}

#[test]
fn of_a_check() {
    CHECK.killed_at_each_call();
    CHECK.killed_at_any_moment();
}

#[test]
fn of_a_hold_of_a_directory() {
    MEMORY_HOLD.killed_at_each_call();
    MEMORY_HOLD.killed_at_any_moment();
}

#[test]
fn of_a_hold_of_a_directory_that_takes_a_stale_lock_over() {
    MEMORY_STALE.killed_at_each_call();
    MEMORY_STALE.killed_at_any_moment();
}

#[test]
fn of_a_check_of_a_directory() {
    MEMORY_CHECK.killed_at_each_call();
    MEMORY_CHECK.killed_at_any_moment();
}
