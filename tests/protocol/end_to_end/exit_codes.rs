//! The exit codes (docs/design.md#exit-codes), each by the real program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Scene, lives, lock_text, run, this_host, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A lock of somebody who lives for as long as this test.
fn live_lock() -> String {
    lock_text("vc-executor", std::process::id().into(), &this_host())
}

#[test]
fn exit_0_done() {
    let scene = Scene::new();
    let ended = scene.run(&[
        "hold",
        "--",
        "sh",
        "-c",
        "echo said; test -e .beads/.exclusive-lock",
    ]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "said\n"), "{ended:?}");
    assert_eq!(
        ended.err.lines().count(),
        2,
        "one line for claimed, one for released: {ended:?}"
    );
    let quiet = scene.run(&["hold", "-q", "--", "true"]);
    assert_eq!(
        (quiet.code, quiet.out.as_str(), quiet.err.as_str()),
        (0, "", "")
    );
    assert_eq!(scene.run(&["status"]).code, 0);
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

#[test]
fn exit_1_failed() {
    let scene = Scene::new();
    let ended = scene.run(&["hold", "nowhere/.beads", "--", "touch", "ran"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("nowhere/.beads"), "{ended:?}");
    assert!(!scene.path().join("ran").exists());
}

#[test]
fn exit_2_usage() {
    let scene = Scene::new();
    for args in [
        &["hold"][..],
        &["hold", "--no-such-option", "--", "true"],
        &["frobnicate"],
        &["hold", "--wait", "x", "--", "true"],
    ] {
        let ended = scene.run(args);
        assert_eq!(
            (ended.code, ended.out.as_str()),
            (2, ""),
            "{args:?}: {ended:?}"
        );
        assert!(!ended.err.is_empty());
    }
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

#[test]
fn exit_4_drain_timeout() {
    let scene = Scene::new();
    let gate = scene.take_gate();
    let begun = Instant::now();
    let ended = scene.run(&["hold", "--drain", "300ms", "--", "touch", "ran"]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(
        begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < Duration::from_secs(10)
    );
    assert!(
        ended.err.contains(&std::process::id().to_string()),
        "it names who has the gate: {ended:?}"
    );
    let (code, envelope) = scene.json(&["hold", "--no-wait", "--", "touch", "ran"]);
    assert_eq!(
        (code, envelope["error"]["code"].as_str()),
        (4, Some("DRAIN_TIMEOUT")),
        "{envelope}"
    );
    drop(gate);
    assert_eq!(scene.names(), ["issues.jsonl"]);
    assert!(!scene.path().join("ran").exists());
}

#[test]
fn exit_5_not_checkable() {
    let scene = Scene::new();
    scene.write_lock("{\"holder\":");
    let begun = Instant::now();
    let (code, envelope) = scene.json(&["hold", "--", "touch", "ran"]);
    assert_eq!(
        (code, envelope["error"]["code"].as_str()),
        (5, Some("LOCK_UNREADABLE")),
        "{envelope}"
    );
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "a writer may be at it: two seconds of patience"
    );
    assert_eq!(scene.lock_text(), "{\"holder\":", "never overwritten");
    assert!(!scene.path().join("ran").exists());
}

#[test]
fn exit_commands_own() {
    let scene = Scene::new();
    for code in [1, 2, 4, 5, 9, 42, 125] {
        assert_eq!(
            scene
                .run(&["hold", "-q", "--", "sh", "-c", &format!("exit {code}")])
                .code,
            code
        );
    }
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

/// The process that is to become the command is killed while the claim waits for somebody else's lock. The claim may
/// notice that before or after the lock is free, and says the same.
#[test]
fn exit_125_not_started() {
    let scene = Scene::new();
    scene.write_lock(live_lock());
    let hold = scene.start(&["hold", "--", "touch", "ran"]);
    let mut child = None;
    wait_until(
        PATIENCE,
        "the process that waits to become the command",
        || {
            child = children_of(hold.pid()).first().copied();
            child.is_some()
        },
    );
    let child = child.expect("just found");
    kill(Pid::from_raw(child), Signal::SIGKILL).expect("kill it");
    // Until then it may still hear that the lock is free.
    wait_until(PATIENCE, "its end", || !lives(child));
    fs::remove_file(scene.lock()).expect("release the other lock");
    let ended = Ended::from(hold.finish(PATIENCE));
    assert_eq!(ended.code, 125, "{ended:?}");
    assert!(!scene.path().join("ran").exists());
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

fn children_of(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn exit_126_cannot_execute() {
    let scene = Scene::new();
    let file = scene.path().join("not-a-program");
    fs::write(&file, "no program").expect("write it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
    let ended = scene.run(&["hold", "--", "./not-a-program"]);
    assert_eq!(ended.code, 126, "{ended:?}");
    assert!(ended.err.contains("not-a-program"), "{ended:?}");
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

/// Said at once, although the gate is busy and the lock held.
#[test]
fn exit_127_not_found() {
    let scene = Scene::new();
    scene.write_lock(live_lock());
    let _gate = scene.take_gate();
    let begun = Instant::now();
    let ended = scene.run(&["hold", "--", "no-such-program"]);
    assert_eq!(ended.code, 127, "{ended:?}");
    assert!(ended.err.contains("no-such-program"), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(5), "before any wait");
}

#[test]
fn exit_128_and_the_signal() {
    let scene = Scene::new();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("USR1", 138)] {
        assert_eq!(
            scene
                .run(&[
                    "hold",
                    "-q",
                    "--",
                    "sh",
                    "-c",
                    &format!("kill -{signal} $$")
                ])
                .code,
            code
        );
    }
    assert_eq!(scene.names(), ["issues.jsonl"]);
}

#[test]
fn exit_own_and_conflict_codes() {
    let scene = Scene::new();
    scene.write_lock(live_lock());
    let code = |args: &[&str]| {
        scene
            .run(&[&["hold", "--no-wait"], args, &["--", "sh", "-c", "exit 3"]].concat())
            .code
    };
    assert_eq!(code(&["--own-exit-code", "77"]), 77);
    assert_eq!(code(&["--conflict-exit-code", "75"]), 75);
    fs::remove_file(scene.lock()).expect("release");
    assert_eq!(
        code(&["--own-exit-code", "77", "--conflict-exit-code", "75"]),
        3,
        "the command's own stays"
    );
}

#[test]
fn exit_of_an_agent_once() {
    let scene = Scene::new();
    let once = |exec: &str| {
        Ended::from(run(
            scene.agent(&["--db", ".beads", "--once", "--exec", exec])
        ))
    };
    assert_eq!(once("true").code, 0);
    assert_eq!(once("exit 3").code, 1, "a cycle failed");
    scene.write_lock(live_lock());
    assert_eq!(once("touch ran").code, 4);
    scene.write_lock("{");
    assert_eq!(once("touch ran").code, 5);
    assert!(!scene.path().join("ran").exists());
}

#[test]
fn exit_of_an_agent_after_its_cycle() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scene = Scene::new();
        let exec = "touch begun; sleep 0.7; touch ended";
        let agent = scene.start_agent(&["--db", ".beads", "--interval", "60s", "--exec", exec]);
        wait_until(PATIENCE, "the cycle begins", || {
            scene.path().join("begun").exists()
        });
        agent.signal(signal);
        let ended = Ended::from(agent.finish(PATIENCE));
        assert_eq!(ended.code, 0, "{ended:?}");
        assert!(
            scene.path().join("ended").exists(),
            "the running cycle is not cut short"
        );
    }
}
