//! `acquire` and `release` of a file: a keeper has the lock.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use beadlock_tests::process::become_subreaper;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, reap, run, wait_until};
use nix::sys::signal::Signal;

use crate::scene::{Files, TARGET};

/// What `acquire` has printed.
fn acquired(files: &Files, args: &[&str]) -> HashMap<String, String> {
    become_subreaper();
    let ended = files.scene.run(&[&["acquire", TARGET], args].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    ended.out.lines().filter_map(pair).collect()
}

fn with(files: &Files, claim: &HashMap<String, String>, args: &[&str]) -> Ended {
    let mut command = files.scene.beadlock(args);
    command.envs(claim);
    run(command).into()
}

#[test]
fn a_claim_is_kept_until_it_is_released_by_its_id() {
    let files = Files::new();
    let claim = acquired(&files, &["--detach"]);
    let keeper: i32 = claim["BEADLOCK_PID"].parse().expect("a PID");
    assert!(claim["BEADLOCK_TARGET"].ends_with("/todo.json"), "{claim:?}");
    assert!(claim["BEADLOCK_ID"].ends_with(&format!(":{keeper}")), "{claim:?}");
    assert!(!files.is_free());
    let shown = files.scene.run(&["status", TARGET]);
    assert!(shown.out.contains(&format!("held by PID {keeper} (beadlock acquire), exclusive")), "{shown:?}");
    let ended = with(&files, &claim, &["hold", "-q", "--no-wait", "--", "echo", "in"]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "in\n"), "nested: {ended:?}");
    let nested = with(&files, &claim, &["acquire", "-q"]);
    assert!(nested.out.contains("BEADLOCK_ID=nested:"), "{nested:?}");
    let id = nested.out.lines().find_map(|line| line.strip_prefix("BEADLOCK_ID=")).expect("an id");
    assert_eq!(files.scene.run(&["release", TARGET, "--id", id]).code, 0);
    assert!(!files.is_free(), "that one releases nothing");
    let ended = files.scene.run(&["release", TARGET, "--id", "1:2:3"]);
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(!files.is_free());
    let ended = with(&files, &claim, &["release"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(files.is_free(), "at once");
    reap(keeper, PATIENCE);
    let ended = with(&files, &claim, &["release"]);
    assert!(ended.code == 0 && ended.err.contains("is not locked any more"), "{ended:?}");
}

#[test]
fn a_claim_for_a_process_ends_with_it_and_one_with_max_hold_by_itself() {
    let files = Files::new();
    let subject = Running::start(files.scene.shell("exec sleep 600"));
    let claim = acquired(&files, &["--for", &subject.pid().to_string()]);
    assert!(!files.is_free());
    drop(subject);
    wait_until(PATIENCE, "it ends with its process", || files.is_free());
    reap(claim["BEADLOCK_PID"].parse().expect("a PID"), PATIENCE);
    let claim = acquired(&files, &["--detach", "--max-hold", "3s"]);
    wait_until(PATIENCE, "its time is over", || files.is_free());
    reap(claim["BEADLOCK_PID"].parse().expect("a PID"), PATIENCE);
}

#[test]
fn what_cannot_be_printed_is_not_claimed_and_neither_is_what_is_held() {
    become_subreaper();
    let files = Files::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut command: Command = files.scene.beadlock(&["acquire", "--detach", TARGET]);
    let status = command.stdout(full).stderr(Stdio::null()).status().expect("it starts");
    assert_eq!(status.code(), Some(1));
    assert!(files.is_free());
    let _somebody = files.somebody("-x");
    let ended = files.scene.run(&["acquire", "--detach", "--no-wait", TARGET]);
    assert_eq!((ended.code, ended.out.as_str()), (8, ""), "{ended:?}");
}

#[test]
fn a_keeper_that_is_killed_leaves_a_free_lock_and_one_whose_lock_file_is_deleted_ends() {
    let files = Files::new();
    for kills in [true, false] {
        let claim = acquired(&files, &["--detach"]);
        let keeper: i32 = claim["BEADLOCK_PID"].parse().expect("a PID");
        if kills {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), Signal::SIGKILL).expect("it is ours");
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
    assert!(ended.err.contains("that this stands under has ended"), "{ended:?}");
    reap(claim["BEADLOCK_PID"].parse().expect("a PID"), PATIENCE);
}
