//! Section 8 (docs/protocols/tower.md#the-requirements): how a lock ends.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use beadlock_testkit::{Ended, Running, as_nobody};
use nix::sys::signal::Signal;

use crate::scene::{INTENT, TARGET, Tower};

#[test]
fn a_command_that_ends_well_releases() {
    let tower = Tower::new();
    tower
        .hold(&[], "true")
        .expect(0, &["released tower:app-prod"]);
    assert!(tower.names().is_empty());
    assert_eq!(tower.event("lock_released")["result"], "success");
}

#[test]
fn a_command_that_fails_releases() {
    let tower = Tower::new();
    tower
        .hold(&[], "exit 7")
        .expect(7, &["released tower:app-prod"]);
    assert!(tower.names().is_empty());
    assert_eq!(tower.event("lock_released")["result"], "failure");
}

#[test]
fn a_signal_releases() {
    let tower = Tower::new();
    let holder = tower.holding(&[], "exec sleep 60");
    holder.signal(Signal::SIGTERM);
    holder.end().expect(143, &["released tower:app-prod"]);
    assert!(tower.names().is_empty());
    assert_eq!(tower.event("lock_released")["result"], "failure");
}

#[test]
fn the_step_is_typed_or_in_the_result_file() {
    let tower = Tower::new();
    let step = |options: &[&str], script: &str| {
        let ended = tower.hold(options, script);
        assert!(
            !ended.out.trim().is_empty() && !fs::exists(ended.out.trim()).unwrap(),
            "{ended:?}"
        );
        tower.event("lock_released")["failure_step"]
            .as_str()
            .map(str::to_owned)
    };
    let written =
        "echo $BEADLOCK_RESULT_FILE; printf 'migrate db\\nmore' >$BEADLOCK_RESULT_FILE; exit 1";
    assert_eq!(step(&[], written).as_deref(), Some("migrate db"));
    assert_eq!(
        step(&["--failure-step", "typed"], written).as_deref(),
        Some("typed")
    );
    assert_eq!(step(&[], "echo $BEADLOCK_RESULT_FILE; exit 1"), None);
    assert_eq!(
        step(&["--failure-step", "typed"], "echo $BEADLOCK_RESULT_FILE"),
        None,
        "nothing has failed"
    );
}

#[test]
fn the_result_file_may_be_the_callers_own_and_what_was_in_it_does_not_count() {
    let tower = Tower::new();
    let file = tower.scene.file("result");
    let step = |script: &str| {
        let mut command = tower.hold_command(&[], script);
        command.env("BEADLOCK_RESULT_FILE", &file);
        Running::apart(command).end().expect(1, &[]);
        tower.event("lock_released").get("failure_step").cloned()
    };
    assert_eq!(step("echo migrate >result; exit 1"), Some("migrate".into()));
    assert_eq!(step("exit 1"), None, "that was the run before");
    assert_eq!(
        step("echo restart >$BEADLOCK_RESULT_FILE; exit 1"),
        Some("restart".into())
    );
    assert_eq!(tower.scene.read("result"), "restart\n", "it stays");
    let beadlock = env!("CARGO_BIN_EXE_beadlock");
    let below = "-- sh -c 'echo inner >$BEADLOCK_RESULT_FILE; exit 1'; exit 1";
    let script =
        format!("'{beadlock}' hold tower:inner --intent-name i --intent-version 1 {below}");
    assert_eq!(step(&script), None, "a hold below has its own");
}

/// Held by a user that may not write its directory any more, with a command that ends with 3. None: this is not root.
pub fn stuck(tower: &Tower) -> Option<Ended> {
    chown(tower.dir(), Some(65534), Some(65534)).ok()?;
    chown(tower.scene.path(), Some(65534), Some(65534)).ok()?;
    let script = "echo $$ >pid; while test ! -e go; do sleep 0.05; done; exit 3";
    let mut command = tower.hold_command(&[], script);
    if !as_nobody(&mut command) {
        return None;
    }
    let holder = Running::apart(command);
    tower.scene.pid_in("pid");
    chown(tower.dir(), Some(0), Some(0)).unwrap();
    fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tower.scene.file("go"), "").unwrap();
    Some(holder.end())
}

#[test]
fn a_lock_that_cannot_be_removed_is_said() {
    let tower = Tower::new();
    let Some(ended) = stuck(&tower) else { return };
    ended.expect(
        3,
        &[
            "the lock was not released",
            "EACCES: permission denied",
            "beadlock break tower:app-prod",
        ],
    );
    assert!(tower.lock().exists());
}

#[test]
fn a_missing_lock_is_a_loss_unless_that_is_accepted() {
    let tower = Tower::new();
    tower
        .run(&["release", TARGET, "--id", "req_1"])
        .expect(9, &["error:", "app-prod.lock is not there any more"]);
    tower
        .run(&["release", TARGET, "--id", "req_1", "--missing-ok"])
        .expect(0, &["warning:", "app-prod.lock is not there any more"]);
    fs::remove_dir(tower.dir()).unwrap();
    tower
        .run(&["release", TARGET, "--id", "req_1"])
        .expect(9, &["is not there any more"]);
    assert!(!tower.dir().exists());
}

#[test]
fn another_requests_lock_stays() {
    let tower = Tower::new();
    for silent in [30, 1000] {
        tower.write(silent);
        let before = fs::read(tower.lock()).unwrap();
        tower
            .run(&["release", TARGET, "--id", "req_1"])
            .expect(9, &["is claude-code's", "was not touched"]);
        assert_eq!(fs::read(tower.lock()).unwrap(), before);
    }
    tower
        .run(&[&["release", TARGET][..], &INTENT].concat())
        .expect(2, &[]);
}
