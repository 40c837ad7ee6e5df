//! The power fails: a lock is whole or not there. What shows it is the order of the calls.

use std::fs;

use beadlock_tests::{Ended, Scene, run, tool};

/// The calls of a claim in the order in which they were made, and the file descriptor of the record.
#[track_caller]
fn order_of_a_claim(target: &str) -> Option<Vec<String>> {
    let strace = tool("strace")?;
    let scene = Scene::new();
    let mut command = scene.command(strace);
    command.args([
        "-f",
        "-o",
        "trace",
        "-e",
        "trace=openat,write,fchmod,fsync,fdatasync,sync,syncfs,linkat,close",
    ]);
    command.arg(beadlock_tests::binaries::beadlock()).args(["hold", "-q", target, "--", "true"]);
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    let trace = fs::read_to_string(scene.path().join("trace")).expect("a trace");
    let lines = trace.lines().filter_map(|line| line.trim_start().split_once(char::is_whitespace));
    Some(lines.map(|(_, call)| call.trim_start().to_owned()).collect())
}

/// Written, synced, and only then linked; and nothing else is synced.
#[track_caller]
fn is_whole_or_absent(target: &str) {
    let Some(calls) = order_of_a_claim(target) else { return };
    let at = |what: &str, start: &str| {
        let found = calls.iter().position(|call| call.starts_with(start) && !call.contains("= -1"));
        found.unwrap_or_else(|| panic!("no {what} ({start}) in {calls:#?}"))
    };
    let created = calls.iter().position(|call| call.contains("O_TMPFILE")).expect("an unnamed file");
    let number = calls[created].rsplit("= ").next().expect("its descriptor").to_owned();
    let after = |start: &str| {
        let found = calls[created..].iter().position(|call| call.starts_with(start));
        created + found.unwrap_or_else(|| panic!("no {start} in {calls:#?}"))
    };
    let written = after(&format!("write({number}, \"{{\\n"));
    let synced = after(&format!("fdatasync({number})"));
    let linked = at("link", "linkat(");
    assert!(created < written && written < synced && synced < linked, "{calls:#?}");
    let again = calls[synced..linked].iter().any(|call| call.starts_with(&format!("write({number},")));
    assert!(!again, "written after it was synced: {calls:#?}");
    let syncs: Vec<_> =
        calls.iter().filter(|call| call.contains("sync(") || call.starts_with("syncfs")).collect();
    // A lock that vanishes with the power is right: its holder died too. So the directory is not synced.
    assert_eq!(syncs.len(), 1, "{syncs:?}");
}

#[test]
fn a_beads_lock() {
    is_whole_or_absent(".beads");
}

#[test]
fn a_lock_at_any_path() {
    is_whole_or_absent("lock:here.lock");
}
