//! A lock that goes away under its holder is noticed, and the command's whole tree is ended.

use std::fs;

use beadlock_tests::{lives, until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::protocol::{NEIGHBOUR, Neighbour};
use crate::site::{Holding, Site};

/// A command with a child, which is in a session of its own.
const TREE: &str = "setsid sh -c 'echo $$ >child; exec sleep 600' & until test -s child; do sleep 0.01; done; \
                    echo >ready; wait";

pub fn tell(site: &Site) {
    a_lock_file_that_is_removed_is_a_loss(site);
    a_lock_file_that_is_replaced_is_a_loss(site);
    a_lock_file_that_is_overwritten_is_a_loss_where_its_text_counts(site);
    with_warn_the_command_runs_on(site);
}

/// Starts a hold of a command with a child; returns that child's PID, too.
fn holding_a_tree(site: &Site, options: &[&str]) -> (Holding, i32) {
    for name in ["child", "ready"] {
        let _ = fs::remove_file(site.scene.file(name));
    }
    let holding = site.holding(options, TREE);
    until("the tree stands", || site.scene.file("ready").exists());
    (holding, site.scene.pid_in("child"))
}

fn a_lock_file_that_is_removed_is_a_loss(site: &Site) {
    let (holding, child) = holding_a_tree(site, &["--report", "report"]);
    fs::remove_file(site.lock()).expect("it is there");
    is_lost(site, holding, child, "vanished");
    let report: Value = serde_json::from_str(&site.scene.read("report")).expect("a report");
    crate::envelope::is_error(&report, "LOCK_LOST", &[]);
    site.assert_free();
}

fn a_lock_file_that_is_replaced_is_a_loss(site: &Site) {
    let (holding, child) = holding_a_tree(site, &[]);
    let text = another_lock(site);
    fs::write(site.scene.file("new"), &text).expect("write another lock");
    fs::rename(site.scene.file("new"), site.lock()).expect("over the lock file");
    is_lost(site, holding, child, site.protocol.lock_file);
    assert_eq!(
        site.bytes(),
        Some(text.into_bytes()),
        "what is there now stays"
    );
    fs::remove_file(site.lock()).expect("it is there");
}

fn a_lock_file_that_is_overwritten_is_a_loss_where_its_text_counts(site: &Site) {
    let (holding, child) = holding_a_tree(site, &[]);
    if site.protocol.record.is_empty() {
        site.put("a note");
        site.assert_held();
        holding.beadlock.signal(Signal::SIGTERM);
        assert_eq!(holding.beadlock.end().code, 143, "the lock was not lost");
        fs::remove_file(site.lock()).expect("it is there");
        return;
    }
    let text = another_lock(site);
    site.put(&text);
    is_lost(site, holding, child, NEIGHBOUR);
    assert_eq!(
        site.bytes(),
        Some(text.into_bytes()),
        "what is there now stays"
    );
    fs::remove_file(site.lock()).expect("it is there");
}

/// The text of another tool's lock.
fn another_lock(site: &Site) -> String {
    match site.protocol.neighbour {
        Neighbour::Writes(text) => text(site.gone()),
        Neighbour::Locks(_) => String::new(),
    }
}

#[track_caller]
fn is_lost(site: &Site, holding: Holding, child: i32, cause: &str) {
    let ended = holding.beadlock.end();
    assert_eq!(ended.code, 9, "{ended:?}");
    let said = format!("error: lost the lock of {} after ", site.protocol.target);
    assert!(
        ended.err.contains(&said) && ended.err.contains(cause),
        "{ended:?}"
    );
    assert!(
        ended.err.contains(&site.lock_path()),
        "it names the lock file: {ended:?}"
    );
    assert!(
        !lives(holding.command) && !lives(child),
        "the whole tree has ended: {ended:?}"
    );
}

fn with_warn_the_command_runs_on(site: &Site) {
    let holding = site.holding(
        &["--on-loss", "warn"],
        "until test -e go; do sleep 0.02; done; echo worked on",
    );
    fs::remove_file(site.lock()).expect("it is there");
    until("the loss is noticed", || {
        holding.beadlock.err().contains("the lock is lost")
    });
    assert!(lives(holding.command));
    let ended = site.hold(&["--no-wait"], "echo has it");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "what is lost is free: {ended:?}"
    );
    site.go();
    let ended = holding.beadlock.end();
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (9, "worked on\n"),
        "{ended:?}"
    );
}
