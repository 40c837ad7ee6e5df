//! The flock is beadlock's own: when it is killed there must be no work without it.

use beadlock_tests::process::become_subreaper;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::wait_until;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::scene::{Files, TARGET};

fn lives(pid: i32) -> bool {
    beadlock_checker::process::Stat::read(pid).is_some_and(|stat| !stat.is_zombie())
}

#[test]
fn a_hold_that_is_killed_leaves_the_lock_to_nobody_before_its_command_has_ended() {
    become_subreaper();
    let files = Files::new();
    let script = "trap '' TERM; echo >begun; while :; do sleep 0.05; done";
    let holding = files.holding(&["--kill-after", "1s"], script);
    files.wait_for("begun");
    let pid = files.number("ready");
    holding.signal(Signal::SIGKILL);
    wait_until(PATIENCE, "the lock is free", || {
        let alive = lives(pid);
        // In this order: free while it was alive just before is what must not be.
        let is_free = files.is_free();
        assert!(!(is_free && alive && lives(pid)), "the lock is free, and the command works on");
        is_free
    });
    drop(holding);
}

/// Whoever is next has the lock at once: nothing is left to be cleaned up.
#[test]
fn a_hold_and_its_command_that_are_killed_leave_a_free_lock() {
    become_subreaper();
    let files = Files::new();
    for _ in 0..10 {
        let _ = std::fs::remove_file(files.path("ready"));
        let holding = files.holding(&["-q"], "exec sleep 60");
        let pid = Pid::from_raw(files.number("ready"));
        holding.signal(Signal::SIGKILL);
        let _ = nix::sys::signal::kill(pid, Signal::SIGKILL);
        let ended = files.scene.run(&["hold", "-q", TARGET, "--", "true"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        drop(holding);
    }
}
