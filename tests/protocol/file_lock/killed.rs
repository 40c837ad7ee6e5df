//! The flock is beadlock's own: when it is killed there must be no work without it.

use beadlock_tests::process::become_subreaper;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, Ended, wait_until};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::scene::{Files, TARGET};

fn lives(pid: i32) -> bool {
    beadlock_base::process::Stat::read(pid).is_some_and(|stat| !stat.is_zombie())
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
        assert!(
            !(is_free && alive && lives(pid)),
            "the lock is free, and the command works on"
        );
        is_free
    });
    drop(holding);
}

/// The next one has the lock at once: nothing is left to be cleaned up.
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

/// Three who want it again and again, and are killed in the middle more often than not: no two commands at work at
/// once, and nothing in the way of the next one. `FILE_ROUNDS` is how often each wants it.
#[test]
fn rounds_with_kills_never_have_two_at_work() {
    become_subreaper();
    let files = Files::new();
    let rounds: u32 = std::env::var("FILE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(20);
    // A process at work has the flock on `work` for as long as it lives, whatever becomes of beadlock's.
    let script =
        "exec 9<>work; flock -n 9 || echo >>overlap; trap '' TERM; echo >>turns; sleep 0.02";
    let args = [
        "hold",
        "-q",
        "--kill-after",
        "200ms",
        TARGET,
        "--",
        "sh",
        "-c",
        script,
    ];
    let seed = Dice::seed("FILE_SEED");
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let files = &files;
            scope.spawn(move || {
                let mut dice = Dice::new(seed, name);
                for _ in 0..rounds {
                    let holding = files.scene.start(&args);
                    if dice.below(3) == 0 {
                        let ended = Ended::from(holding.finish(PATIENCE));
                        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
                    } else {
                        dice.pause(0, 60);
                        drop(holding);
                    }
                }
            });
        }
    });
    wait_until(PATIENCE, "the last one is gone", || files.is_free());
    assert!(!files.path("overlap").exists(), "two at work at once");
    assert!(
        files.read("turns").lines().count() > 3,
        "somebody has worked"
    );
}
