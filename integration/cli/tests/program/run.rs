//! `beadlock hold`, from the claim to the release.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_testkit::write_program;
use beadlock_testkit::{
    Running, as_nobody, children, dead_pid, has_program, lives, process_is_gone, this_host, until,
};

#[test]
fn the_command_runs_under_its_own_lock_and_its_code_is_ours() {
    let scene = crate::a_scene();
    let script = "cp .beads/.exclusive-lock seen; echo $$ > pid; echo \"$BEADLOCK_HELD_TARGET $BEADLOCK_HELD_ID\" > env; exit 7";
    let ended = scene.run(&["hold", "--holder", "release job", "--", "sh", "-c", script]);
    let ended = ended.expect(
        7,
        &[
            "beadlock: claimed .beads for release job (PID ",
            "beadlock: released .beads after ",
        ],
    );
    assert_eq!(
        (ended.err.lines().count(), ended.out.as_str()),
        (2, ""),
        "{ended:?}"
    );
    let record: serde_json::Value = serde_json::from_str(&scene.read("seen")).unwrap();
    assert_eq!(
        record["pid"].to_string(),
        scene.read("pid").trim(),
        "the record names the command's process"
    );
    assert_eq!(
        (&record["holder"], &record["hostname"]),
        (&"release job".into(), &this_host().into())
    );
    let dir = fs::canonicalize(scene.beads()).unwrap();
    let id = record["beadlock"]["id"].as_str().unwrap();
    assert_eq!(scene.read("env"), format!("beads:{} {id}\n", dir.display()));
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    let quiet = scene.run(&["hold", "-q", "--", "true"]).expect(0, &[]);
    assert_eq!((quiet.out.as_str(), quiet.err.as_str()), ("", ""));
}

#[test]
fn the_holder_is_the_commands_base_name_unless_the_environment_names_one() {
    let scene = crate::a_scene();
    scene
        .run(&[
            "hold",
            "--",
            "/bin/sh",
            "-c",
            "cp .beads/.exclusive-lock seen",
        ])
        .expect(0, &["for sh (PID"]);
    assert!(
        scene
            .read("seen")
            .starts_with("{\n  \"holder\": \"sh\",\n  \"pid\": "),
        "{}",
        scene.read("seen")
    );
    let mut command = scene.beadlock(&["hold", "--", "true"]);
    command
        .env("BEADLOCK_HOLDER", "ci")
        .env("BEADLOCK_TARGET", "beads:.beads")
        .env("BEADLOCK_QUIET", "");
    Running::apart(command)
        .end()
        .expect(0, &["claimed .beads for ci (PID"]);
}

#[test]
fn no_descriptor_of_ours_reaches_the_command() {
    let scene = crate::a_scene();
    let script = "ls /proc/self/fd > fds";
    Running::apart(scene.shell(script)).end().expect(0, &[]);
    let without = scene.read("fds");
    scene
        .run(&["hold", "-q", "--", "sh", "-c", script])
        .expect(0, &[]);
    assert_eq!(scene.read("fds"), without);
}

#[test]
fn a_command_that_cannot_be_found_or_executed_is_said_before_any_wait() {
    let scene = crate::a_scene();
    scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
    fs::write(scene.file("data"), "x").unwrap();
    scene
        .run(&["hold", "--wait", "1h", "--", "nosuch"])
        .expect(127, &["nosuch: command not found in PATH"]);
    scene
        .run(&["hold", "--wait", "1h", "--", "./nosuch"])
        .expect(127, &["./nosuch: no such file"]);
    scene
        .run(&["hold", "--wait", "1h", "--", "./data"])
        .expect(126, &["./data: cannot be executed: permission denied"]);
    let json = scene
        .run(&["hold", "--wait", "1h", "--json", "--", "nosuch"])
        .expect(127, &[])
        .json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"USAGE".into())
    );
    scene
        .run(&["hold", "--own-exit-code", "99", "--", "nosuch"])
        .expect(99, &[]);
}

#[test]
fn a_command_that_fails_to_execute_leaves_no_lock() {
    let scene = crate::a_scene();
    for (name, interpreter, code) in [
        ("gone", "/no/such/interpreter", 127),
        ("refused", "/etc", 126),
    ] {
        write_program(&scene.file(name), format!("#!{interpreter}\n").as_bytes());
        scene
            .run(&["hold", "--", &format!("./{name}")])
            .expect(code, &["claimed .beads", "released .beads"]);
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
    write_program(&scene.file("script"), &b"exit 3\n"[..]);
    scene.run(&["hold", "--", "./script"]).expect(3, &[]);
}

#[test]
fn a_waiting_process_that_is_killed_is_125() {
    let scene = crate::a_scene();
    scene.write_shell_lock("live", i64::from(std::process::id()), &this_host());
    let running = Running::apart(scene.beadlock(&["hold", "--wait", "1h", "--", "touch", "ran"]));
    until("it waits", || running.err().contains("waiting"));
    let [child] = children(running.pid())[..] else {
        panic!("one child")
    };
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    running.end().expect(125, &["was killed while it waited"]);
    assert!(!scene.file("ran").exists());
}

#[test]
fn what_is_left_behind_is_named_and_the_lock_released() {
    let scene = crate::a_scene();
    let running =
        Running::apart(scene.beadlock(&["hold", "--", "sh", "-c", "sleep 300 & echo $! > left"]));
    let ended = running.end();
    let left: i32 = scene.read("left").trim().parse().unwrap();
    let words =
        format!("the command left processes behind, and the lock is released now: PID {left} (");
    ended.expect(0, &[&words, "--wait-group", "released .beads"]);
    assert!(lives(left) && scene.names().is_empty());
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(left),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    process_is_gone(left);
}

#[test]
fn wait_group_keeps_the_lock_until_all_have_ended() {
    let scene = crate::a_scene();
    let script =
        "(until test -e go; do sleep 0.01; done; test -e .beads/.exclusive-lock && touch locked) &";
    let mut running =
        Running::apart(scene.beadlock(&["hold", "--wait-group", "--", "sh", "-c", script]));
    until("it waits for the rest", || {
        running
            .err()
            .contains("the command has ended; waiting for PID ")
    });
    assert!(!running.has_ended() && scene.lock().exists());
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(0, &["released .beads"]);
    assert!(scene.file("locked").exists() && scene.names().is_empty());
}

#[test]
fn children_that_were_there_before_are_none_of_the_commands() {
    let scene = crate::a_scene();
    let script = "sleep 300 & echo $! > server; exec \"$BEADLOCK\" hold --kill-after 100ms -- sh -c 'kill -TERM $PPID; sleep 300'";
    let ended = Running::apart(scene.shell(script)).end().expect(143, &[]);
    let server: i32 = scene.read("server").trim().parse().unwrap();
    assert!(lives(server) && !ended.err.contains("behind"), "{ended:?}");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(server),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    process_is_gone(server);
}

#[test]
fn a_nested_hold_runs_under_the_outer_lock_and_releases_nothing() {
    let scene = crate::a_scene();
    let inner = "\"$BEADLOCK\" hold --no-wait .beads -- sh -c 'exit 3'; echo $? > inner; cp .beads/.exclusive-lock after; \
                 BEADLOCK_HELD_ID=other BEADLOCK_HELD_IDS=other \"$BEADLOCK\" hold --no-wait -- true; echo $? > stranger; \
                 ID=$BEADLOCK_HELD_ID; unset BEADLOCK_HELD_ID BEADLOCK_HELD_IDS; BEADLOCK_ID=$ID \"$BEADLOCK\" hold --no-wait -- true; echo $? > by_id";
    scene
        .run(&["hold", "--", "sh", "-c", inner])
        .expect(0, &["released .beads"]);
    assert_eq!(
        (
            scene.read("inner").as_str(),
            scene.read("stranger").as_str(),
            scene.read("by_id").as_str()
        ),
        ("3\n", "4\n", "0\n")
    );
    assert!(
        scene.read("after").contains("\"holder\": \"sh\""),
        "the outer lock stands"
    );
    assert!(scene.names().is_empty());
}

/// A lock without an id in it, as Go and the shell write it: what status calls it is for break, and no way in.
#[test]
fn the_digest_of_somebody_elses_lock_is_no_outer_claim() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    let status = scene.run(&["status", "--json"]).expect(0, &[]).json();
    let id = status["data"][0]["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("sha256:"), "{status}");
    for name in ["BEADLOCK_ID", "BEADLOCK_HELD_ID"] {
        for args in [
            &["hold", "--no-wait", "--", "touch", "ran"][..],
            &["acquire", "--no-wait"],
        ] {
            let mut command = scene.beadlock(args);
            command.env(name, &id);
            Running::apart(command).end().expect(4, &["is held by vc"]);
        }
    }
    assert!(!scene.file("ran").exists());
}

#[test]
fn killed_before_the_start_the_command_never_runs() {
    let scene = crate::a_scene();
    let gate = beadlock_core::gate::Gate::try_take(&scene.beads())
        .unwrap()
        .unwrap();
    let running = Running::apart(scene.beadlock(&["hold", "--", "touch", "ran"]));
    until("it waits for the gate", || {
        running.err().contains("waiting for the gate")
    });
    let [child] = children(running.pid())[..] else {
        panic!("one child")
    };
    running.signal(nix::sys::signal::Signal::SIGKILL);
    running.end().expect(137, &[]);
    process_is_gone(child);
    drop(gate);
    assert!(!scene.file("ran").exists() && scene.names().is_empty());
}

#[test]
fn killed_later_the_lock_stays_as_long_as_the_command_lives() {
    let scene = crate::a_scene();
    let running = Running::apart(scene.beadlock(&["hold", "--", "sleep", "300"]));
    until("it is claimed and runs", || {
        running.err().contains("claimed") && !children(running.pid()).is_empty()
    });
    let [child] = children(running.pid())[..] else {
        panic!("one child")
    };
    until("it has executed", || {
        fs::read_to_string(format!("/proc/{child}/comm")).unwrap() == "sleep\n"
    });
    running.signal(nix::sys::signal::Signal::SIGKILL);
    running.end().expect(137, &[]);
    assert_eq!(
        scene.run(&["check"]).expect(4, &[]).out,
        "Skipping database (locked by sleep)\n"
    );
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    process_is_gone(child);
    assert_eq!(
        scene.run(&["check"]).expect(0, &[]).out,
        "Removed stale lock (sleep), proceeding with sync\n"
    );
}

#[test]
fn a_lock_that_became_somebody_elses_is_not_touched_and_that_is_a_loss() {
    let scene = crate::a_scene();
    let foreign = beadlock_testkit::shell_lock_text("vc", i64::from(dead_pid()), "elsewhere");
    fs::write(scene.file("foreign"), &foreign).unwrap();
    scene
        .run(&[
            "hold",
            "--",
            "sh",
            "-c",
            "cp foreign new; mv new .beads/.exclusive-lock; exit 7",
        ])
        .expect(
            9,
            &[
                "lost the lock of .beads",
                ".exclusive-lock is vc's now",
                "it was not touched",
            ],
        );
    assert_eq!(fs::read_to_string(scene.lock()).unwrap(), foreign);
    let gone = crate::a_scene();
    gone.run(&[
        "hold",
        "--",
        "sh",
        "-c",
        "rm .beads/.exclusive-lock; exit 7",
    ])
    .expect(9, &["lost the lock of .beads", ".exclusive-lock vanished"]);
}

#[test]
fn a_release_that_fails_is_a_warning_that_says_what_to_type() {
    let scene = crate::a_scene();
    for path in [scene.path(), &scene.beads()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = scene.beadlock(&[
        "hold",
        "--",
        "sh",
        "-c",
        "until test -e go; do sleep 0.01; done; exit 7",
    ]);
    if !as_nobody(&mut command) {
        return;
    }
    let running = Running::apart(command);
    until("it is claimed", || running.err().contains("claimed"));
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o555)).unwrap();
    fs::write(scene.file("go"), "").unwrap();
    running.end().expect(
        7,
        &[
            "warning: the lock was not released",
            "permission denied",
            "type: beadlock check .beads",
        ],
    );
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o755)).unwrap();
    scene.run(&["check"]).expect(0, &[]);
}

#[test]
fn a_report_says_what_became_of_it() {
    let scene = crate::a_scene();
    let ended = scene
        .run(&[
            "hold",
            "--json",
            "--report",
            "report",
            "--",
            "sh",
            "-c",
            "echo mine; exit 7",
        ])
        .expect(7, &[]);
    assert_eq!(ended.out, "mine\n", "stdout is the command's alone");
    let report: serde_json::Value = serde_json::from_str(&scene.read("report")).unwrap();
    assert_eq!(
        (&report["ok"], &report["error"]),
        (&true.into(), &serde_json::Value::Null)
    );
    let data = &report["data"];
    assert_eq!(
        (&data["exit_code"], &data["signal"], &data["released"]),
        (&7.into(), &serde_json::Value::Null, &true.into())
    );
    assert_eq!(
        (&data["holder"], &data["nested"]),
        (&"sh".into(), &false.into())
    );
    scene.write_shell_lock("vc", 1, "elsewhere");
    scene
        .run(&["hold", "--no-wait", "--report", "report", "--", "true"])
        .expect(4, &[]);
    let report: serde_json::Value = serde_json::from_str(&scene.read("report")).unwrap();
    assert_eq!(
        (&report["ok"], &report["error"]["code"]),
        (&false.into(), &"LOCK_HELD".into())
    );
    assert_eq!(
        report["data"],
        serde_json::Value::Null,
        "a claim that never stood"
    );
    std::os::unix::fs::symlink("target", scene.file("link")).unwrap();
    scene
        .run(&["hold", "--no-wait", "--report", "link", "--", "true"])
        .expect(
            1,
            &["the report link cannot be written", "nothing is claimed"],
        );
    assert!(!scene.file("target").exists());
}

#[test]
fn who_lost_only_its_main_thread_lives() {
    let scene = crate::a_scene();
    let script = format!(
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(300,)).start(); \
         ctypes.CDLL(None).syscall({}, 0)",
        nix::libc::SYS_exit
    );
    if !has_program("python3") {
        return;
    }
    let script = format!(
        "python3 -c '{script}' & echo $! > left; until grep -q 'State:.Z' /proc/$!/status; do sleep 0.01; done"
    );
    let ended = scene.run(&["hold", "--", "sh", "-c", &script]);
    let left: i32 = scene.read("left").trim().parse().unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(left),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    process_is_gone(left);
    ended.expect(
        0,
        &[&format!(
            "the command left processes behind, and the lock is released now: PID {left}"
        )],
    );
}

#[test]
fn a_directory_that_was_renamed_meanwhile_is_released_all_the_same() {
    let scene = crate::a_scene();
    scene
        .run(&["hold", "--", "sh", "-c", "mv .beads moved; exit 7"])
        .expect(7, &["released .beads"]);
    assert_eq!(fs::read_dir(scene.file("moved")).unwrap().count(), 0);
}

#[test]
fn a_release_that_waits_for_the_gate_says_so_and_hears_a_signal() {
    let scene = crate::a_scene();
    let script = "until test -e go; do sleep 0.01; done; exit 7";
    let running = Running::apart(scene.beadlock(&["hold", "--", "sh", "-c", script]));
    until("it is claimed", || running.err().contains("claimed"));
    let gate = beadlock_core::gate::Gate::try_take(&scene.beads())
        .unwrap()
        .unwrap();
    fs::write(scene.file("go"), "").unwrap();
    let dir = fs::canonicalize(scene.beads()).unwrap();
    let words = format!("waiting for the gate of {} ", dir.display());
    until("it says whom it waits for", || {
        running.err().contains(&words)
    });
    running.signal(nix::sys::signal::Signal::SIGTERM);
    running.end().expect(
        7,
        &[
            "the lock was not released: stopped by SIGTERM",
            "type: beadlock check .beads",
        ],
    );
    drop(gate);
    scene.run(&["check"]).expect(0, &[]);
}

/// The commands that print text for people or shells have no JSON.
#[test]
fn what_has_no_json_says_so() {
    let scene = crate::a_scene();
    for name in ["help", "man", "completions bash", "schema"] {
        let words: Vec<_> = name.split(' ').chain(["--json"]).collect();
        let ended = scene.run(&words);
        assert_eq!(ended.code, 2, "{ended:?}");
        let error = &ended.json()["error"];
        assert_eq!(error["code"], "USAGE", "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("no JSON envelope"), "{message}");
        // A variable is for whatever has it.
        let mut command = scene.beadlock(&words[..words.len() - 1]);
        command.env("BEADLOCK_JSON", "1");
        assert_eq!(Running::apart(command).end().code, 0, "{name}");
    }
}

#[test]
fn an_unknown_command_is_a_mistake_of_the_command_line() {
    let scene = crate::a_scene();
    for words in [
        &["hold", "--json", "--", "nosuch"][..],
        &["cycle", "--json", "--", "nosuch"],
        &["update", "--json", "file:x", "--", "nosuch"],
    ] {
        let ended = scene.run(words);
        assert_eq!(ended.code, 127, "{ended:?}");
        assert_eq!(ended.json()["error"]["code"], "USAGE", "{ended:?}");
    }
}

/// The data beside an error: the part that could be answered, in its usual form; else nothing.
#[test]
fn the_data_beside_an_error_is_what_could_be_answered() {
    let scene = crate::a_scene();
    scene.write_shell_lock("vc", std::process::id().into(), &this_host());
    let data = |words: &[&str]| {
        let json = scene.run(words).json();
        assert_eq!(json["ok"], false, "{words:?}: {json}");
        json["data"].clone()
    };
    for command in ["check", "status", "list", "log"] {
        assert_eq!(data(&[command, "nowhere", "--json"]), serde_json::json!([]));
    }
    for command in ["check", "status"] {
        let both = data(&[command, ".beads", "nowhere", "--json"]);
        assert_eq!(both.as_array().unwrap().len(), 1, "{both}");
    }
    let skipped = data(&["cycle", "--json", "--", "true"]);
    assert_eq!(skipped["decision"], "skip", "{skipped}");
    for words in [
        &["hold", "--no-wait", "--json", "--", "true"][..],
        &["hold", "--json", "--", "nosuch"],
        &["acquire", "--no-wait", "--json"],
        &["cycle", "nowhere", "--json", "--", "true"],
        &["wait", "--wait", "0", "--json"],
        &["release", "--id", "x", "--json"],
        &["break", "--id", "x", "--json"],
        &["doctor", "nowhere", "--json"],
        &["write", "file:nowhere/x", "--json"],
    ] {
        assert_eq!(data(words), serde_json::Value::Null, "{words:?}");
    }
}
