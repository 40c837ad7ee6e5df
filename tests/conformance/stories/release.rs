//! A claim over several commands ends by its id alone, or with the process that it is for.

use std::collections::HashMap;
use std::fs::File;
use std::process::Stdio;

use beadlock_tests::process::process_is_gone;
use beadlock_tests::{Ended, PATIENCE, Running, until};
use nix::sys::signal::Signal;

use crate::protocol::{ForProcess, Leaves};
use crate::site::Site;

pub fn tell(site: &Site) {
    a_claim_is_released_by_its_id_and_by_nothing_else(site);
    a_claim_for_a_process_ends_with_it(site);
    a_claim_ends_when_its_time_is_over(site);
    a_claim_that_cannot_be_printed_is_not_made(site);
}

/// What `acquire` has printed.
#[track_caller]
fn printed(ended: &Ended) -> HashMap<&str, &str> {
    assert_eq!(ended.code, 0, "{ended:?}");
    let pairs: HashMap<&str, &str> = ended
        .out
        .lines()
        .filter_map(|line| line.split_once('='))
        .collect();
    let mut names: Vec<&&str> = pairs.keys().collect();
    names.sort();
    names.retain(|name| **name != "BEADLOCK_UNTIL");
    assert_eq!(
        names,
        [&"BEADLOCK_ID", &"BEADLOCK_PID", &"BEADLOCK_TARGET"],
        "{ended:?}"
    );
    pairs
}

fn a_claim_is_released_by_its_id_and_by_nothing_else(site: &Site) {
    let ended = site.acquire(&["--detach"]);
    let claim = printed(&ended);
    let (id, target) = (claim["BEADLOCK_ID"], claim["BEADLOCK_TARGET"]);
    site.assert_held();
    assert_eq!(site.id(), id, "status shows the id that acquire prints");
    let before = site.bytes();
    assert_eq!(site.run("release", &[]).code, 2, "without an id");
    let ended = site.run("release", &["--id", "1:2:3"]);
    assert_eq!(ended.code, 9, "another one's: {ended:?}");
    assert_eq!(site.bytes(), before, "it is untouched");
    site.assert_held();

    // From anywhere, by the variables alone.
    let with_the_claim = |args: &[&str]| {
        let mut command = site.plain(args);
        command
            .current_dir("/")
            .env("BEADLOCK_TARGET", target)
            .env("BEADLOCK_ID", id);
        Running::apart(command).end()
    };
    let claim = site.protocol.claim;
    let ended = with_the_claim(
        &[
            &["hold", "-q", "--no-wait"],
            claim,
            &["--", "echo", "nested"],
        ]
        .concat(),
    );
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "nested\n"),
        "{ended:?}"
    );
    let ended = with_the_claim(&[&["acquire", "--no-wait"], claim].concat());
    let nested = printed(&ended)["BEADLOCK_ID"].to_owned();
    assert!(nested.starts_with("nested:"), "{ended:?}");
    assert_eq!(site.run("release", &["--id", &nested]).code, 0);
    site.assert_held();
    let ended = with_the_claim(&["release"]);
    let taken_back = "BEADLOCK_TARGET=\nBEADLOCK_ID=\nBEADLOCK_PID=\n";
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, taken_back),
        "{ended:?}"
    );
    let said = format!("beadlock: {}", site.protocol.released);
    assert!(ended.err.starts_with(&said), "{ended:?}");
    site.assert_free();
    site.assert_tidy();
    site.until_still();
    let ended = site.run("release", &["--id", id]);
    assert_eq!(ended.code, 9, "there is nothing to release: {ended:?}");
    let ended = site.run("release", &["--id", id, "--missing-ok"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.starts_with("beadlock: warning: "), "{ended:?}");
}

fn a_claim_for_a_process_ends_with_it(site: &Site) {
    let subject = site.start_shell("exec sleep 600");
    let pid = subject.pid();
    let ended = site.acquire(&["--for", &pid.to_string()]);
    printed(&ended);
    site.assert_held();
    subject.signal(Signal::SIGKILL);
    drop(subject);
    process_is_gone(pid);
    match site.protocol.for_process {
        ForProcess::LeavesAStaleLock => {
            assert_eq!(site.verdict(), ("stale".to_owned(), "pid_gone".to_owned()));
            assert_eq!(site.run("check", &[]).code, 0);
        }
        ForProcess::IsReleased => match site.protocol.leaves {
            Leaves::Nothing => until("the keeper releases it", || site.bytes().is_none()),
            Leaves::AnEmptyLockFile => until("the keeper releases it", || !site.gate_is_shut()),
        },
    }
    site.until_still();
    site.assert_free();
    site.assert_tidy();
}

fn a_claim_ends_when_its_time_is_over(site: &Site) {
    let ended = site.acquire(&["--detach", "--max-hold", "1s"]);
    printed(&ended);
    site.until_still();
    site.assert_free();
    site.assert_tidy();
}

/// Without its id a claim cannot be released.
fn a_claim_that_cannot_be_printed_is_not_made(site: &Site) {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let mut command = site.command("acquire", &[site.protocol.claim, &["--detach"]].concat());
    command.stdout(full);
    let mut acquire = Running::on(Stdio::null(), command);
    assert_eq!(acquire.wait(PATIENCE).code(), Some(1));
    site.until_still();
    site.assert_free();
    site.assert_tidy();
}
