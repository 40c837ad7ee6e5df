use super::*;
use crate::process_ref::ProcessRef;
use std::process::Command;
use std::time::{Duration, Instant};

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn tells_how_a_child_ended_without_reaping_it() {
    let cases = [
        ("exit 7", CommandEnd::Exited(7)),
        ("kill -9 $$", CommandEnd::Killed(9)),
        ("kill -40 $$", CommandEnd::Killed(40)),
    ];
    for (script, expected) in cases {
        let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
        let pid = child.id().cast_signed();
        until(script, || end_of(pid).is_some());
        assert_eq!(end_of(pid), Some(expected), "{script}");
        assert_eq!(end_of(pid), Some(expected), "{script}, asked again");
        child.wait().unwrap();
    }
}

#[test]
fn sees_grandchildren_and_no_zombies() {
    let mut child = Command::new("sh")
        .args(["-c", "sleep 60 & wait"])
        .spawn()
        .unwrap();
    let pid = child.id().cast_signed();
    let tree = ProcessTree::default();
    let below = || {
        tree.living()
            .into_iter()
            .filter(|stat| stat.pid == pid || stat.ppid == pid)
            .collect::<Vec<_>>()
    };
    until("two of them", || below().len() == 2);
    assert!(signal(&below(), Signal::SIGKILL).is_empty());
    until("none of them", || below().is_empty());
    child.wait().unwrap();
}

#[test]
fn whom_a_shell_left_us_is_none_of_the_commands() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().cast_signed();
    let has_it = |tree: &ProcessTree| tree.living().iter().any(|stat| stat.pid == pid);
    assert!(has_it(&ProcessTree::default()));
    assert!(!has_it(&ProcessTree::from_now_on()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_token_is_found_whole_and_in_its_own_variable_alone() {
    let marks = |environment: &str| is_marked(&StartEnvironment::of_bytes(environment), "t1");
    for marked in [
        "BEADLOCK_WARDS=t1\0",
        "A=b\0BEADLOCK_WARDS=t0:t1\0C=d\0",
        "BEADLOCK_WARDS=t1:t2",
    ] {
        assert!(marks(marked), "{marked}");
    }
    for other in [
        "",
        "BEADLOCK_WARDS=t11\0",
        "XBEADLOCK_WARDS=t1\0",
        "BEADLOCK_WARDS_=t1\0",
        "A=BEADLOCK_WARDS=t1\0",
    ] {
        assert!(!marks(other), "{other}");
    }
    assert_eq!(variable("t1", None), "t1");
    assert_eq!(variable("t1", Some(OsStr::new("t0"))), "t0:t1");
}

#[test]
fn the_tree_of_a_command_is_its_process_its_group_and_all_below() {
    let stat = |pid: i32, ppid: i32, pgrp: i32| {
        // No process has these PIDs: the kernel's limit is 2^22.
        let base = 1 << 30;
        Stat::parse(
            format!(
                "{} (x) S {} {} 0 {}",
                base + pid,
                base + ppid,
                base + pgrp,
                "0 ".repeat(15) + "9"
            )
            .as_bytes(),
        )
        .unwrap()
    };
    let all = vec![
        stat(4, 3, 9),
        stat(1, 0, 1),
        stat(3, 1, 9),
        stat(2, 0, 1),
        stat(5, 0, 5),
    ];
    let pids = |start_ticks: Option<u64>, leads: bool| {
        let process = ProcessRef {
            pid: (1 << 30) + 1,
            start_ticks,
        };
        let tree = ProcessTree::of_command(CommandRef { process, leads }, "t1".to_owned());
        let mut pids: Vec<i32> = tree
            .living_of(all.clone())
            .iter()
            .map(|stat| stat.pid - (1 << 30))
            .collect();
        pids.sort_unstable();
        pids
    };
    assert_eq!(pids(Some(9), true), [1, 2, 3, 4]);
    assert_eq!(pids(Some(9), false), [1, 3, 4]);
    for (start_ticks, leads) in [(Some(8), true), (Some(8), false), (None, false)] {
        assert_eq!(
            pids(start_ticks, leads),
            [0; 0],
            "the PID is another process by now"
        );
    }
}

#[test]
fn gits_upkeep_is_told_from_its_work() {
    let is = |line: &str| is_upkeep(line.replace(' ', "\0").as_bytes());
    for line in [
        "git maintenance run --auto --quiet --detach",
        "/usr/lib/git-core/git -c x=y -C dir maintenance run --auto",
        "git gc --auto",
    ] {
        assert!(is(line), "{line}");
    }
    for line in [
        "git gc",
        "git push --auto",
        "sh maintenance run --auto",
        "git",
        "",
        "git -c",
    ] {
        assert!(!is(line), "{line}");
    }
}
