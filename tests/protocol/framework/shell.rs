//! From the shell: `beadlock hold lock:PATH -- CMD` and its neighbours.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_tests::process::watches;
use beadlock_tests::seed::LockHeld;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, become_subreaper, binaries, reap, wait_until};
use jiff::SignedDuration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{told, write_lock};

const TARGET: &str = "lock:deploy.lock";

fn lock(scene: &Scene) -> PathBuf {
    scene.path().join("deploy.lock")
}

/// The PID that the lock names, once it is there.
fn holder(scene: &Scene) -> i32 {
    wait_until(PATIENCE, "a lock", || lock(scene).exists());
    let text = fs::read(lock(scene)).expect("the lock is there");
    let record: Value = serde_json::from_slice(&text).expect("the lock is JSON");
    record["pid"]
        .as_i64()
        .and_then(|pid| pid.try_into().ok())
        .expect("the lock has a pid")
}

#[test]
fn the_answer_expected_here_is_the_one_of_the_document() {
    let Some(seed) = LockHeld::of_the_seed() else {
        return;
    };
    assert_eq!(seed.alike(), LockHeld::ALIKE);
}

/// `hold`, typed as the document has it, and `acquire` without any wait typed.
#[test]
fn a_wait_that_runs_out_is_the_documents_answer() {
    let scene = Scene::new();
    let begun = Instant::now();
    write_lock(&lock(&scene), SignedDuration::from_secs(2));
    let hold = scene.start(&[
        "hold", TARGET, "--wait", "10s", "--json", "--", "touch", "ran",
    ]);
    let acquire = scene.start(&["acquire", TARGET, "--json"]);
    let mut requests = Vec::new();
    for waiting in [hold, acquire] {
        let ended = Ended::from(waiting.finish(Duration::from_secs(60)));
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(10), "{ended:?}");
        assert_eq!((ended.code, ended.out.lines().count()), (4, 1), "{ended:?}");
        let answer = LockHeld::parse(&ended.out);
        assert_eq!(answer.alike(), LockHeld::ALIKE);
        assert!(
            ended.out.contains("— acquisition timed out after 10s\""),
            "{ended:?}"
        );
        assert_eq!(answer.holder(), i64::from(std::process::id()));
        let age = Duration::from_millis(answer.age_ms().unsigned_abs());
        assert!(
            (12..=2 + took.as_secs() + 1).contains(&age.as_secs()),
            "after {took:?}: {ended:?}"
        );
        assert!(
            answer.envelope["meta"]["duration_ms"].as_u64() >= Some(10_000),
            "{ended:?}"
        );
        requests.push(answer.envelope["meta"]["request_id"].clone());
    }
    assert_ne!(
        requests[0], requests[1],
        "each request has an id of its own"
    );
    assert!(lock(&scene).exists() && !scene.path().join("ran").exists());
}

#[test]
fn who_does_not_wait_gets_the_same_answer_at_once() {
    let scene = Scene::new();
    write_lock(&lock(&scene), SignedDuration::from_secs(2));
    for words in [
        &["hold", TARGET, "--no-wait", "--json", "--", "touch", "ran"][..],
        &["acquire", TARGET, "--no-wait", "--json"],
        &["acquire", TARGET, "--no-wait", "--detach", "--json"],
        &["wait", TARGET, "--wait", "0", "--json"],
    ] {
        let ended = scene.run(words);
        assert_eq!(ended.code, 4, "{words:?}: {ended:?}");
        assert_eq!(
            LockHeld::parse(&ended.out).alike(),
            LockHeld::ALIKE.replace("after 10s", "after 0ms")
        );
    }
    assert!(!scene.path().join("ran").exists());
}

#[test]
fn every_refusal_says_when_to_come_back_by_the_age_of_the_lock() {
    let scene = Scene::new();
    let after = |words: &[&str]| {
        let (code, envelope) = scene.json(words);
        assert_eq!(
            (code, &envelope["error"]["retryable"]),
            (4, &true.into()),
            "{words:?}: {envelope}"
        );
        envelope["error"]["retry_after_ms"]
            .as_u64()
            .expect("milliseconds")
    };
    for age in [-1000, 1, 40, 600] {
        let begun = Instant::now();
        write_lock(&lock(&scene), SignedDuration::from_secs(age));
        write_lock(&scene.lock(), SignedDuration::from_secs(age));
        for words in [
            &["hold", TARGET, "--no-wait", "--", "true"][..],
            &["acquire", TARGET, "--no-wait"],
            &["wait", TARGET, "--wait", "0"],
            &["hold", ".beads", "--no-wait", "--", "true"],
            &["wait", ".beads", "--wait", "0"],
            &["cycle", ".beads", "--", "true"],
        ] {
            let said = after(words);
            let (least, most) = told(age, begun.elapsed());
            assert!(
                (least..=most).contains(&said),
                "{words:?}: {said} of {least} to {most} at {age}s"
            );
        }
    }
}

/// One that waits is there before the holder is killed; the other comes afterwards.
#[test]
fn a_killed_holder_is_taken_over_at_once() {
    become_subreaper();
    let scene = Scene::new();
    let mut killed = scene.start(&["hold", TARGET, "--", "sleep", "1000"]);
    let command = holder(&scene);
    let script = format!(
        "exec '{}' hold {TARGET} --wait 1h -- sleep 1000 2>said",
        binaries::beadlock().display()
    );
    let mut waiting = Running::start(scene.shell(&script));
    let said = || fs::read_to_string(scene.path().join("said")).unwrap_or_default();
    wait_until(PATIENCE, "it waits", || said().contains("waiting"));
    // At once, and not by looking now and then.
    wait_until(PATIENCE, "it waits for the command", || {
        watches(waiting.pid(), command)
    });
    let kill_all = |beadlock: &mut Running, command: i32| {
        beadlock.signal(Signal::SIGKILL);
        beadlock.wait(PATIENCE);
        kill(Pid::from_raw(command), Signal::SIGKILL).expect("the command lives on");
        reap(command, PATIENCE);
    };
    kill_all(&mut killed, command);
    // Of the hour that it may wait: a moment.
    let took = wait_until(PATIENCE, "the waiting one has it", || {
        said().contains("claimed")
    });
    println!("taken over {took:?} after the kill");
    assert!(
        said().contains("removed stale lock of sleep (PID "),
        "{}",
        said()
    );
    let second = holder(&scene);
    assert_ne!(second, command);

    kill_all(&mut waiting, second);
    let ended = scene.run(&["hold", TARGET, "--no-wait", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!lock(&scene).exists());
}

/// A PID answers until somebody has asked how its process ended, and nothing tells when that is. One fast round is
/// enough: the machine may be busy.
#[test]
fn a_killed_holder_that_is_reaped_late_is_taken_over_when_it_is() {
    let scene = Scene::new();
    let is_fast = |_| {
        let mut holder = Command::new("sleep").arg("1000").spawn().expect("sleep");
        let acquired = scene.run(&["acquire", TARGET, "--for", &holder.id().to_string()]);
        assert_eq!(acquired.code, 0, "{acquired:?}");
        let waiting = scene.start(&["hold", TARGET, "--wait", "1h", "--", "true"]);
        std::thread::sleep(Duration::from_millis(300));
        holder.kill().expect("it lives");
        // By now the schedule alone would look every second or two.
        std::thread::sleep(Duration::from_millis(1700));
        holder.wait().expect("a child");
        let reaped = Instant::now();
        assert_eq!(Ended::from(waiting.finish(PATIENCE)).code, 0);
        reaped.elapsed() < Duration::from_millis(500)
    };
    assert!((0..8).any(is_fast), "never within half a second");
}

#[test]
fn the_lock_goes_with_the_command_however_that_ends() {
    let scene = Scene::new();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)] {
        let ended = scene.run(&[
            "hold",
            TARGET,
            "--",
            "sh",
            "-c",
            &format!("test -e deploy.lock && {script}"),
        ]);
        assert_eq!(
            (ended.code, lock(&scene).exists()),
            (code, false),
            "{script}: {ended:?}"
        );
    }
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let held = scene.start(&["hold", TARGET, "--", "sleep", "1000"]);
        let _ = holder(&scene);
        held.signal(signal);
        let ended = Ended::from(held.finish(PATIENCE));
        assert_eq!(
            (ended.code, lock(&scene).exists()),
            (code, false),
            "{signal}: {ended:?}"
        );
    }
}

/// A lock that is given up while its command still writes protects nothing, nor one while what it has started does.
#[test]
fn after_sigterm_the_lock_stays_until_the_command_has_ended() {
    let script = "trap 'sleep 0.3; test -e deploy.lock && echo locked >last; exit 0' TERM; echo >ready; \
                  while :; do sleep 0.01; done";
    let by_a_child = format!(
        "sh -c '{}' & while :; do sleep 0.01; done",
        script.replace('\'', "'\\''")
    );
    for script in [script, &by_a_child] {
        let scene = Scene::new();
        let held = scene.start(&["hold", TARGET, "--", "sh", "-c", script]);
        wait_until(PATIENCE, "the command runs", || {
            scene.path().join("ready").exists()
        });
        held.signal(Signal::SIGTERM);
        let ended = Ended::from(held.finish(PATIENCE));
        let last = fs::read_to_string(scene.path().join("last")).unwrap_or_default();
        assert_eq!(
            (last.as_str(), lock(&scene).exists()),
            ("locked\n", false),
            "{script}: {ended:?}"
        );
    }
}
