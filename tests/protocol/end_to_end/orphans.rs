//! A command whose lock is kept up by a heartbeat does not outlive who keeps it up, however that ends.

use std::fs;
use std::time::{Duration, Instant};

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, become_subreaper, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than any of this takes.
const NO_END: &str = "600000";

/// Starts `sh -c SCRIPT` in the care of a watchdog, and returns once it has made a file `ready`.
fn warded(scene: &Scene, group: &str, grace: &str, script: &str) -> Running {
    become_subreaper();
    let mut command = scene.command(env!("CARGO_BIN_EXE_warded"));
    command.args([group, grace, "--", "/bin/sh", "-c", script]);
    let running = Running::start(command);
    wait_until(PATIENCE, "the command is ready", || {
        scene.path().join("ready").exists()
    });
    running
}

fn number(scene: &Scene, name: &str) -> Pid {
    let text = || fs::read_to_string(scene.path().join(name)).unwrap_or_default();
    wait_until(PATIENCE, name, || text().ends_with('\n'));
    Pid::from_raw(text().trim().parse().expect("a PID"))
}

/// Neither gone nor a zombie.
fn lives(pid: Pid) -> bool {
    beadlock_base::process::Stat::read(pid.as_raw()).is_some_and(|stat| !stat.is_zombie())
}

#[test]
fn the_whole_tree_ends_when_its_owner_is_killed() {
    // A child, a session of its own, two orphans of one, a child that stands still, one that clears its environment.
    let script = "sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000 &' & \
                  sh -c 'kill -STOP $$' & \
                  sh -c 'env -i /bin/sh -c \"echo \\$\\$ > cleared; exec /bin/sleep 1000\"; true' & \
                  echo > ready; wait; sleep 1000";
    for group in ["own", "shared"] {
        let scene = Scene::new();
        let owner = warded(&scene, group, NO_END, script);
        let cleared = number(&scene, "cleared");
        // Owner, watchdog, shell, four times sleep, who stands still, and whose child is cleared.
        wait_until(PATIENCE, "all are there", || marked_by(&scene).len() == 9);
        let is_told_apart = !marked_by(&scene).contains(&cleared);
        assert!(
            is_told_apart && lives(cleared),
            "its environment does not tell whose it is"
        );
        owner.signal(Signal::SIGKILL);
        // Within a second on a machine that has nothing else to do.
        wait_until(PATIENCE, &format!("{group}: nobody is left"), || {
            marked_by(&scene).is_empty() && !lives(cleared)
        });
    }
}

#[test]
fn who_does_not_hear_is_killed_after_the_grace() {
    let scene = Scene::new();
    let script = "trap '' TERM; echo $$ > pid; echo > ready; while :; do sleep 0.02; done";
    let owner = warded(&scene, "own", "400", script);
    let command = number(&scene, "pid");
    let begun = Instant::now();
    owner.signal(Signal::SIGKILL);
    wait_until(PATIENCE, "the command is killed", || !lives(command));
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "{:?}",
        begun.elapsed()
    );
    wait_until(PATIENCE, "nobody is left", || marked_by(&scene).is_empty());
}

#[test]
fn what_a_command_leaves_behind_lives_on_when_it_ends_by_itself() {
    let scene = Scene::new();
    let script = "setsid sleep 1000 >/dev/null 2>&1 & echo $! > left; echo > ready";
    let mut owner = warded(&scene, "own", "0", script);
    assert!(owner.wait(PATIENCE).success());
    let left = number(&scene, "left");
    wait_until(PATIENCE, "the watchdog has ended", || {
        marked_by(&scene).len() == 1
    });
    assert!(lives(left));
    kill(left, Signal::SIGKILL).expect("it lives");
}

#[test]
fn without_its_watchdog_the_kernel_tells_the_command() {
    let scene = Scene::new();
    let script = "trap 'echo > asked; exit' TERM; echo $PPID > owner; echo > ready; while :; do sleep 0.02; done";
    let owner = warded(&scene, "own", NO_END, script);
    let stats = beadlock_base::process::all();
    let is_watchdog = |stat: &&beadlock_base::process::Stat| {
        let line = beadlock_base::process::command_line(stat.pid).unwrap_or_default();
        stat.ppid == owner.pid() && line.starts_with("beadlock: watches ")
    };
    let watchdog = stats.iter().find(is_watchdog).expect("a watchdog").pid;
    kill(Pid::from_raw(watchdog), Signal::SIGKILL).expect("it lives");
    owner.signal(Signal::SIGKILL);
    wait_until(PATIENCE, "the command is asked to end", || {
        scene.path().join("asked").exists()
    });
    wait_until(PATIENCE, "nobody is left", || marked_by(&scene).is_empty());
}

#[test]
fn a_command_that_cannot_execute_leaves_no_watchdog() {
    let scene = Scene::new();
    become_subreaper();
    let mut command = scene.command(env!("CARGO_BIN_EXE_warded"));
    command.args(["own", NO_END, "--", "/nonexistent/program"]);
    let mut owner = Running::start(command);
    assert!(!owner.wait(PATIENCE).success());
    wait_until(PATIENCE, "nobody is left", || marked_by(&scene).is_empty());
}
