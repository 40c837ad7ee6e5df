//! `acquire` and `release` of a file: a keeper has the lock.

use std::collections::HashMap;

use beadlock_tests::process::become_subreaper;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, reap, run};
use nix::sys::signal::Signal;

use crate::scene::{Files, TARGET};

/// What `acquire` has printed.
fn acquired(files: &Files, args: &[&str]) -> HashMap<String, String> {
    become_subreaper();
    let ended = files.scene.run(&[&["acquire", TARGET], args].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').to_owned()))
    };
    ended.out.lines().filter_map(pair).collect()
}

fn with(files: &Files, claim: &HashMap<String, String>, args: &[&str]) -> Ended {
    let mut command = files.scene.beadlock(args);
    command.envs(claim);
    run(command).into()
}

#[test]
fn a_keeper_that_is_killed_leaves_a_free_lock_and_one_whose_lock_file_is_deleted_ends() {
    let files = Files::new();
    for kills in [true, false] {
        let claim = acquired(&files, &["--detach"]);
        let keeper: i32 = claim["BEADLOCK_PID"].parse().expect("a PID");
        if kills {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), Signal::SIGKILL)
                .expect("it is ours");
        } else {
            std::fs::remove_file(files.lock()).expect("it is there");
        }
        reap(keeper, PATIENCE);
        assert!(files.is_free());
    }
}

#[test]
fn a_hold_under_a_claim_that_ends_has_lost_its_lock() {
    let files = Files::new();
    let claim = acquired(&files, &["--detach", "--max-hold", "3s"]);
    let ended = with(&files, &claim, &["hold", "--", "sleep", "600"]);
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(
        ended.err.contains("that this stands under has ended"),
        "{ended:?}"
    );
    reap(claim["BEADLOCK_PID"].parse().expect("a PID"), PATIENCE);
}
