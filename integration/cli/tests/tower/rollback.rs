//! Section 8.2 (docs/protocols/tower.md#the-requirements): what undoes a failure.

use nix::sys::signal::Signal;

use crate::scene::Tower;

#[test]
fn it_runs_under_the_lock_after_a_failure() {
    let tower = Tower::new();
    let undo = "test -e $LOCK && echo undo $BEADLOCK_FAILURE_STEP; cat $LOCK >during";
    let ended = tower.hold(
        &["--ttl", "30", "--rollback", undo],
        "cat $LOCK >before; echo two >$BEADLOCK_RESULT_FILE; exit 7",
    );
    let ended = ended.expect(7, &["rolling back", "the rollback has ended", "released"]);
    assert_eq!(ended.out, "undo two\n");
    let id = |file: &str| crate::scene::parsed(&tower.scene.read(file))["request_id"].clone();
    assert_eq!(id("before"), id("during"));
    assert_eq!(tower.event("lock_released")["failure_step"], "two");
    assert!(tower.names().is_empty());
}

#[test]
fn it_is_kept_up_meanwhile_and_runs_after_a_signal_too() {
    let tower = Tower::new();
    // Without a heartbeat it would never end.
    let undo = "cp $LOCK first; cp $LOCK last; while cmp -s first last; do sleep 0.05; cp $LOCK last; done";
    let holder = tower.holding(&["--ttl", "6", "--rollback", undo], "exec sleep 60");
    holder.signal(Signal::SIGTERM);
    holder.end().expect(143, &["the rollback has ended"]);
    let beat =
        |file: &str| crate::scene::parsed(&tower.scene.read(file))["last_heartbeat_at"].clone();
    assert_ne!(beat("first"), beat("last"));
}

#[test]
fn it_does_not_run_after_a_success() {
    let tower = Tower::new();
    let ended = tower
        .hold(&["--rollback", "touch undone"], "true")
        .expect(0, &[]);
    assert!(!tower.scene.file("undone").exists(), "{ended:?}");
}

#[test]
fn one_that_fails_releases_all_the_same() {
    let tower = Tower::new();
    for undo in ["exit 9", "kill -9 $$", "no-such-command-at-all"] {
        tower.hold(&["--rollback", undo], "exit 7").expect(
            7,
            &["warning: the rollback failed", "released tower:app-prod"],
        );
        assert!(tower.names().is_empty());
        assert_eq!(tower.event("lock_released")["result"], "failure");
    }
}
