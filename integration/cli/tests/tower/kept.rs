//! acquire and release: a keeper keeps the lock up.

use std::process::Command;

use beadlock_checker::{Reason, Verdict};
use beadlock_testkit::{Ended, until};

use crate::scene::{INTENT, TARGET, Tower};

fn acquire(tower: &Tower, options: &[&str]) -> Ended {
    tower.run(&[&["acquire", TARGET][..], &INTENT, options].concat())
}

fn sleeper() -> std::process::Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

#[test]
fn it_is_kept_up_until_its_process_ends() {
    let tower = Tower::new();
    let mut process = sleeper();
    let pid = process.id().to_string();
    let ended = acquire(
        &tower,
        &["--for", &pid, "--ttl", "6", "--request-id", "req_1"],
    )
    .expect(0, &["for as long as"]);
    assert_eq!(
        ended.out,
        format!("BEADLOCK_TARGET=tower:app-prod\nBEADLOCK_ID=req_1\nBEADLOCK_PID={pid}\n")
    );
    let first = tower.record();
    assert_eq!(first["pid"].to_string(), pid);
    until("it is renewed", || {
        assert_eq!(tower.look().verdict, Verdict::Held(Reason::HeartbeatFresh));
        tower.record()["last_heartbeat_at"].as_str() > first["last_heartbeat_at"].as_str()
    });
    process.kill().unwrap();
    until("the lock is gone", || !tower.lock().exists());
    process.wait().unwrap();
    until("the event", || tower.event_names().len() == 2);
    assert_eq!(
        tower.event("lock_released")["result"],
        "failure",
        "nobody has said that it is done"
    );
}

#[test]
fn detached_it_is_kept_until_it_is_released() {
    let tower = Tower::new();
    let ended = acquire(
        &tower,
        &["--detach", "--lock-dir", "locks", "--request-id", "req_1"],
    )
    .expect(0, &[]);
    let dir = tower.dir();
    assert!(
        ended
            .out
            .contains(&format!("\nBEADLOCK_LOCK_DIR={}\n", dir.display())),
        "{ended:?}"
    );
    assert_eq!(tower.hold(&[], "true").expect(4, &["held by"]).out, "");
    tower
        .run(&["release", TARGET, "--id", "req_1"])
        .expect(0, &["released"]);
    assert!(tower.names().is_empty());
    assert_eq!(tower.event("lock_released")["result"], "success");
    // More than the command takes, also on a machine that stands still for a moment.
    acquire(&tower, &["--detach", "--max-hold", "3s"]).expect(0, &[]);
    until("its time is over", || !tower.lock().exists());
}

#[test]
fn a_hold_under_it_is_nested() {
    let tower = Tower::new();
    acquire(&tower, &["--detach", "--request-id", "req_1"]).expect(0, &[]);
    let mut command = tower.hold_command(&[], "echo $BEADLOCK_HELD_ID");
    command
        .env("BEADLOCK_ID", "req_1")
        .env("BEADLOCK_TARGET", TARGET);
    assert_eq!(
        beadlock_testkit::Running::apart(command)
            .end()
            .expect(0, &[])
            .out,
        "req_1\n"
    );
    assert!(tower.lock().exists());
    tower
        .run(&["release", TARGET, "--id", "req_1"])
        .expect(0, &[]);
    // The same request may have another lock, and that one is not an outer claim.
    acquire(&tower, &["--detach", "--request-id", "req_1"]).expect(0, &[]);
    let mut other = tower.hold_command(&["--request-id", "req_1"], "true");
    other
        .env("BEADLOCK_ID", "req_1")
        .env("BEADLOCK_TARGET", "tower:other");
    beadlock_testkit::Running::apart(other)
        .end()
        .expect(4, &["held by"]);
    tower
        .run(&["release", TARGET, "--id", "req_1"])
        .expect(0, &[]);
    // And one within a hold: its command belongs to the outer claim, with the outer claim's id and token.
    let script = "said='$BEADLOCK_HELD_ID $BEADLOCK_HELD_IDS $BEADLOCK_WARDS'; eval echo $said; \
                  $BEADLOCK hold tower:app-prod --intent-name x --intent-version 1 --json -- sh -c \"echo $said\"";
    let out = tower
        .hold(&["--request-id", "req_1"], script)
        .expect(0, &[])
        .out;
    let lines: Vec<&str> = out.lines().collect();
    let [outer, inner, ..] = lines[..] else {
        panic!("{out}")
    };
    assert_eq!(outer, inner);
    let words: Vec<&str> = outer.split(' ').collect();
    assert_eq!(words[..2], ["req_1", "req_1@app-prod"]);
    assert!(
        words.len() == 3 && !words[2].contains(':'),
        "one token: {outer}"
    );
    assert!(tower.names().is_empty());
}

#[test]
fn a_release_may_say_that_the_work_has_failed() {
    let tower = Tower::new();
    for (options, result, step) in [
        (&["--failure-step", "s"][..], "failure", Some("s")),
        (&["--result", "failure"], "failure", None),
        (&["--result", "success"], "success", None),
    ] {
        acquire(&tower, &["--detach", "--request-id", "req_1"]).expect(0, &[]);
        tower
            .run(&[&["release", TARGET, "--id", "req_1"][..], options].concat())
            .expect(0, &[]);
        let event = tower.event("lock_released");
        assert_eq!(
            (event["result"].as_str(), event["failure_step"].as_str()),
            (Some(result), step)
        );
    }
    tower
        .run(&[
            "release",
            TARGET,
            "--id",
            "x",
            "--result",
            "success",
            "--failure-step",
            "s",
        ])
        .expect(2, &["which"]);
    tower
        .run(&["release", ".beads", "--id", "x", "--failure-step", "s"])
        .expect(2, &["is for named locks"]);
}

#[test]
fn where_nothing_is_locked_nothing_is_acquired() {
    let tower = Tower::new();
    acquire(&tower, &["--mode", "observe"]).expect(2, &["observe takes no lock"]);
    assert!(tower.names().is_empty());
}

/// Its heart goes on beating: a renewal touches the end alone.
#[test]
fn a_kept_one_can_be_renewed_and_one_for_a_process_cannot() {
    let tower = Tower::new();
    let three_seconds = [
        "--detach",
        "--max-hold",
        "3s",
        "--ttl",
        "6",
        "--request-id",
        "req_1",
    ];
    let begun = std::time::Instant::now();
    acquire(&tower, &three_seconds).expect(0, &[]);
    let renew = ["renew", TARGET, "--id", "req_1", "--max-hold", "8s"];
    tower.run(&renew).expect(0, &["renewed tower:app-prod"]);
    let first = tower.record();
    until("it beats beyond its first end", || {
        assert_eq!(tower.look().verdict, Verdict::Held(Reason::HeartbeatFresh));
        let has_beaten =
            tower.record()["last_heartbeat_at"].as_str() > first["last_heartbeat_at"].as_str();
        has_beaten && begun.elapsed().as_secs() >= 5
    });
    until("the lock is gone", || !tower.lock().exists());
    assert!(begun.elapsed().as_secs() >= 8);
    tower.run(&renew).expect(9, &["was lost"]);
    let mut process = sleeper();
    let pid = process.id().to_string();
    acquire(&tower, &["--for", &pid, "--request-id", "req_1"]).expect(0, &[]);
    tower.run(&renew).expect(4, &["ends with its process"]);
    process.kill().unwrap();
    process.wait().unwrap();
    until("the lock is gone", || !tower.lock().exists());
}
