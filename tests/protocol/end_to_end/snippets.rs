//! The daemons of `integration/cycle` and `integration/go`, as somebody would copy them: they sync, skip what is claimed, and
//! end well.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_tests::{Running, Scene, binaries, go, process, skip, wait_until};
use nix::sys::signal::Signal;

const LONG: Duration = Duration::from_secs(60);

/// How one of the daemons is started.
struct Daemon {
    program: Vec<PathBuf>,
    interval: &'static str,
}

impl Daemon {
    /// With its lines in `daemon.txt`, and `path` in front of PATH.
    fn start(&self, scene: &Scene, path: &Path, script: &str) -> Running {
        let mut command = scene.shell("exec \"$@\" 2>> daemon.txt");
        let flag = if self.interval.ends_with('s') {
            "-interval"
        } else {
            "--interval"
        };
        command
            .arg("sh")
            .args(&self.program)
            .args([flag, self.interval, "--", "sh", "-c", script]);
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::iter::once(path.to_owned()).chain(std::env::split_paths(&rest));
        command.env("PATH", std::env::join_paths(dirs).expect("a PATH"));
        Running::start(command)
    }
}

fn python() -> Option<Daemon> {
    let python = skip::tool("python3")?;
    let script = skip::checkout().join("integration/cycle/daemon.py");
    Some(Daemon {
        program: vec![python, script],
        interval: "0.05",
    })
}

fn go(built: &Path) -> Option<Daemon> {
    Some(Daemon {
        program: vec![go::build(
            "./examples/daemon",
            Path::new(env!("CARGO_TARGET_TMPDIR")),
            built,
        )?],
        interval: "50ms",
    })
}

fn lines(scene: &Scene) -> Vec<String> {
    let text = fs::read_to_string(scene.path().join("daemon.txt")).unwrap_or_default();
    // Whole ones; each begins with its time.
    text.split_inclusive('\n')
        .filter_map(|line| Some(line.strip_suffix('\n')?.split_once("] ")?.1.to_owned()))
        .collect()
}

fn count(scene: &Scene, words: &str) -> usize {
    lines(scene)
        .iter()
        .filter(|line| line.starts_with(words))
        .count()
}

fn wait_for(scene: &Scene, words: &str, more_than: usize) {
    wait_until(LONG, &format!("{words:?} in {:?}", scene.path()), || {
        count(scene, words) > more_than
    });
}

/// What is expected of each.
fn keeps_the_promises(daemon: &Daemon) {
    syncs_and_skips(daemon);
    ends_after_its_cycle(daemon);
    is_not_held_up(daemon);
}

fn syncs_and_skips(daemon: &Daemon) {
    let scene = Scene::new();
    let script = "echo syncing; echo cycle >> ran; test ! -e fail || exit 3";
    let running = daemon.start(&scene, binaries::directory(), script);
    wait_for(&scene, "Sync cycle complete", 1);
    assert!(
        count(&scene, "syncing") >= 2,
        "what the command says: {:?}",
        lines(&scene)
    );
    let claim = "wc -l < ran > before; until test -e go; do sleep 0.01; done; wc -l < ran > after";
    let claim = scene.hold(&["--holder", "release job", "--", "sh", "-c", claim]);
    wait_for(&scene, "Skipping database (locked by release job)", 1);
    fs::write(scene.path().join("go"), "").expect("a file");
    assert!(claim.finish(LONG).status.success());
    let read = |name: &str| fs::read_to_string(scene.path().join(name)).expect("a count");
    assert_eq!(read("before"), read("after"), "no cycle beside a claim");
    wait_for(
        &scene,
        "Sync cycle complete",
        count(&scene, "Sync cycle complete"),
    );
    scene.write_lock("{");
    wait_for(
        &scene,
        "Skipping database (lock check failed: malformed lock file: ",
        1,
    );
    fs::remove_file(scene.lock()).expect("the lock is there");
    fs::write(scene.path().join("fail"), "").expect("a file");
    wait_for(&scene, "Sync cycle failed: exit code 3", 1);
    end(running, &scene);
}

fn ends_after_its_cycle(daemon: &Daemon) {
    let scene = Scene::new();
    let script = "echo begun; until test -e go; do sleep 0.01; done; echo done";
    let mut running = daemon.start(&scene, binaries::directory(), script);
    wait_for(&scene, "begun", 0);
    running.signal(Signal::SIGTERM);
    wait_for(&scene, "Stopping after the cycle that is running", 0);
    fs::write(scene.path().join("go"), "").expect("a file");
    assert_eq!(running.wait(LONG).code(), Some(0), "{:?}", lines(&scene));
    assert_eq!(
        (count(&scene, "done"), count(&scene, "Sync cycle complete")),
        (1, 1),
        "{:?}",
        lines(&scene)
    );
    assert!(process::marked_by(&scene).is_empty(), "nothing is left");

    let scene = Scene::new();
    let mut running = daemon.start(&scene, binaries::directory(), "echo begun; exec sleep 300");
    wait_for(&scene, "begun", 0);
    running.signal(Signal::SIGINT);
    wait_for(&scene, "Stopping after the cycle that is running", 0);
    assert!(running.is_running());
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(LONG).code(), Some(0), "{:?}", lines(&scene));
    assert_eq!(
        count(&scene, "Sync cycle failed: exit code 143"),
        1,
        "{:?}",
        lines(&scene)
    );
    assert!(process::marked_by(&scene).is_empty(), "nothing is left");
}

fn waits_for_beadlock(daemon: &Daemon) {
    let scene = Scene::new();
    let bin = scene.path().join("bin");
    fs::create_dir(&bin).expect("a directory");
    let running = daemon.start(&scene, &bin, "echo syncing");
    wait_for(&scene, "No sync cycles: cannot run beadlock: ", 0);
    assert_eq!(count(&scene, "syncing"), 0, "without beadlock nobody knows");
    std::os::unix::fs::symlink(binaries::beadlock(), bin.join("beadlock")).expect("a link");
    wait_for(&scene, "Sync cycle complete", 0);
    assert_eq!(
        count(&scene, "No sync cycles"),
        1,
        "said once: {:?}",
        lines(&scene)
    );
    end(running, &scene);
}

/// By what the command has left behind, with the daemon's pipe open.
fn is_not_held_up(daemon: &Daemon) {
    let scene = Scene::new();
    let script = "setsid sleep 300 & echo $! >> left; echo syncing";
    let running = daemon.start(&scene, binaries::directory(), script);
    wait_for(&scene, "Sync cycle complete", 1);
    running.signal(Signal::SIGTERM);
    let mut running = running;
    assert_eq!(running.wait(LONG).code(), Some(0));
}

fn end(mut running: Running, scene: &Scene) {
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait(LONG).code(), Some(0), "{:?}", lines(scene));
    assert!(process::marked_by(scene).is_empty(), "nothing is left");
}

#[test]
fn the_daemon_in_python() {
    if let Some(daemon) = python() {
        keeps_the_promises(&daemon);
        waits_for_beadlock(&daemon);
    }
}

#[test]
fn the_daemon_in_go() {
    let built = tempfile::tempdir().expect("a temporary directory");
    if let Some(daemon) = go(built.path()) {
        keeps_the_promises(&daemon);
        removes_a_dead_lock_with_beadlock(&daemon);
        works_on_when_it_is_killed(&daemon);
    }
}

/// The one in Go takes the gate itself, and leaves the removal to the program.
fn removes_a_dead_lock_with_beadlock(daemon: &Daemon) {
    let scene = Scene::new();
    let bin = scene.path().join("bin");
    fs::create_dir(&bin).expect("a directory");
    scene.write_stale_lock("importer");
    let running = daemon.start(&scene, &bin, "echo syncing");
    wait_for(
        &scene,
        "Skipping database (lock check failed: failed to remove stale lock: ",
        0,
    );
    assert_eq!(count(&scene, "syncing"), 0, "{:?}", lines(&scene));
    std::os::unix::fs::symlink(binaries::beadlock(), bin.join("beadlock")).expect("a link");
    wait_for(&scene, "Sync cycle complete", 0);
    assert_eq!(
        count(
            &scene,
            "Removed stale lock (importer), proceeding with sync"
        ),
        1,
        "{:?}",
        lines(&scene)
    );
    end(running, &scene);
}

/// The command keeps the gate shut.
fn works_on_when_it_is_killed(daemon: &Daemon) {
    let scene = Scene::new();
    let script = "echo $$ > work; until test -e go; do sleep 0.01; done";
    let mut running = daemon.start(&scene, binaries::directory(), script);
    let work = scene.pid_in("work");
    running.signal(Signal::SIGKILL);
    running.wait(LONG);
    assert!(!scene.gate_is_free(), "the work goes on");
    scene.write("go", "");
    wait_until(LONG, "the end of the work", || !process::lives(work));
    wait_until(LONG, "the gate", || scene.gate_is_free());
}
