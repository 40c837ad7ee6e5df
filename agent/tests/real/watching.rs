//! The watcher: which events wake it, when it is replaced, and an agent that gets none.

use std::fs::{self, File};

use crate::agent::{OfAgent, count_in, fresh_scene};
use beadlock_testkit::until;
use nix::fcntl::{Flock, FlockArg};

/// How often the watcher's thread has waited for something.
fn waits(agent: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{agent}/task"))
        .unwrap()
        .flatten();
    let read = |name: &str, task: &fs::DirEntry| {
        fs::read_to_string(task.path().join(name)).unwrap_or_default()
    };
    let watchers = tasks.filter(|task| read("comm", task).starts_with("notify-rs"));
    let status: Vec<_> = watchers.map(|task| read("status", &task)).collect();
    assert_eq!(status.len(), 1, "one watcher");
    let waits = status[0]
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    waits.unwrap().trim().parse().unwrap()
}

#[test]
fn what_is_only_opened_and_read_wakes_nobody() {
    let scene = fresh_scene();
    fs::create_dir(scene.beads().join("sub")).unwrap();
    fs::write(scene.beads().join("sub/file"), "x").unwrap();
    let agent = scene.start(&[
        "--db",
        ".beads",
        "--action",
        "none",
        "--interval",
        "10m",
        "--debounce",
        "0s",
    ]);
    until("the first cycle", || {
        scene.count("Sync cycle complete") == 1
    });
    let mut rest = waits(agent.pid());
    until("the first cycle is heard", || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::mem::replace(&mut rest, waits(agent.pid())) == rest
    });
    for _ in 0..1_000 {
        let _ = (
            File::open(scene.beads()),
            fs::read(scene.beads().join("sub/file")),
            fs::read_dir(scene.beads().join("sub")),
        );
    }
    assert_eq!(waits(agent.pid()), rest);
    fs::write(scene.beads().join("sub/file"), "y").unwrap();
    // Two at the most: the write empties the file first.
    until("a cycle after a change", || {
        scene.count("Sync cycle complete") >= 2
    });
    // It counts as soon as the watcher waits again.
    until("that wakes the watcher", || waits(agent.pid()) > rest);
    assert_eq!(agent.stop(), Some(0));
}

/// More than half go at once: so many that the others get a new watcher. Each is served, and heard, as before.
#[test]
fn the_end_of_many_databases_leaves_the_others_watched() {
    let scene = fresh_scene();
    let names: Vec<_> = (0..2_000)
        .map(|number| format!("{}/{number}", if number < 1_100 { "go" } else { "stay" }))
        .collect();
    let dirs: Vec<_> = names.iter().map(|name| scene.database(name)).collect();
    let how = [
        "--root",
        ".",
        "--action",
        "none",
        "--interval",
        "10m",
        "--debounce",
        "0s",
        "--no-spread",
    ];
    let agent = scene.start(&how);
    until("all have had a cycle", || {
        dirs.iter()
            .all(|dir| count_in(dir, "Sync cycle complete") == 1)
    });
    let away = scene.path().parent().unwrap().join("away");
    #[expect(clippy::disallowed_methods, reason = "the test moves what it has made")]
    fs::rename(scene.file("go"), away).unwrap();
    agent.signal(nix::sys::signal::Signal::SIGHUP);
    let (_, stay) = dirs.split_at(1_100);
    until("each counts as changed", || {
        stay.iter()
            .all(|dir| count_in(dir, "Sync cycle complete") >= 2)
    });
    for dir in stay {
        fs::write(dir.join("issues.jsonl"), "x").unwrap();
    }
    until("each is heard", || {
        stay.iter()
            .all(|dir| count_in(dir, "Sync cycle complete") >= 3)
    });
    assert_eq!(agent.stop(), Some(0));
}

/// The gate is shut for as long as a lock is released, and for as long as another cycle runs.
#[test]
fn a_gate_that_is_shut_for_a_moment_is_no_state() {
    let scene = fresh_scene();
    let agent = scene.start(&["--interval", "50ms", "--action", "none"]);
    until("a cycle", || scene.count("Sync cycle complete") > 0);
    let busy = "Skipping database (a sync cycle or a claim is in progress)";
    let states = || {
        let of_state = |line: &&String| line.starts_with("State: skipped");
        scene.lines().iter().filter(of_state).count()
    };
    // A cycle may just be running.
    let take_gate = || {
        let mut gate = None;
        until("the gate", || {
            let dir = File::open(scene.beads()).unwrap();
            gate = Flock::lock(dir, FlockArg::LockExclusiveNonblock).ok();
            gate.is_some()
        });
        gate.unwrap()
    };
    let gate = take_gate();
    until("a skip", || scene.count(busy) > 0);
    drop(gate);
    let resumed = || {
        let of_end = |line: &&String| line.starts_with("Resumed after");
        scene.lines().iter().filter(of_end).count()
    };
    until("the end", || resumed() == 1);
    assert_eq!(states(), 0, "{:?}", scene.lines());
    let gate = take_gate();
    until("a state", || states() == 1);
    drop(gate);
    until("the end", || resumed() == 2);
    assert_eq!(agent.stop(), Some(0));
}

/// The log says it, and not standard error alone.
#[test]
fn without_any_inotify_instance_the_log_says_so() {
    let scene = fresh_scene();
    let script = "echo 0 >/proc/sys/user/max_inotify_instances && exec timeout 2 \"$AGENT\" --db .beads --action none";
    let Some(command) = scene.in_namespaces(&["--user", "--map-root-user"], script) else {
        return;
    };
    beadlock_testkit::run(command);
    let says = |line: &String| line.starts_with("Cannot watch for changes (");
    assert!(scene.lines().iter().any(says), "{:?}", scene.lines());
}
