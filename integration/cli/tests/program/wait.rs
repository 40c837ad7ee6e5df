//! `beadlock wait`: returns when it is free.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use beadlock_base::sys::{RenameMode, renameat2};
use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, as_nobody, dead_pid, fastest, shell_lock_text, this_host, until};
use nix::fcntl::AT_FDCWD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::terminal::{BEADLOCK, Terminal};

fn me() -> i64 {
    i64::from(std::process::id())
}

#[test]
fn what_is_free_is_said_at_once_and_without_a_word() {
    let scene = crate::a_scene();
    for args in [
        &["wait"][..],
        &["wait", "--wait", "0"],
        &["wait", ".beads"],
        &["wait", "lock:x.lock"],
    ] {
        let begun = Instant::now();
        let ended = scene.run(args).expect(0, &[]);
        assert_eq!(
            (ended.out.as_str(), ended.err.as_str()),
            ("", ""),
            "{args:?}"
        );
        // It would wait for half a minute.
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
    }
    let json = scene.run(&["wait", "--json"]).expect(0, &[]).json();
    let data = json["data"].as_object().unwrap();
    assert_eq!(
        (&json["ok"], &json["error"], data.len()),
        (&json!(true), &Value::Null, 4)
    );
    assert_eq!(
        (&data["target"], &data["removed"]),
        (&json!("beads:.beads"), &json!(false))
    );
    assert!(
        data["waited_ms"].is_u64() && data["path"].as_str().unwrap().ends_with("/.exclusive-lock")
    );
    assert!(scene.names().is_empty());
}

#[test]
fn a_wait_that_runs_out_is_exit_4_and_names_everything() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc-executor", me(), &this_host());
    for (args, policy) in [
        (["--wait", "300ms"], "gave up after 300ms"),
        (["--wait", "0"], "did not wait"),
    ] {
        let begun = Instant::now();
        let words = [
            "is held by vc-executor (PID ",
            policy,
            "beadlock status .beads",
        ];
        let json = scene
            .run(&[&["wait", "--json"][..], &args].concat())
            .expect(4, &words)
            .json();
        // Not the half minute that it would wait unasked.
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        let error = &json["error"];
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!("LOCK_HELD"), &json!(true))
        );
        assert_eq!((&json["ok"], &json["data"]), (&json!(false), &Value::Null));
        assert!(
            error["detail"]
                .as_str()
                .unwrap()
                .contains(&format!(" holder_pid={} holder_age_ms=", me()))
        );
    }
    let mut forever = scene.beadlock(&["hold", "--wait", "forever", "--", "true"]);
    forever.env("BEADLOCK_WAIT", "200ms");
    let mut forever = Running::apart(forever);
    until("it says that it has no limit", || {
        forever.err().contains("no time limit")
    });
    let mut command = scene.beadlock(&["wait"]);
    command.env("BEADLOCK_WAIT", "200ms");
    Running::apart(command)
        .end()
        .expect(4, &["gave up after 200ms"]);
    fs::write(
        scene.file("x.lock"),
        shell_lock_text("deploy", me(), &this_host()),
    )
    .unwrap();
    let said = format!("Resource lock held by PID {} (age: ", me());
    scene
        .run(&["wait", "lock:x.lock", "--wait", "0"])
        .expect(4, &[&said]);
    assert_eq!(scene.names(), [".exclusive-lock"]);
    assert!(forever.is_running());
    scene.unlock();
    forever.end().expect(0, &["claimed .beads"]);
}

/// By the backoff it would look a second or two later.
#[test]
fn it_ends_by_event_when_the_holder_does_and_says_once_for_whom_it_waits() {
    let limit = Duration::from_millis(500);
    let took = fastest(limit, after_a_long_wait);
    assert!(took < limit, "not by event: {took:?}");
}

/// How long a wait of three seconds goes on when its holder has released.
fn after_a_long_wait() -> Duration {
    let scene = crate::a_scene();
    let holding = Running::apart(scene.beadlock(&[
        "hold",
        "--",
        "sh",
        "-c",
        "until test -e go; do sleep 0.01; done",
    ]));
    until("it is claimed", || holding.err().contains("claimed"));
    let mut waiting = Running::apart(scene.beadlock(&["wait", "--wait", "1h", "--json"]));
    until("it waits", || waiting.err().contains("waiting"));
    for word in [
        "for sh (PID ",
        ", sh -c until test",
        ".exclusive-lock",
        " left",
    ] {
        assert!(
            waiting.err().contains(word),
            "{word:?} in {}",
            waiting.err()
        );
    }
    // Far beyond the first rounds of the backoff, so that only an event can be quick.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!waiting.has_ended());
    fs::write(scene.file("go"), "").unwrap();
    until("the holder ends", || holding.err().contains("released"));
    let begun = Instant::now();
    let ended = waiting.end().expect(0, &[]);
    let took = begun.elapsed();
    // While the holder releases, it may also say that somebody is changing the lock.
    assert_eq!(ended.err.matches(" for sh (PID ").count(), 1, "{ended:?}");
    assert!(ended.json()["data"]["waited_ms"].as_u64().unwrap() >= 3000);
    holding.end().expect(0, &[]);
    took
}

#[test]
fn a_stale_lock_is_removed_as_a_check_does() {
    let scene = crate::a_scene();
    scene.write_shell_lock("crashed", i64::from(dead_pid()), &this_host());
    let said = "beadlock: removed stale lock of crashed (PID ";
    let json = scene
        .run(&["wait", "--wait", "0", "--json"])
        .expect(0, &[said, ", pid_gone)\n"])
        .json();
    assert_eq!(json["data"]["removed"], true);
    assert!(scene.names().is_empty());
}

#[test]
fn what_cannot_be_understood_for_two_seconds_is_exit_5() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "{").unwrap();
    let begun = Instant::now();
    let json = scene
        .run(&["wait", "--json"])
        .expect(5, &["malformed lock file", "was not touched"])
        .json();
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(json["error"]["code"], "LOCK_UNREADABLE");
    scene
        .run(&["wait", "--wait", "0"])
        .expect(5, &["malformed lock file"]);
    // Anew: what has not changed for two seconds is not waited for. Once in time is enough.
    let is_read_late = |_| {
        fs::write(scene.lock(), "{").unwrap();
        let mut waiting = Running::apart(scene.beadlock(&["wait"]));
        until("it waits", || {
            waiting.err().contains("malformed") || waiting.has_ended()
        });
        scene.write_shell_lock("late", i64::from(dead_pid()), &this_host());
        let ended = waiting.end();
        ended.code == 0 && ended.err.contains("removed stale lock of late")
    };
    assert!((0..5).any(is_read_late), "what comes late is never read");
}

#[test]
fn a_stale_lock_that_cannot_be_removed_is_exit_5() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = scene.beadlock(&["wait", ".beads", "--json"]);
    if !as_nobody(&mut command) {
        return;
    }
    let json = Running::apart(command)
        .end()
        .expect(5, &["failed to remove stale lock"])
        .json();
    assert_eq!(json["error"]["code"], "LOCK_STALE");
    assert!(scene.lock().exists());
}

#[test]
fn a_shut_gate_before_a_stale_lock_is_waited_for() {
    let scene = crate::a_scene();
    scene.write_shell_lock("crashed", i64::from(dead_pid()), &this_host());
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let held_by = format!("it is held by PID {} (", me());
    let words = [held_by.as_str(), "wait longer with --wait DUR"];
    let json = scene
        .run(&["wait", "--wait", "300ms", "--json"])
        .expect(4, &words)
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&json!("DRAIN_TIMEOUT"), &json!(true))
    );
    scene.run(&["wait", "--wait", "0"]).expect(4, &words);
    let waiting = Running::apart(scene.beadlock(&["wait", "--wait", "1h"]));
    until("it waits", || {
        waiting.err().contains("waiting for the gate of ")
    });
    drop(gate);
    waiting.end().expect(0, &["removed stale lock of crashed"]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_running_cycle_alone_is_nothing_to_wait_for() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    scene.run(&["wait", "--wait", "0"]).expect(0, &[]);
    drop(gate);
}

/// Without its directory there is no lock to be seen: that is not "free".
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test moves the database away"
)]
fn a_database_that_vanishes_meanwhile_is_exit_1() {
    let words = [
        "is not there any more (no such file or directory)",
        "is another directory by now",
    ];
    for (is_replaced, words) in [(false, words[0]), (true, words[1])] {
        let scene = crate::a_scene();
        fs::create_dir_all(scene.file("run")).unwrap();
        for target in [".beads", "lock:run/x"] {
            scene.write_shell_lock("vc", me(), &this_host());
            fs::write(
                scene.file("run/x"),
                shell_lock_text("deploy", me(), &this_host()),
            )
            .unwrap();
            let waiting =
                Running::apart(scene.beadlock(&["wait", target, "--wait", "1h", "--json"]));
            until("it waits", || waiting.err().contains("waiting"));
            let dir = scene.file(if target == ".beads" { ".beads" } else { "run" });
            let moved = scene.file(&format!("moved-{is_replaced}"));
            if is_replaced {
                // At once, or it may look between the two.
                fs::create_dir(&moved).unwrap();
                renameat2(AT_FDCWD, &dir, AT_FDCWD, &moved, RenameMode::Exchange).unwrap();
            } else {
                fs::rename(&dir, &moved).unwrap();
            }
            let json = waiting.end().expect(1, &[words]).json();
            assert_eq!(
                (&json["ok"], &json["error"]["code"]),
                (&json!(false), &json!("NO_TARGET")),
                "{target}"
            );
            fs::remove_dir_all(&moved).unwrap();
            fs::create_dir_all(&dir).unwrap();
        }
    }
}

#[test]
fn signals_end_it() {
    let table = [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
        (Signal::SIGINT, 130),
    ];
    for (signal, code) in table {
        let scene = crate::a_scene();
        scene.write_shell_lock("vc", me(), &this_host());
        let waiting = Running::apart(scene.beadlock(&["wait", "--wait", "1h", "--json"]));
        until("it waits", || waiting.err().contains("waiting"));
        waiting.signal(signal);
        let ended = waiting
            .end()
            .expect(code, &["ended by SIG", "before it was free"]);
        assert_eq!(
            ended.signal,
            (signal == Signal::SIGINT).then_some(2),
            "{ended:?}"
        );
        assert_eq!(ended.json()["ok"], false);
    }
}

#[test]
fn what_is_wrong_is_exit_2_and_what_is_not_there_is_exit_1() {
    let scene = crate::a_scene();
    scene
        .run(&["wait", "--wait", "soon"])
        .expect(2, &["examples: 10s, 500ms, 1h30m"]);
    scene
        .run(&["wait", "ftp:x"])
        .expect(2, &["unknown scheme ftp:"]);
    scene
        .run(&["wait", "."])
        .expect(2, &["did you mean ./.beads?"]);
    let mut command = scene.beadlock(&["wait"]);
    command.env("BEADLOCK_WAIT", "soon");
    Running::apart(command)
        .end()
        .expect(2, &["$BEADLOCK_WAIT: "]);
    let json = scene
        .run(&["wait", "nowhere/.beads", "--json"])
        .expect(1, &["does not exist"])
        .json();
    assert_eq!(json["error"]["code"], "NO_TARGET");
    let help = scene.run(&["wait", "--help"]).expect(0, &[]).out;
    assert!(
        help.contains("promises nothing about the moment after"),
        "{help}"
    );
}

#[test]
fn on_a_terminal_the_wait_is_one_live_line() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", me(), &this_host());
    let ended = Terminal::start(&scene, &[BEADLOCK, "wait", "--wait", "2500ms"]).end();
    assert_eq!(ended.code, 4, "{ended:?}");
    let shown = ended.out;
    let (live, error) = shown
        .split_once("beadlock: \u{1b}[31merror:")
        .unwrap_or_else(|| panic!("{shown}"));
    assert!(
        live.matches("waiting ").count() >= 2 && !live.contains('\n'),
        "{shown:?}"
    );
    assert!(
        live.ends_with("\r\u{1b}[K") && error.contains("gave up after 2.5s"),
        "{shown:?}"
    );
}
