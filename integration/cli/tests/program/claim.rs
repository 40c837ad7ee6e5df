//! Getting the lock: the holder, the gate, and what happens when neither lets go.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, as_nobody, dead_pid, fastest, this_host, until};

#[test]
fn a_live_lock_is_never_touched_and_the_error_names_everything() {
    let scene = crate::a_scene();
    let me = i64::from(std::process::id());
    scene.write_shell_lock("vc-executor", me, &this_host());
    let before = fs::read(scene.lock()).unwrap();
    for args in [&["--no-wait"][..], &["--wait", "300ms"]] {
        let args = [&["hold", "--json"], args, &["--", "touch", "ran"]].concat();
        let json = scene
            .run(&args)
            .expect(4, &["is held by vc-executor (PID "])
            .json();
        let error = &json["error"];
        assert_eq!(
            (&json["ok"], &error["code"], &error["retryable"]),
            (&false.into(), &"LOCK_HELD".into(), &true.into())
        );
        assert!(error["retry_after_ms"].is_u64(), "{json}");
        let message = error["message"].as_str().unwrap();
        let policy = if args.contains(&"--no-wait") {
            "did not wait"
        } else {
            "gave up after 300ms"
        };
        let me = format!("(PID {me}: ");
        for word in [
            me.as_str(),
            ".exclusive-lock is held by",
            policy,
            ", on ",
            "d ",
        ] {
            assert!(message.contains(word), "{word:?} in {message}");
        }
        let detail = error["detail"].as_str().unwrap();
        let path = fs::canonicalize(scene.lock()).unwrap();
        assert!(detail.starts_with(&format!(
            "lock_file={} holder_pid={} holder_age_ms=",
            path.display(),
            std::process::id()
        )));
        assert_eq!(fs::read(scene.lock()).unwrap(), before);
    }
    scene
        .run(&[
            "hold",
            "--no-wait",
            "--conflict-exit-code",
            "75",
            "--",
            "true",
        ])
        .expect(75, &[]);
    scene
        .run(&["hold", "--no-wait", "--own-exit-code", "99", "--", "true"])
        .expect(99, &[]);
    assert!(!scene.file("ran").exists());
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

/// By the backoff it would look a second or two later.
#[test]
fn a_wait_is_said_once_and_ends_when_the_holder_does() {
    let limit = Duration::from_millis(500);
    let took = fastest(limit, after_a_long_wait);
    assert!(took < limit, "not by event: {took:?}");
}

/// How long a wait of three seconds goes on when the holder has released.
fn after_a_long_wait() -> Duration {
    let scene = crate::a_scene();
    let first = Running::apart(scene.beadlock(&[
        "hold",
        "--",
        "sh",
        "-c",
        "until test -e go; do sleep 0.01; done",
    ]));
    until("it is claimed", || first.err().contains("claimed"));
    let second = Running::apart(scene.beadlock(&["hold", "--wait", "1h", "--", "touch", "ran"]));
    until("it waits", || second.err().contains("waiting"));
    let line = second.err();
    for word in [
        "for sh (PID ",
        ", sh -c until test",
        ".exclusive-lock",
        " left",
    ] {
        assert!(line.contains(word), "{word:?} in {line}");
    }
    // Far beyond the first rounds of the backoff, so that only an event can be quick.
    std::thread::sleep(Duration::from_secs(3));
    assert!(!scene.file("ran").exists());
    fs::write(scene.file("go"), "").unwrap();
    until("the first ends", || first.err().contains("released"));
    let begun = Instant::now();
    until("the second runs", || scene.file("ran").exists());
    let took = begun.elapsed();
    let ended = second.end().expect(0, &["claimed", "released"]);
    // While the holder releases, it may also say that somebody is changing the lock.
    assert_eq!(ended.err.matches(" for sh (PID ").count(), 1, "{ended:?}");
    first.end().expect(0, &[]);
    took
}

#[test]
fn a_holder_that_dies_without_a_release_is_noticed() {
    let scene = crate::a_scene();
    let mut holder = Command::new("sleep")
        .arg("300")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    scene.write_shell_lock("my-tool", i64::from(holder.id()), &this_host());
    let waiting = Running::apart(scene.beadlock(&["hold", "--wait", "1h", "--", "true"]));
    until("it waits", || waiting.err().contains("waiting"));
    holder.kill().unwrap();
    holder.wait().unwrap();
    waiting.end().expect(0, &["claimed .beads for true"]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_stale_lock_is_taken_over() {
    let scene = crate::a_scene();
    scene.write_shell_lock(
        "crashed",
        i64::from(dead_pid()),
        &this_host().to_ascii_uppercase(),
    );
    let said = "beadlock: removed stale lock of crashed (PID ";
    scene
        .run(&[
            "hold",
            "--no-wait",
            "--",
            "sh",
            "-c",
            "cp .beads/.exclusive-lock seen",
        ])
        .expect(0, &[said, ", pid_gone)\n"]);
    assert!(scene.read("seen").contains("\"holder\": \"sh\""));
    assert!(scene.names().is_empty());
}

#[test]
fn what_cannot_be_understood_is_looked_at_for_two_seconds_and_never_overwritten() {
    let scene = crate::a_scene();
    fs::write(scene.lock(), "{\"holder\":").unwrap();
    let begun = Instant::now();
    let json = scene
        .run(&["hold", "--json", "--", "true"])
        .expect(
            5,
            &[
                "malformed lock file",
                "beadlock status --raw .beads",
                "beadlock break .beads --malformed",
            ],
        )
        .json();
    assert!(
        begun.elapsed() >= Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&"LOCK_UNREADABLE".into(), &false.into())
    );
    assert_eq!(fs::read_to_string(scene.lock()).unwrap(), "{\"holder\":");
    // Anew: what has not changed for two seconds is not waited for. Once in time is enough.
    let is_read_late = |_| {
        fs::write(scene.lock(), "{\"holder\":").unwrap();
        let mut waiting = Running::apart(scene.beadlock(&["hold", "--", "true"]));
        until("it waits", || {
            waiting.err().contains("malformed") || waiting.has_ended()
        });
        scene.write_shell_lock("late", i64::from(dead_pid()), &this_host());
        let ended = waiting.end();
        ended.code == 0 && ended.err.contains("claimed")
    };
    assert!((0..5).any(is_read_late), "what comes late is never read");
}

#[test]
fn a_gate_that_stays_shut_is_a_drain_time_out() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let me = format!("held by PID {} (", std::process::id());
    for args in [
        &["--drain", "300ms"][..],
        &["--no-wait"],
        &["--no-wait", "--drain", "100ms"],
    ] {
        let begun = Instant::now();
        let args = [&["hold", "--json"], args, &["--", "touch", "ran"]].concat();
        let json = scene
            .run(&args)
            .expect(4, &[&me, "the gate did not open within"])
            .json();
        assert_eq!(
            (&json["error"]["code"], &json["error"]["retryable"]),
            (&"DRAIN_TIMEOUT".into(), &true.into())
        );
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{args:?}: {:?}",
            begun.elapsed()
        );
    }
    scene
        .run(&[
            "hold",
            "--drain",
            "0",
            "--conflict-exit-code",
            "75",
            "--",
            "true",
        ])
        .expect(75, &[]);
    drop(gate);
    assert!(!scene.file("ran").exists() && scene.names().is_empty());
}

#[test]
fn a_cycle_that_ends_lets_the_claim_in() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let waiting = Running::apart(scene.beadlock(&["hold", "--", "touch", "ran"]));
    until("it waits", || {
        waiting.err().contains("waiting for the gate of ")
    });
    assert!(
        waiting
            .err()
            .contains(&format!("held by PID {} (", std::process::id())),
        "{}",
        waiting.err()
    );
    assert!(
        !scene.lock().exists(),
        "a claim is not to be seen until the cycle has ended"
    );
    drop(gate);
    waiting.end().expect(0, &["claimed", "released"]);
    assert!(scene.file("ran").exists());
}

#[test]
fn inside_a_cycle_of_the_same_database_it_fails_at_once() {
    let scene = crate::a_scene();
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    for cycle in [scene.beads(), fs::canonicalize(scene.beads()).unwrap()] {
        let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
        command.env("BEADLOCK_CYCLE", &cycle);
        Running::apart(command)
            .end()
            .expect(4, &["this runs inside a sync cycle of"]);
    }
    assert!(!scene.file("ran").exists());
    drop(gate);
    let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
    command.env("BEADLOCK_CYCLE", scene.path());
    Running::apart(command).end().expect(0, &[]);
}

/// A terminal that a cycle's command has left open, say.
#[test]
fn what_a_cycle_has_left_behind_may_claim_once_that_has_ended() {
    let scene = crate::a_scene();
    let script = "setsid sh -c 'until test -e go; do sleep 0.01; done; \"$BEADLOCK\" hold .beads -- touch ran; \
                  echo $? > code' & echo $BEADLOCK_CYCLE > cycle";
    scene
        .run(&["cycle", ".beads", "--", "sh", "-c", script])
        .expect(0, &["left processes behind"]);
    assert!(scene.read("cycle").contains(".beads"));
    fs::write(scene.file("go"), "").unwrap();
    until("it has claimed", || scene.read("code").ends_with('\n'));
    assert_eq!(scene.read("code"), "0\n");
    assert!(scene.file("ran").exists());
}

#[test]
fn the_variable_of_a_cycle_that_is_none_refuses_nothing() {
    let scene = crate::a_scene();
    let run = |args: &[&str]| {
        let mut command = scene.beadlock(args);
        command.env("BEADLOCK_CYCLE", scene.beads());
        Running::apart(command).end()
    };
    run(&["hold", ".beads", "--", "true"]).expect(0, &["released .beads"]);
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    run(&["break", "--holder", "vc"]).expect(0, &["broke the lock of vc"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_an_error_that_names_it() {
    let scene = crate::a_scene();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = scene.beadlock(&["hold", "--json", "--", "true"]);
    if !as_nobody(&mut command) {
        return;
    }
    let json = Running::apart(command)
        .end()
        .expect(1, &["permission denied", ".exclusive-lock"])
        .json();
    assert_eq!(json["error"]["code"], "NOT_PERMITTED");
    assert!(scene.names().is_empty());
}

#[test]
fn where_there_is_no_gate_it_is_said_once_and_nothing_is_removed() {
    let scene = crate::a_scene();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o733)).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = scene.beadlock(args);
        as_nobody(&mut command).then(|| Running::apart(command).end())
    };
    let Some(ended) = nobody(&["hold", "--", "true"]) else {
        return;
    };
    let ended = ended.expect(
        0,
        &[
            "there is no gate here",
            "no dead lock is removed",
            "permission denied",
            "claimed",
            "released",
        ],
    );
    assert_eq!(ended.err.matches("no gate").count(), 1, "{ended:?}");
    scene.write_shell_lock("crashed", i64::from(dead_pid()), &this_host());
    let json = nobody(&["hold", "--json", "--", "true"])
        .unwrap()
        .expect(5, &["failed to remove stale lock: no gate"])
        .json();
    assert_eq!(json["error"]["code"], "LOCK_STALE");
    let line = "Skipping database (lock check failed: failed to remove stale lock: no gate)\n";
    assert_eq!(
        nobody(&["check", ".beads"]).unwrap().expect(5, &[]).out,
        line
    );
    assert!(scene.lock().exists());
}

#[test]
fn two_opposites_are_refused_and_the_environment_is_beaten_by_either() {
    let scene = crate::a_scene();
    scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
    for command in ["hold", "acquire", "update", "write", "append"] {
        let args: &[&str] = match command {
            "hold" => &["--wait", "1h", "--no-wait", "--", "true"],
            "acquire" => &["--no-wait", "--wait=1"],
            "update" => &["file:x", "--wait", "1", "--no-wait", "--", "true"],
            _ => &["file:x", "--wait", "1", "--no-wait"],
        };
        let ended = scene.run(&[&[command], args].concat());
        ended.expect(2, &["cannot be used with"]);
    }
    for (variable, args, words) in [
        (
            "1h",
            ["--no-wait", "-v"],
            "did not wait; who and why: beadlock status .beads\n",
        ),
        ("0", ["--wait", "300ms"], "gave up after 300ms; "),
    ] {
        let mut command = scene.beadlock(&[&["hold"], &args[..], &["--", "true"]].concat());
        command.env("BEADLOCK_WAIT", variable);
        Running::apart(command).end().expect(4, &[words]);
    }
}

#[test]
fn a_fifo_is_not_offered_to_cat() {
    let scene = crate::a_scene();
    nix::unistd::mkfifo(&scene.lock(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ended = scene
        .run(&["hold", "--", "true"])
        .expect(5, &["look at it: ls -la "]);
    assert!(!ended.err.contains("cat "), "{ended:?}");
}

#[test]
fn no_more_processes_is_said_in_words() {
    let scene = crate::a_scene();
    let mut command = scene.shell("exec bash -c 'ulimit -u 0; exec \"$BEADLOCK\" hold -- true'");
    if as_nobody(&mut command) {
        Running::apart(command).end().expect(
            1,
            &["no more processes are allowed to this user (ulimit -u)"],
        );
    }
}
