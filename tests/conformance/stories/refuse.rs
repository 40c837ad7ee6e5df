//! A held lock refuses every other claim, and stays as it is.

use beadlock_tests::Ended;

use crate::envelope::is_error;
use crate::protocol::NEIGHBOUR;
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    the_lock_of_a_hold_refuses_other_claims(site);
    another_tools_lock_refuses_claims(site);
    a_shut_gate_refuses_claims(site);
}

fn the_lock_of_a_hold_refuses_other_claims(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let before = site.bytes();
    let named = named_pid(site, holding.command);
    let ended = refused(site, &["--no-wait"], site.protocol.refusal.exit_code);
    let words = (site.protocol.refusal.at_once)(named);
    assert!(ended.err.contains(&words), "no {words:?} in {ended:?}");
    refused(site, &["--no-wait", "--conflict-exit-code", "75"], 75);
    refused(site, &["--no-wait", "--own-exit-code", "99"], 99);
    let ended = site.acquire(&["--no-wait"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (site.protocol.refusal.exit_code, ""),
        "{ended:?}"
    );
    assert_eq!(site.run("check", &[]).code, 4);
    assert_eq!(site.bytes(), before, "a refused claim changes nothing");
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
    site.assert_tidy();
}

fn another_tools_lock_refuses_claims(site: &Site) {
    let neighbour = site.neighbour();
    let before = site.bytes();
    site.assert_held();
    let ended = refused(site, &["--no-wait"], site.protocol.refusal.exit_code);
    let pid = format!("PID {}", neighbour.pid());
    assert!(
        ended.err.contains(NEIGHBOUR) || ended.err.contains(&pid),
        "it names the holder: {ended:?}"
    );
    let options = site.protocol.takeover.options();
    refused(
        site,
        &[&["--no-wait"], options.as_slice()].concat(),
        site.protocol.refusal.exit_code,
    );
    assert_eq!(site.run("check", &[]).code, 4);
    assert_eq!(site.bytes(), before, "a live lock is never touched");
    drop(neighbour);
}

/// Another program is at work on the lock file.
fn a_shut_gate_refuses_claims(site: &Site) {
    let _ = std::fs::remove_file(site.lock());
    let gate = site.shut_gate();
    let before = site.names();
    let (exit_code, error_code) = site.protocol.refusal.gate_shut;
    let (code, envelope) = site.json(
        "hold",
        &[site.protocol.claim, &["--no-wait", "--", "touch", "ran"]].concat(),
    );
    assert_eq!(code, exit_code, "{envelope}");
    let error = is_error(&envelope, error_code, &[]);
    let message = error["message"].as_str().unwrap_or_default();
    let own = format!("PID {}", std::process::id());
    assert!(
        message.contains(&own),
        "it names the process that has the gate: {message}"
    );
    assert_eq!(
        (site.names(), site.scene.file("ran").exists()),
        (before, false),
        "{envelope}"
    );
    drop(gate);
}

/// A hold that does not run its command.
#[track_caller]
fn refused(site: &Site, options: &[&str], code: i32) -> Ended {
    let ended = site.hold(options, "touch ran");
    assert_eq!((ended.code, ended.out.as_str()), (code, ""), "{ended:?}");
    assert!(!site.scene.file("ran").exists(), "{ended:?}");
    assert!(!ended.err.contains("beadlock: claimed "), "{ended:?}");
    ended
}

/// The PID that a refusal names: that in the lock file, else the process that has the flock.
fn named_pid(site: &Site, command: i32) -> i32 {
    let pid = site.record()["pid"]
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok());
    pid.inspect(|pid| assert_eq!(*pid, command, "the lock names the command"))
        .unwrap_or_default()
}
