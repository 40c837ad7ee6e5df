//! How fast a change travels with the settings that are built in, and how a remote is asked that does not answer.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;

use crate::bench::{Bench, stops_when_naive};

/// The agent of a clone, with the settings that are built in.
fn agent(bench: &Bench, clone: &str) -> Command {
    let mut command = bench.scene().agent(&["--db"]);
    command.arg(bench.path().join(clone).join(".beads"));
    command
}

fn end(mut daemon: Running) {
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait(PATIENCE).success(), "the agent ends well");
}

fn at_remote(bench: &Bench, path: &str) -> String {
    let path = format!("main:{path}");
    bench.try_git(bench.remote(), &["show", &path]).out
}

#[test]
fn a_change_is_at_the_remote_at_once_and_in_the_other_clone_within_one_fetch_interval() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let both = ["here", "there"].map(|clone| Running::start(agent(&bench, clone)));
    for n in 0..2 {
        let (text, begun) = (format!("{n}\n"), Instant::now());
        bench.write(".beads/mine.txt", &text);
        wait_until(PATIENCE, "a push", || {
            at_remote(&bench, ".beads/mine.txt") == text
        });
        let there = bench.there().join(".beads/mine.txt");
        wait_until(PATIENCE, "a pull", || {
            fs::read_to_string(&there).is_ok_and(|read| read == text)
        });
        // The longest wait is 12 s. The rest is for a machine that is busy.
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it took {:?}:\n{}",
            begun.elapsed(),
            bench.log()
        );
    }
    both.into_iter().for_each(end);
}

#[test]
fn after_an_outage_a_change_is_pushed_within_seconds_and_the_log_says_what_is_tried_when() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let daemon = Running::start(agent(&bench, "here"));
    wait_until(PATIENCE, "a sync", || bench.log().contains("State: synced"));
    let away = bench.path().join("away.git");
    fs::rename(bench.remote(), &away).expect("take the remote away");
    for n in 0..2 {
        let tried = bench.log().matches("Sync cycle incomplete").count();
        bench.write(".beads/mine.txt", format!("{n}\n"));
        wait_until(PATIENCE, "a try", || {
            bench.log().matches("Sync cycle incomplete").count() > tried
        });
    }
    let log = bench.log();
    let said = |beginning: &str| {
        let line = log.lines().find(|line| line.contains(beginning));
        line.unwrap_or_else(|| panic!("{beginning} is not in the log:\n{log}"))
    };
    let next = ", at the next change, or on SIGUSR1";
    for beginning in [
        "] Cannot reach origin: ",
        "] Sync cycle incomplete: origin cannot be reached: ",
    ] {
        let line = said(beginning);
        assert!(
            line.contains("; next try in ") || line.contains(", next try in "),
            "{line}"
        );
        assert!(line.ends_with(next), "{line}");
    }
    assert!(
        !said("] State: local_only").contains("next try"),
        "how long it waits is not news: {log}"
    );
    fs::rename(&away, bench.remote()).expect("bring the remote back");
    let begun = Instant::now();
    bench.write(".beads/mine.txt", "after\n");
    wait_until(PATIENCE, "a push", || {
        at_remote(&bench, ".beads/mine.txt") == "after\n"
    });
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "it took {:?}:\n{}",
        begun.elapsed(),
        bench.log()
    );
    end(daemon);
}

/// A signal while a cycle runs is heeded when that has ended, and not at the next interval.
#[test]
fn a_signal_is_heeded_also_while_a_cycle_runs() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let stop = bench.path().join("stop");
    fs::write(&stop, "").expect("write");
    let waits = format!("while [ -e '{}' ]; do sleep 0.02; done", stop.display());
    bench.shell(&format!(
        "mkdir -p .git/hooks; printf '#!/bin/sh\\necho begun >>\"{0}\"\\n%s\\n' \"{waits}\" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        bench.path().join("hooks").display()
    ));
    bench.write(".beads/mine.txt", "1\n");
    let mut command = agent(&bench, "here");
    command.args(["--interval", "1h", "--fetch-interval", "1h"]);
    let daemon = Running::start(command);
    wait_until(PATIENCE, "the hook", || bench.path().join("hooks").exists());
    bench.pushed_there(&[(".beads/theirs.txt", "theirs\n")]);
    daemon.signal(Signal::SIGUSR1);
    std::thread::sleep(Duration::from_millis(200));
    fs::remove_file(&stop).expect("let the hook go on");
    wait_until(PATIENCE, "two cycles", || {
        bench.log().matches("Starting sync cycle...").count() >= 2
    });
    end(daemon);
}

/// After many loose objects of its own the agent has them packed, beside its cycles.
#[test]
fn many_loose_objects_are_packed() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    for n in 0..2_100 {
        bench.write(&format!(".beads/many/{n}.txt"), format!("{n}\n"));
    }
    let daemon = Running::start(agent(&bench, "here"));
    let loose = || {
        let counted = bench.git(bench.here(), &["count-objects"]);
        let count = counted.split(' ').next().map(str::parse::<u64>);
        count.expect("a word").expect("a number")
    };
    wait_until(PATIENCE, "the commit", || {
        loose() > 2_000 || bench.log().contains("Committed")
    });
    wait_until(PATIENCE, "few loose objects", || loose() < 100);
    bench.git(bench.here(), &["fsck", "--strict"]);
    end(daemon);
}
