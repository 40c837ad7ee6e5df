//! From the shell: `beadlock hold lock:PATH -- CMD` and its neighbours.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use beadlock_tests::seed::LockHeld;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, become_subreaper, binaries, reap, wait_until};
use jiff::SignedDuration;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::write_lock;

const TARGET: &str = "lock:deploy.lock";

fn lock(scene: &Scene) -> PathBuf {
    scene.path().join("deploy.lock")
}

/// The PID that the lock names, once it is there.
fn holder(scene: &Scene) -> i32 {
    wait_until(PATIENCE, "a lock", || lock(scene).exists());
    let text = fs::read(lock(scene)).expect("the lock is there");
    let record: Value = serde_json::from_slice(&text).expect("the lock is JSON");
    record["pid"].as_i64().and_then(|pid| pid.try_into().ok()).expect("the lock has a pid")
}

/// `hold`, typed as the document has it, and `acquire` without any wait typed.
#[test]
fn a_wait_that_runs_out_is_the_documents_answer() {
    let Some(seed) = LockHeld::of_the_seed() else { return };
    let scene = Scene::new();
    let begun = Instant::now();
    write_lock(&lock(&scene), SignedDuration::from_secs(2));
    let hold = scene.start(&["hold", TARGET, "--wait", "10s", "--json", "--", "touch", "ran"]);
    let acquire = scene.start(&["acquire", TARGET, "--json"]);
    for waiting in [hold, acquire] {
        let ended = Ended::from(waiting.finish(Duration::from_secs(60)));
        let took = begun.elapsed();
        assert!(took >= Duration::from_secs(10), "{ended:?}");
        assert_eq!((ended.code, ended.out.lines().count()), (4, 1), "{ended:?}");
        let answer = LockHeld::parse(&ended.out);
        assert_eq!(answer.alike(), seed.alike());
        assert!(ended.out.contains("— acquisition timed out after 10s\""), "{ended:?}");
        assert_eq!(answer.holder(), i64::from(std::process::id()));
        let age = Duration::from_millis(answer.age_ms().unsigned_abs());
        assert!((12..=2 + took.as_secs() + 1).contains(&age.as_secs()), "after {took:?}: {ended:?}");
        assert!(answer.envelope["meta"]["duration_ms"].as_u64() >= Some(10_000), "{ended:?}");
    }
    assert!(lock(&scene).exists() && !scene.path().join("ran").exists());
}

#[test]
fn who_does_not_wait_gets_the_same_answer_at_once() {
    let Some(seed) = LockHeld::of_the_seed() else { return };
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
        assert_eq!(LockHeld::parse(&ended.out).alike(), seed.alike().replace("after 10s", "after 0ms"));
    }
    assert!(!scene.path().join("ran").exists());
}

/// The least and the most, in milliseconds, that is said of a lock of this age in seconds, negative for a time to come, `took`
/// after it was as old as that.
fn told(age: i64, took: Duration) -> (u64, u64) {
    let pause = |age: Duration| (age.as_millis() as u64 / 4).clamp(1000, 30_000);
    match u64::try_from(age) {
        Err(_) => (2400, 3600),
        Ok(age) => {
            let age = Duration::from_secs(age);
            ((pause(age) * 4 / 5).max(1000), (pause(age + took) * 6 / 5).min(30_000))
        }
    }
}

#[test]
fn every_refusal_says_when_to_come_back_by_the_age_of_the_lock() {
    let scene = Scene::new();
    let after = |words: &[&str]| {
        let (code, envelope) = scene.json(words);
        assert_eq!((code, &envelope["error"]["retryable"]), (4, &true.into()), "{words:?}: {envelope}");
        envelope["error"]["retry_after_ms"].as_u64().expect("milliseconds")
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
            assert!((least..=most).contains(&said), "{words:?}: {said} of {least} to {most} at {age}s");
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
    let script =
        format!("exec '{}' hold {TARGET} --wait 1h -- sleep 1000 2>said", binaries::beadlock().display());
    let mut waiting = Running::start(scene.shell(&script));
    let said = || fs::read_to_string(scene.path().join("said")).unwrap_or_default();
    wait_until(PATIENCE, "it waits", || said().contains("waiting"));
    let kill_all = |beadlock: &mut Running, command: i32| {
        beadlock.signal(Signal::SIGKILL);
        beadlock.wait(PATIENCE);
        kill(Pid::from_raw(command), Signal::SIGKILL).expect("the command lives on");
        reap(command, PATIENCE);
    };
    kill_all(&mut killed, command);
    // Of the hour that it may wait: a moment.
    let took = wait_until(PATIENCE, "the waiting one has it", || said().contains("claimed"));
    println!("taken over {took:?} after the kill");
    assert!(said().contains("removed stale lock of sleep (PID "), "{}", said());
    let second = holder(&scene);
    assert_ne!(second, command);

    kill_all(&mut waiting, second);
    let ended = scene.run(&["hold", TARGET, "--no-wait", "--", "true"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!lock(&scene).exists());
}

#[test]
fn the_lock_goes_with_the_command_however_that_ends() {
    let scene = Scene::new();
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137)] {
        let ended =
            scene.run(&["hold", TARGET, "--", "sh", "-c", &format!("test -e deploy.lock && {script}")]);
        assert_eq!((ended.code, lock(&scene).exists()), (code, false), "{script}: {ended:?}");
    }
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        let held = scene.start(&["hold", TARGET, "--", "sleep", "1000"]);
        let _ = holder(&scene);
        held.signal(signal);
        let ended = Ended::from(held.finish(PATIENCE));
        assert_eq!((ended.code, lock(&scene).exists()), (code, false), "{signal}: {ended:?}");
    }
}

/// A lock that is given up while its command still writes protects nothing.
#[test]
fn after_sigterm_the_lock_stays_until_the_command_has_ended() {
    let scene = Scene::new();
    let script = "trap 'sleep 0.3; test -e deploy.lock && echo locked >last; exit 0' TERM; echo >ready; \
                  while :; do sleep 0.01; done";
    let held = scene.start(&["hold", TARGET, "--", "sh", "-c", script]);
    wait_until(PATIENCE, "the command runs", || scene.path().join("ready").exists());
    held.signal(Signal::SIGTERM);
    let ended = Ended::from(held.finish(PATIENCE));
    let last = fs::read_to_string(scene.path().join("last")).unwrap_or_default();
    assert_eq!((last.as_str(), lock(&scene).exists()), ("locked\n", false), "{ended:?}");
}
