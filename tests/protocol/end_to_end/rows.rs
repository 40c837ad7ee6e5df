//! The table of the beads protocol (docs/design.md#the-beads-rule), row by row: what `beadlock check` and one cycle of
//! the agent say.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Command, Stdio};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Scene, dead_pid, lock_text, may_be_root, run, skip, this_host, tool};
use serde_json::Value;

const LOCKED: &str = "Skipping database (locked by vc-executor)";
const REMOVED: &str = "Removed stale lock (vc-executor), proceeding with sync";
const IN_PROGRESS: &str = "Skipping database (a sync cycle or a claim is in progress)";

/// A PID that lives for as long as this test.
fn live_pid() -> i64 {
    std::process::id().into()
}

/// Runs a `check --json`, and asserts decision, reason and exit code. Returns the message.
#[track_caller]
fn answer(check: Command, decision: &str, reason: &str, code: i32) -> String {
    let ended = Ended::from(run(check));
    let envelope: Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
    let data = &envelope["data"][0];
    assert_eq!(
        (data["decision"].as_str(), data["reason"].as_str()),
        (Some(decision), Some(reason)),
        "{ended:?}"
    );
    assert_eq!(
        (envelope["ok"].as_bool(), ended.code),
        (Some(true), code),
        "{ended:?}"
    );
    data["message"].as_str().expect("a message").to_owned()
}

/// A row that skips: check, check `--json` and the agent's log all say `line` (or begin with it, where the rest
/// is the system's words), and nothing is changed.
#[track_caller]
fn skips(scene: &Scene, reason: &str, line: &str, code: i32) {
    let before = fs::read(scene.lock()).ok();
    let message = answer(scene.beadlock(&["check", "--json"]), "skip", reason, code);
    assert!(
        message.starts_with(line),
        "{message:?} does not begin with {line:?}"
    );
    assert!(
        line.contains(": ") || message == line,
        "{message:?} is more than {line:?}"
    );
    let text = scene.run(&["check"]);
    assert_eq!((text.out, text.code), (format!("{message}\n"), code));
    let agent = Ended::from(run(
        scene.agent(&["--db", ".beads", "--once", "--action", "none"])
    ));
    assert_eq!(agent.code, code, "agent --once: {agent:?}");
    let log = scene.log();
    assert!(
        log.contains(&format!("] {message}\n")),
        "{message:?} is not in the log:\n{log}"
    );
    assert!(
        !log.contains("Starting sync cycle..."),
        "a cycle ran:\n{log}"
    );
    assert_eq!(fs::read(scene.lock()).ok(), before, "the lock was touched");
}

#[test]
fn no_lock() {
    let scene = Scene::new();
    assert_eq!(
        answer(
            scene.beadlock(&["check", "--json"]),
            "proceed",
            "no_lock",
            0
        ),
        ""
    );
    let text = scene.run(&["check"]);
    assert_eq!(
        (text.out.as_str(), text.err.as_str(), text.code),
        ("", "", 0)
    );
    assert_eq!(
        run(scene.agent(&["--db", ".beads", "--once", "--action", "none"]))
            .status
            .code(),
        Some(0)
    );
    let log = scene.log();
    let (start, end) = (
        log.find("Starting sync cycle..."),
        log.find("Sync cycle complete"),
    );
    assert!(start.is_some() && start < end, "{log}");
    assert!(
        !log.contains("Skipping") && !log.contains("Removed"),
        "{log}"
    );
}

#[test]
fn pid_alive() {
    let scene = Scene::new();
    scene.write_lock(lock_text(
        "vc-executor",
        live_pid(),
        &this_host().to_uppercase(),
    ));
    skips(&scene, "pid_alive", LOCKED, 4);
}

#[test]
fn pid_not_permitted() {
    let scene = Scene::new();
    // Root looks at this test as the user nobody; everybody else at a process of another user.
    let pid = if may_be_root() {
        Some(live_pid())
    } else {
        another_users_pid()
    };
    let Some(pid) = pid else {
        return skip::cannot("finds no process of another user");
    };
    scene.write_lock(lock_text("vc-executor", pid, &this_host()));
    let Some(check) = scene.beadlock_as_mortal(&["check", ".beads", "--json"]) else {
        return;
    };
    assert_eq!(answer(check, "skip", "pid_not_permitted", 4), LOCKED);
    assert!(scene.lock().exists());
}

fn another_users_pid() -> Option<i64> {
    let pids =
        (1..1000).filter_map(|pid| Some((pid, fs::metadata(format!("/proc/{pid}")).ok()?.uid())));
    let mine = fs::metadata("/proc/self").ok()?.uid();
    pids.filter(|(_, uid)| *uid != mine)
        .map(|(pid, _)| pid)
        .next()
}

#[test]
fn pid_gone() {
    let scene = Scene::new();
    scene.write_stale_lock("vc-executor");
    assert_eq!(
        answer(
            scene.beadlock(&["check", "--json"]),
            "proceed",
            "pid_gone",
            0
        ),
        REMOVED
    );
    assert_eq!(scene.names(), ["issues.jsonl"]);

    scene.write_stale_lock("vc-executor");
    let text = scene.run(&["check"]);
    assert_eq!((text.out, text.code), (format!("{REMOVED}\n"), 0));

    scene.write_stale_lock("vc-executor");
    assert_eq!(
        run(scene.agent(&["--db", ".beads", "--once", "--action", "none"]))
            .status
            .code(),
        Some(0)
    );
    let log = scene.log();
    let (removed, start) = (
        log.find(&format!("] {REMOVED}\n")),
        log.find("Starting sync cycle..."),
    );
    assert!(removed.is_some() && removed < start, "{log}");
    assert!(!scene.lock().exists());
}

#[test]
fn pid_gone_dry_run() {
    let scene = Scene::new();
    scene.write_stale_lock("vc-executor");
    let message = answer(
        scene.beadlock(&["check", "--dry-run", "--json"]),
        "proceed",
        "pid_gone",
        0,
    );
    assert_eq!(
        message,
        "Stale lock (vc-executor) would be removed, proceeding with sync"
    );
    assert!(scene.lock().exists());
}

#[test]
fn gate_busy() {
    let scene = Scene::new();
    scene.write_stale_lock("vc-executor");
    let _gate = scene.take_gate();
    skips(&scene, "gate_busy", IN_PROGRESS, 4);
}

/// A directory that may be read and not written: for root another user's eyes, for anybody else his own.
#[test]
fn removal_failed() {
    let scene = Scene::new();
    scene.write_stale_lock("vc-executor");
    let Some(check) = scene.beadlock_as_mortal(&["check", ".beads", "--json"]) else {
        return;
    };
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o555)).expect("chmod");
    let message = answer(check, "skip", "removal_failed", 5);
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o755)).expect("chmod");
    let expected = "Skipping database (lock check failed: failed to remove stale lock: ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(scene.names(), [".exclusive-lock", "issues.jsonl"]);
}

#[test]
fn pid_unknown() {
    let scene = Scene::new();
    for pid in [1_i64 << 31, i64::MAX] {
        scene.write_lock(lock_text("vc-executor", pid, &this_host()));
        let _ = fs::remove_file(scene.beads().join("daemon.log"));
        skips(&scene, "pid_unknown", LOCKED, 4);
    }
}

#[test]
fn other_host() {
    let scene = Scene::new();
    scene.write_lock(lock_text(
        "vc-executor",
        dead_pid().into(),
        "some-other-host.example",
    ));
    skips(&scene, "other_host", LOCKED, 4);
}

/// A machine without a name, in a UTS namespace of its own.
#[test]
fn host_unknown() {
    if tool("python3").is_none() {
        return;
    }
    let scene = Scene::new();
    scene.write_lock(lock_text("vc-executor", dead_pid().into(), &this_host()));
    let script =
        "python3 -c 'import socket; socket.sethostname(\"\")' && exec \"$BEADLOCK\" check --json";
    let Some(check) = scene.in_namespaces(&["--uts"], script) else {
        return;
    };
    assert_eq!(answer(check, "skip", "host_unknown", 4), LOCKED);
    assert!(scene.lock().exists());
}

/// A record as beadlock writes it, of a process that is gone, with one of its witnesses changed.
fn record_with(scene: &Scene, key: &str, change: impl Fn(&Value) -> Option<Value>) -> bool {
    let hold = scene.hold(&["--holder", "vc-executor", "--", "sleep", "30"]);
    let mut record: Value = serde_json::from_str(&scene.lock_text()).expect("the lock is JSON");
    drop(hold);
    let _ = fs::remove_file(scene.lock());
    record["pid"] = dead_pid().into();
    let Some(changed) = change(&record["beadlock"][key]) else {
        return false;
    };
    record["beadlock"][key] = changed;
    scene.write_lock(record.to_string());
    true
}

#[test]
fn other_machine() {
    let scene = Scene::new();
    // Another machine's: the same form, each digit another one.
    let other = |own: &Value| {
        let other = own
            .as_str()?
            .chars()
            .map(|c| if c == '0' { '1' } else { '0' });
        Some(Value::String(other.collect()))
    };
    if !record_with(&scene, "machine_id", other) {
        return skip::cannot("has no machine id to tell machines apart by");
    }
    skips(&scene, "other_machine", LOCKED, 4);
}

#[test]
fn other_pid_namespace() {
    let scene = Scene::new();
    let other = |own: &Value| match own {
        Value::Number(number) => Some(Value::from(number.as_u64()? + 1)),
        Value::String(text) => Some(Value::String(format!("{text}1"))),
        _ => None,
    };
    assert!(
        record_with(&scene, "pid_ns", other),
        "a record names its PID namespace"
    );
    skips(&scene, "other_pid_namespace", LOCKED, 4);
}

/// The same with a real namespace: from inside, no process has the holder's PID.
#[test]
fn other_pid_namespace_from_inside() {
    let scene = Scene::new();
    let _hold = scene.hold(&["--holder", "vc-executor", "--", "sleep", "30"]);
    let namespaces = ["--pid", "--fork", "--mount-proc"];
    let Some(check) = scene.in_namespaces(&namespaces, "\"$BEADLOCK\" check --json") else {
        return;
    };
    assert_eq!(answer(check, "skip", "other_pid_namespace", 4), LOCKED);
    assert!(scene.lock().exists());
}

#[test]
fn malformed() {
    let prefix = "Skipping database (lock check failed: malformed lock file: ";
    for text in [
        "{\"holder\":",
        "not json",
        "[]",
        "{\"holder\":1,\"pid\":1,\"hostname\":\"h\"}",
        "\u{0}\u{0}",
    ] {
        let scene = Scene::new();
        scene.write_lock(text);
        skips(&scene, "malformed", prefix, 5);
    }
}

#[test]
fn malformed_empty() {
    let scene = Scene::new();
    scene.write_lock("");
    skips(
        &scene,
        "malformed",
        "Skipping database (lock check failed: malformed lock file: unexpected EOF)",
        5,
    );
}

#[test]
fn invalid() {
    let host = this_host();
    let prefix = "Skipping database (lock check failed: invalid lock file: ";
    for text in [
        lock_text("", live_pid(), &host),
        lock_text("vc-executor", live_pid(), ""),
        lock_text("vc-executor", 0, &host),
        lock_text("vc-executor", -1, &host),
        format!("{{\"holder\":\"vc-executor\",\"pid\":1,\"hostname\":\"{host}\"}}"),
    ] {
        let scene = Scene::new();
        scene.write_lock(text);
        skips(&scene, "invalid", prefix, 5);
    }
}

#[test]
fn unreadable() {
    let prefix = "Skipping database (lock check failed: failed to read lock file: ";
    type Put = (&'static str, fn(&Scene));
    let put: [Put; 5] = [
        ("a directory", |scene| {
            fs::create_dir(scene.lock()).expect("mkdir")
        }),
        ("a FIFO", |scene| {
            let mode = nix::sys::stat::Mode::from_bits_truncate(0o644);
            nix::unistd::mkfifo(&scene.lock(), mode).expect("mkfifo");
        }),
        ("a symlink", |scene| {
            symlink("elsewhere", scene.lock()).expect("symlink")
        }),
        ("a socket", |scene| {
            std::os::unix::net::UnixListener::bind(scene.lock()).expect("bind");
        }),
        ("over 64 KiB", |scene| {
            let record = lock_text("vc-executor", live_pid(), &this_host());
            scene.write_lock(record + &" ".repeat(64 * 1024));
        }),
    ];
    for (what, put) in put {
        let scene = Scene::new();
        put(&scene);
        let begun = std::time::Instant::now();
        let message = answer(
            scene.beadlock(&["check", "--json"]),
            "skip",
            "unreadable",
            5,
        );
        assert!(message.starts_with(prefix), "{what}: {message}");
        assert!(
            begun.elapsed() < PATIENCE / 3,
            "{what} takes {:?}",
            begun.elapsed()
        );
        let agent = run(scene.agent(&["--db", ".beads", "--once", "--action", "none"]));
        assert_eq!(agent.status.code(), Some(5), "{what}: {agent:?}");
        assert!(
            fs::symlink_metadata(scene.lock()).is_ok(),
            "{what} is still there"
        );
    }
}

#[test]
fn unreadable_by_mode() {
    let scene = Scene::new();
    scene.write_lock(lock_text("vc-executor", dead_pid().into(), &this_host()));
    fs::set_permissions(scene.lock(), fs::Permissions::from_mode(0o000)).expect("chmod");
    let Some(check) = scene.beadlock_as_mortal(&["check", ".beads", "--json"]) else {
        return;
    };
    let message = answer(check, "skip", "unreadable", 5);
    assert!(message.contains("permission denied"), "{message}");
}

/// A directory that may not be searched: nothing in it can be read, whether it is named or found.
#[test]
fn unreadable_in_a_shut_directory() {
    let scene = Scene::new();
    let mode =
        |mode| fs::set_permissions(scene.beads(), fs::Permissions::from_mode(mode)).expect("chmod");
    let outside = |args: &[&str]| {
        let command = scene.beadlock_as_mortal(args);
        mode(0o600);
        command
    };
    for args in [&["check", ".beads", "--json"][..], &["check", "--json"]] {
        let Some(check) = outside(args) else { return };
        let message = answer(check, "skip", "unreadable", 5);
        assert!(
            message.contains("failed to read lock file: permission denied"),
            "{message}"
        );
    }
    for (args, code) in [
        (&["hold", "--no-wait", "--", "echo", "ran"][..], 5),
        (&["cycle", "--", "echo", "ran"], 5),
        (&["status"], 0),
    ] {
        let Some(command) = outside(args) else { return };
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(!ended.out.contains("ran"), "{args:?}: {ended:?}");
    }
    mode(0o755);
}

/// A side file beside an absent lock: a crash left it, and the next check puts things right.
#[test]
fn a_side_file_is_recovered() {
    let side = |scene: &Scene| scene.beads().join(".exclusive-lock.aside");
    let scene = Scene::new();
    fs::write(
        side(&scene),
        lock_text("vc-executor", live_pid(), &this_host()),
    )
    .expect("write the side file");
    assert_eq!(
        answer(scene.beadlock(&["check", "--json"]), "skip", "pid_alive", 4),
        LOCKED
    );
    assert_eq!(
        scene.names(),
        [".exclusive-lock", "issues.jsonl"],
        "a live one is moved back"
    );

    let scene = Scene::new();
    fs::write(
        side(&scene),
        lock_text("vc-executor", dead_pid().into(), &this_host()),
    )
    .expect("write the side file");
    assert_eq!(
        answer(
            scene.beadlock(&["check", "--json"]),
            "proceed",
            "pid_gone",
            0
        ),
        REMOVED
    );
    assert_eq!(scene.names(), ["issues.jsonl"], "a dead one is deleted");
}

/// With several targets every line names its own, and the exit code is the highest answer.
#[test]
fn several_targets() {
    let (free, held, broken) = (Scene::new(), Scene::new(), Scene::new());
    held.write_lock(lock_text("vc-executor", live_pid(), &this_host()));
    broken.write_lock("{");
    let dirs: Vec<_> = [&free, &held, &broken]
        .iter()
        .map(|scene| scene.beads().display().to_string())
        .collect();
    let mut check = free.beadlock(&["check"]);
    check.args(&dirs).stdin(Stdio::null());
    let ended = Ended::from(run(check));
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(
        ended.out.contains(&format!("{}: {LOCKED}\n", dirs[1])),
        "{ended:?}"
    );
    assert!(
        ended.out.contains(&format!(
            "{}: Skipping database (lock check failed:",
            dirs[2]
        )),
        "{ended:?}"
    );
}
