//! Killed before any system call, and any call failing: the file is as it was or new, whole; no backup is lost but the
//! oldest; and nothing is left of it after the next operation.
//!
//! In `make test` before each call that changes something, and some of the failures; `make syscalls` takes every call
//! and every failure.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use beadlock_tests::process::marked_by;
use beadlock_tests::stepped::{Calls, Stepped, kill_at, kill_at_each};
use beadlock_tests::{Ended, Scene, become_subreaper, binaries, run, skip, tool, wait_until};
use serde_json::Value;

use crate::support::Files;

/// More calls than any of the commands makes.
const CALLS: usize = 5000;
/// Failures that are tried where not all are asked for.
const FEW: usize = 25;

const OLD: &str = "{\"n\":\"old\"}\n";
const NEW: &str = "{\"n\":\"new\"}\n";
const ADDED: &str = "{\"n\":\"old\"}\n{\"n\":\"new\"}\n";

/// An operation on `data`, which was OLD, and what the file is when it is done.
struct Case {
    words: &'static [&'static str],
    done: &'static str,
    /// What it was becomes a backup.
    keeps: bool,
}

const WRITE: Case = Case {
    words: &["write", "-q", "file:data"],
    done: NEW,
    keeps: true,
};
const UPDATE: Case = Case {
    words: &[
        "update",
        "-q",
        "--kill-after",
        "1s",
        "file:data",
        "--",
        "sed",
        "s/old/new/",
    ],
    done: NEW,
    keeps: true,
};
const APPEND: Case = Case {
    words: &["append", "-q", "file:data"],
    done: ADDED,
    keeps: false,
};

fn all_is_asked_for() -> bool {
    std::env::var("SYSCALL_STRIDE").is_ok_and(|stride| stride == "1")
}

impl Case {
    fn scene() -> Scene {
        let scene = Scene::new();
        scene.put("data", OLD);
        scene.put("new", NEW);
        for number in 1..=5 {
            scene.put(&format!("data.{number}"), format!("\"backup {number}\"\n"));
        }
        scene
    }

    /// A shell that does what `first` says and becomes the command then.
    fn command(&self, scene: &Scene, first: &str) -> Command {
        let mut command = scene.shell(&format!("{first} exec \"$@\" < new > told 2> said"));
        command.arg("sh").arg(binaries::beadlock()).args(self.words);
        command
    }

    /// What the file is: as it was or as it should be.
    fn whole(&self, scene: &Scene, at: &str) -> bool {
        let text = scene.text("data");
        assert!(text == OLD || text == self.done, "{at}: torn: {text:?}");
        text == self.done
    }

    /// The backups from the newest on, each whole, and none lost but the oldest. A gap belongs to none of them. What
    /// it was waits as `data.tmp1` to be one, and until then the others have not lost any.
    fn backups(&self, scene: &Scene, is_done: bool, at: &str) {
        let names = [
            "data.tmp1",
            "data.1",
            "data.2",
            "data.3",
            "data.4",
            "data.5",
        ];
        let texts = names.map(|name| scene.text(name));
        let there: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| *text != "(none)")
            .collect();
        let old = (1..=5)
            .map(|number| format!("\"backup {number}\"\n"))
            .collect::<Vec<_>>();
        let mut expected: Vec<&str> = old.iter().map(String::as_str).collect();
        let has_new = there.first() == Some(&OLD);
        assert_eq!(
            has_new,
            (is_done && self.keeps) || (texts[0] != "(none)"),
            "{at}: {there:?}"
        );
        if has_new {
            expected.insert(0, OLD);
        }
        expected.truncate(there.len());
        let lost = 5 + usize::from(has_new) - there.len();
        assert!(
            there == expected && lost <= usize::from(is_done),
            "{at}: {texts:?}"
        );
    }

    /// What must hold whatever has happened, and after whatever comes next.
    fn holds(&self, scene: &Scene, at: &str) -> bool {
        let is_done = self.whole(scene, at);
        self.backups(scene, is_done, at);
        let before = scene.text("data");
        wait_until(
            Duration::from_secs(30),
            "what it has started has ended",
            || marked_by(scene).is_empty(),
        );
        let next = ["append", "-q", "file:data", "--wait", "20s"];
        let ended = scene.given("{\"n\":\"next\"}", &next);
        assert_eq!(
            (ended.code, ended.err.as_str()),
            (0, ""),
            "{at}: the next one"
        );
        let after = scene.text("data");
        assert_eq!(
            after,
            format!("{before}{{\"n\":\"next\"}}\n"),
            "{at}: the next one"
        );
        for line in after.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{at}: {line}");
        }
        let known = ["data", "data.lock", "new", "told", "said", "trace"];
        let is_strange = |name: &String| {
            let number = name
                .strip_prefix("data.")
                .and_then(|number| number.parse::<u32>().ok());
            !known.contains(&name.as_str())
                && !number.is_some_and(|number| (1..=5).contains(&number))
        };
        let strange: Vec<String> = scene.files().into_iter().filter(is_strange).collect();
        assert!(strange.is_empty(), "{at}: left behind: {strange:?}");
        self.backups(scene, is_done, at);
        if !is_done {
            assert_eq!(
                scene.text("data.5"),
                "\"backup 5\"\n",
                "{at}: it was not written, and a backup has moved"
            );
        }
        is_done
    }

    fn killed_at_each(&self) {
        become_subreaper();
        let calls = if all_is_asked_for() {
            Calls::All
        } else {
            Calls::Changes
        };
        let (old, new) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let tried = kill_at_each(CALLS, |at| {
            let scene = Self::scene();
            let what = format!("before call {at} of {:?}", self.words);
            let stepped = kill_at(self.command(&scene, "kill -STOP $$;"), at, calls, |_| ());
            match stepped {
                Stepped::Ended(code, _) => {
                    assert_eq!(
                        code,
                        0,
                        "{what}: it ended by itself: {}",
                        scene.text("said")
                    );
                }
                Stepped::Impossible => return stepped,
                Stepped::Killed => {}
            }
            let is_done = self.holds(&scene, &what);
            if is_done { &new } else { &old }.fetch_add(1, Ordering::Relaxed);
            stepped
        });
        let (old, new) = (old.into_inner(), new.into_inner());
        let Some((ends, kills)) = tried else {
            return skip::cannot("nobody may trace a program here");
        };
        eprintln!(
            "{:?}: killed before {kills} calls, {old} times as it was, {new} times new",
            self.words
        );
        assert!(
            ends < CALLS && kills >= 10 && old > 0 && new > 1,
            "this shows nothing: until {ends}"
        );
    }
}

#[test]
fn a_write_that_is_killed_every_call() {
    WRITE.killed_at_each();
}

#[test]
fn an_update_that_is_killed_every_call() {
    UPDATE.killed_at_each();
}

#[test]
fn an_append_that_is_killed_every_call() {
    APPEND.killed_at_each();
}

/// The calls, and with which errors they can fail.
const FAULTS: [(&str, &[&str]); 14] = [
    (
        "openat",
        &["EACCES", "EMFILE", "ENOSPC", "EIO", "EROFS", "EOPNOTSUPP"],
    ),
    ("read", &["EIO", "EINTR"]),
    ("pread64", &["EIO"]),
    ("write", &["ENOSPC", "EDQUOT", "EIO", "EINTR"]),
    ("fchmod", &["EIO", "EROFS"]),
    ("lgetxattr", &["EIO", "EACCES"]),
    ("fgetxattr", &["EIO"]),
    ("fsync", &["EIO", "ENOSPC", "EDQUOT"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("linkat", &["ENOSPC", "EDQUOT", "EIO", "EPERM", "EMLINK"]),
    ("renameat", &["ENOSPC", "EIO"]),
    ("unlinkat", &["EIO", "EACCES"]),
    ("flock", &["EINTR", "ENOLCK"]),
    ("newfstatat", &["EIO", "EACCES"]),
];

impl Case {
    /// Under strace, which follows nobody: a filter's calls are its own.
    fn traced(&self, scene: &Scene, inject: &[&str]) -> (Ended, String) {
        let strace = tool("strace").expect("looked for");
        let mut command = scene.shell("exec \"$@\" < new");
        command
            .arg("sh")
            .arg(strace)
            .args(["-o", "trace"])
            .args(inject);
        command
            .arg(binaries::beadlock())
            .args(self.words.iter().filter(|word| **word != "-q"));
        let ended = Ended::from(run(command));
        (ended, scene.text("trace"))
    }

    fn fails_at_each(&self) {
        become_subreaper();
        if tool("strace").is_none() {
            return;
        }
        let (ended, trace) = self.traced(&Self::scene(), &[]);
        assert_eq!(ended.code, 0, "{ended:?}");
        // What comes before the file's name is the loader's.
        let mut count: HashMap<&str, (usize, usize)> = HashMap::new();
        let mut is_named = false;
        for line in trace.lines() {
            let Some((call, words)) = line.split_once('(') else {
                continue;
            };
            is_named |= call != "execve" && words.contains("/data\"");
            let (before, all) = count.entry(call).or_default();
            *all += 1;
            *before += usize::from(!is_named);
        }
        let mut faults = Vec::new();
        for (call, errors) in FAULTS {
            let (before, all) = count.get(call).copied().unwrap_or_default();
            faults.extend(
                errors
                    .iter()
                    .flat_map(|error| (before + 1..=all).map(move |at| (call, *error, at))),
            );
        }
        let stride = if all_is_asked_for() {
            1
        } else {
            faults.len() / FEW + 1
        };
        let first = std::process::id() as usize % stride;
        let (mut injected, mut done) = (0, 0);
        for (call, error, at) in faults.into_iter().skip(first).step_by(stride) {
            let scene = Self::scene();
            let inject = format!("inject={call}:error={error}:when={at}");
            let (ended, trace) = self.traced(&scene, &["-e", &inject]);
            let what = format!("{inject} of {:?}: {ended:?}", self.words);
            assert!(!ended.err.contains("panicked"), "{what}");
            let is_done = self.holds(&scene, &what);
            assert!(
                is_done || ended.code != 0,
                "{what}: it said that it was done"
            );
            let is_told = ended
                .err
                .lines()
                .any(|line| line.starts_with("beadlock: error: "));
            let is_mute = call == "write";
            assert!(
                ended.code == 0 || is_told || is_mute,
                "{what}: without a word"
            );
            let says_new = ended.err.contains("the file is new");
            let may_be_new =
                ended.code == 0 || says_new || is_mute || ended.err.contains("LOCK_LOST");
            assert!(
                !is_done || may_be_new,
                "{what}: it is new, and nobody says so"
            );
            injected += usize::from(trace.contains("(INJECTED)"));
            done += usize::from(is_done);
        }
        eprintln!(
            "{:?}: {injected} failures, in spite of {done} of them it was done",
            self.words
        );
        assert!(injected >= FEW / 2, "this shows nothing");
    }
}

#[test]
fn a_write_with_failures_at_every_call() {
    WRITE.fails_at_each();
}

#[test]
fn an_update_with_failures_at_every_call() {
    UPDATE.fails_at_each();
}

#[test]
fn an_append_with_failures_at_every_call() {
    APPEND.fails_at_each();
}

/// Calls that change something, before each of which it is killed where strace does it.
const STEPS: [&str; 8] = [
    "write",
    "fchmod",
    "fsync",
    "linkat",
    "renameat",
    "unlinkat",
    "newfstatat",
    "close",
];

/// Where a file system has no files without a name, or no hard links, another way is taken: killed there too.
fn killed_where(refused: &str, only: impl Fn(usize, &str) -> bool) {
    become_subreaper();
    if tool("strace").is_none() {
        return;
    }
    let (_, trace) = WRITE.traced(&Case::scene(), &[]);
    let is_it = |line: &&str| line.starts_with(&format!("{refused}("));
    let at: Vec<usize> = (1..)
        .zip(trace.lines().filter(is_it))
        .filter(|(at, line)| only(*at, line))
        .map(|(at, _)| at)
        .collect();
    let (Some(first), Some(last)) = (at.first(), at.last()) else {
        panic!("no such {refused}: {trace}")
    };
    let refuse = format!("inject={refused}:error=EOPNOTSUPP:when={first}..{last}");
    let (ended, trace) = WRITE.traced(&Case::scene(), &["-e", &refuse]);
    assert!(ended.code == 0 && trace.contains("(INJECTED)"), "{ended:?}");
    let mut killed = 0;
    let counts = STEPS.map(|step| {
        trace
            .lines()
            .filter(|line| line.starts_with(&format!("{step}(")))
            .count()
    });
    let all = STEPS
        .iter()
        .zip(counts)
        .filter(|(step, _)| **step != refused);
    let stride = if all_is_asked_for() { 1 } else { 3 };
    for (step, count) in all {
        for at in (1..=count).rev().step_by(stride) {
            let scene = Case::scene();
            let kill = format!("inject={step}:signal=SIGKILL:when={at}");
            let (ended, _) = WRITE.traced(&scene, &["-e", &refuse, "-e", &kill]);
            killed += usize::from(ended.code == 137);
            WRITE.holds(&scene, &format!("{refuse}, {kill}: {ended:?}"));
        }
    }
    eprintln!("{refused} refused: killed before {killed} calls");
    assert!(killed >= 8, "this shows nothing: {killed}");
}

#[test]
fn a_write_that_is_killed_where_every_file_has_a_name() {
    killed_where("openat", |_, line| line.contains("O_TMPFILE"));
}

#[test]
fn a_write_that_is_killed_where_there_are_no_hard_links() {
    killed_where("linkat", |_, _| true);
}

/// The control: the same kills, and what must not be is.
#[test]
fn a_naive_write_is_torn_every_call() {
    become_subreaper();
    let mut torn = 0;
    for at in 0..CALLS {
        let scene = Case::scene();
        let mut command = scene.shell("kill -STOP $$; exec \"$@\"");
        command.args(["sh", "cp", "new", "data"]);
        match kill_at(command, at, Calls::All, |_| ()) {
            Stepped::Killed => {
                torn += usize::from(![OLD, NEW].contains(&scene.text("data").as_str()))
            }
            Stepped::Ended(..) => break,
            Stepped::Impossible => return skip::cannot("nobody may trace a program here"),
        }
    }
    assert!(torn > 0, "a file that is written in place was always whole");
}

/// The scene that all this is about: what it looks like when nothing goes wrong.
#[test]
fn undisturbed() {
    for case in [WRITE, UPDATE, APPEND] {
        let scene = Case::scene();
        let ended = Ended::from(run(case.command(&scene, "")));
        assert_eq!(ended.code, 0, "{}", scene.text("said"));
        assert!(case.holds(&scene, "undisturbed"));
        assert_eq!(
            fs::read_dir(scene.path()).expect("a scene").count(),
            scene.files().len() + 1
        );
    }
}
