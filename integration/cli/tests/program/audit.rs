//! `--audit`: what `hold`, `acquire` and `release` write down.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, Scene, as_nobody, dead_pid, shell_lock_text, this_host, until};
use serde_json::Value;

use crate::acquire::Printed;

/// The lines of the file, each of them one whole JSON object.
#[track_caller]
fn lines(scene: &Scene, file: &str) -> Vec<Value> {
    let text = scene.read(file);
    assert!(text.ends_with('\n'), "{text}");
    let check = |line: &str| {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value.is_object() && value["truncated"] == false, "{line}");
        value
    };
    text.lines().map(check).collect()
}

fn words(lines: &[Value]) -> Vec<(&str, &str)> {
    lines
        .iter()
        .map(|line| {
            (
                line["event"].as_str().unwrap(),
                line["reason"].as_str().unwrap_or("-"),
            )
        })
        .collect()
}

#[test]
fn a_hold_is_two_lines_of_one_request() {
    let scene = crate::a_scene();
    let words_of_hold = [
        "hold",
        "--audit",
        "audit",
        "--report",
        "report",
        "--holder",
        "release job",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    scene.run(&words_of_hold).expect(3, &[]);
    let lines = lines(&scene, "audit");
    assert_eq!(
        words(&lines),
        [("lock_acquired", "-"), ("lock_released", "command_ended")]
    );
    let path = fs::canonicalize(scene.beads())
        .unwrap()
        .join(".exclusive-lock");
    let report: Value = serde_json::from_str(&scene.read("report")).unwrap();
    for line in &lines {
        assert_eq!(line["request_id"], report["meta"]["request_id"]);
        assert_eq!(
            (&line["lock_name"], line["lock_path"].as_str()),
            (&"beads:.beads".into(), path.to_str())
        );
        let by = &line["by"];
        assert_eq!(
            (&by["holder"], &by["program"], &by["hostname"]),
            (
                &"release job".into(),
                &"beadlock".into(),
                &this_host().into()
            )
        );
        assert!(
            by["pid"].as_i64().unwrap() > 0 && by["uid"].is_u64(),
            "{by}"
        );
        assert_eq!(
            (&line["lock"]["holder"], &line["lock"]["pid"]),
            (&"release job".into(), &report["data"]["pid"])
        );
        assert_eq!(line["lock"]["beadlock"]["id"], report["data"]["id"]);
        let stamp = line["timestamp"].as_str().unwrap();
        assert!(stamp.len() == 20 && stamp.ends_with('Z'), "{stamp}");
    }
    assert_eq!(
        (
            &lines[0]["held_duration_seconds"],
            &lines[1]["held_duration_seconds"]
        ),
        (&Value::Null, &0.into())
    );
    let mode = fs::metadata(scene.file("audit"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn what_is_in_the_way_is_written_down_with_its_record() {
    let scene = crate::a_scene();
    let mut command = scene.beadlock(&["hold", "--no-wait", "--", "true"]);
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    command.env("BEADLOCK_AUDIT", "audit");
    Running::apart(command).end().expect(4, &[]);
    scene
        .run(&["acquire", "--no-wait", "--audit", "audit"])
        .expect(4, &[]);
    scene.write_shell_lock("remote", 1, "elsewhere");
    scene
        .run(&["hold", "--wait", "50ms", "--audit", "audit", "--", "true"])
        .expect(4, &[]);
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    scene
        .run(&["hold", "--drain", "50ms", "--audit", "audit", "--", "true"])
        .expect(4, &[]);
    drop(gate);
    fs::write(scene.lock(), "{").unwrap();
    scene
        .run(&["hold", "--audit", "audit", "--", "true"])
        .expect(5, &[]);
    let lines = lines(&scene, "audit");
    let reasons = [
        "pid_alive",
        "pid_alive",
        "other_host",
        "gate_busy",
        "malformed",
    ];
    assert_eq!(
        words(&lines),
        reasons.map(|reason| ("lock_blocked", reason))
    );
    let holders: Vec<&Value> = lines.iter().map(|line| &line["lock"]["holder"]).collect();
    assert_eq!(
        holders[..3],
        [&Value::from("vc"), &"vc".into(), &"remote".into()]
    );
    assert!(
        lines.iter().all(|line| line["error"]
            .as_str()
            .is_some_and(|error| !error.is_empty())),
        "{lines:?}"
    );
}

#[test]
fn a_stale_lock_that_is_taken_over_is_written_down() {
    let scene = crate::a_scene();
    let dead = i64::from(dead_pid());
    for claim in [
        &["hold", "--audit", "audit", "--", "true"][..],
        &["acquire", "--audit", "audit"],
    ] {
        scene.write_shell_lock("crashed", dead, &this_host());
        let ended = scene
            .run(claim)
            .expect(0, &["removed stale lock of crashed"]);
        if claim[0] == "acquire" {
            let id = Printed::of(&ended).id;
            scene
                .run(&["release", "--id", &id, "--audit", "audit"])
                .expect(0, &[]);
        }
    }
    let lines = lines(&scene, "audit");
    let stale = ("lock_stale_removed", "pid_gone");
    let expected = [
        stale,
        ("lock_acquired", "-"),
        ("lock_released", "command_ended"),
        stale,
        ("lock_acquired", "-"),
        ("lock_released", "released"),
    ];
    assert_eq!(words(&lines), expected);
    for line in [&lines[0], &lines[3]] {
        assert_eq!(
            (
                &line["previous_lock"]["holder"],
                &line["previous_lock"]["pid"]
            ),
            (&"crashed".into(), &dead.into())
        );
        assert!(
            line["watched"] == "lease" || line["watched"] == "comparison",
            "{line}"
        );
        assert_eq!(line["lock"], Value::Null);
    }
}

#[test]
fn a_loss_is_written_down() {
    let scene = crate::a_scene();
    let script = "rm .beads/.exclusive-lock; sleep 300";
    scene
        .run(&["hold", "--audit", "audit", "--", "sh", "-c", script])
        .expect(9, &[]);
    fs::write(scene.file("foreign"), shell_lock_text("vc", 1, "elsewhere")).unwrap();
    let script = "cp foreign .beads/.exclusive-lock; sleep 300";
    scene
        .run(&["hold", "--audit", "audit", "--", "sh", "-c", script])
        .expect(9, &[]);
    let lines = lines(&scene, "audit");
    let acquired = ("lock_acquired", "-");
    assert_eq!(
        words(&lines),
        [
            acquired,
            ("lock_lost", "vanished"),
            acquired,
            ("lock_lost", "changed")
        ]
    );
    assert!(
        lines[1]["detail"].as_str().unwrap().contains("vanished"),
        "{}",
        lines[1]
    );
    assert!(
        lines[3]["detail"].as_str().unwrap().contains("is vc's now"),
        "{}",
        lines[3]
    );
    assert_eq!(lines[1]["lock"]["holder"], "sh", "the record that was lost");
}

/// Before anything is claimed, and before the command is started.
#[test]
fn a_file_that_is_none_is_refused_before_anything_is_claimed() {
    let scene = crate::a_scene();
    std::os::unix::fs::symlink("target", scene.file("link")).unwrap();
    std::os::unix::fs::symlink("nowhere/target", scene.file("dangling")).unwrap();
    fs::create_dir(scene.file("dir")).unwrap();
    nix::unistd::mkfifo(&scene.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for (file, why) in [
        ("link", "is a symbolic link"),
        ("dangling", "is a symbolic link"),
        ("dir", "cannot be opened"),
        ("fifo", "FIFO"),
        ("nowhere/audit", "cannot be opened"),
        ("/dev/null", "not a regular file"),
    ] {
        for claim in [
            &["hold", "--audit", file, "--", "touch", "ran"][..],
            &["acquire", "--audit", file],
            &["acquire", "--detach", "--audit", file],
        ] {
            let ended = scene.run(claim).expect(1, &["the audit file", why]);
            assert_eq!(ended.out, "");
        }
        let mut command = scene.beadlock(&["hold", "--", "touch", "ran"]);
        command.env("BEADLOCK_AUDIT", file);
        Running::apart(command).end().expect(1, &[why]);
    }
    assert!(
        scene.names().is_empty() && !scene.file("target").exists() && !scene.file("ran").exists()
    );
    // What was typed beats the variable; an empty one is none.
    let mut command = scene.beadlock(&["hold", "--audit", "typed", "--", "true"]);
    command.env("BEADLOCK_AUDIT", "link");
    Running::apart(command).end().expect(0, &[]);
    assert_eq!(lines(&scene, "typed").len(), 2);
    let mut command = scene.beadlock(&["hold", "--", "true"]);
    command.env("BEADLOCK_AUDIT", "");
    Running::apart(command).end().expect(0, &[]);
}

/// `ulimit -f`: the write fails, and neither the program nor its claim. The command gets the signal's action as it was.
#[test]
fn a_limit_for_files_is_a_line_that_is_missing_and_no_more() {
    let scene = crate::a_scene();
    let full = "x".repeat(100_000) + "\n";
    fs::write(scene.file("audit"), &full).unwrap();
    let hold = "\"$BEADLOCK\" hold --audit audit -- sh -c 'grep ^SigIgn: /proc/self/status > ignored; exit 7'";
    let is_ignored = || {
        let line = scene.read("ignored");
        let bits = u64::from_str_radix(line.trim_start_matches("SigIgn:").trim(), 16).unwrap();
        bits >> (nix::sys::signal::Signal::SIGXFSZ as u32 - 1) & 1 == 1
    };
    for (before, expected) in [("", false), ("trap '' XFSZ;", true)] {
        let ended = Running::apart(scene.shell(&format!("{before} ulimit -f 16; {hold}"))).end();
        ended.expect(
            7,
            &[
                "warning: lock_acquired of ",
                "is not in the audit file",
                "file too large; raise the limit for files",
                "released .beads",
            ],
        );
        assert_eq!(
            (is_ignored(), scene.names().len()),
            (expected, 0),
            "{before:?}"
        );
    }
    let script = "ulimit -f 16; \"$BEADLOCK\" acquire --detach --audit audit --max-hold 1h > out || exit 3; . ./out; \
                  \"$BEADLOCK\" release --audit audit --id \"$BEADLOCK_ID\"";
    Running::apart(scene.shell(script))
        .end()
        .expect(0, &["file too large", "released .beads"]);
    assert!(scene.read("audit") == full && scene.names().is_empty());
}

/// The file is its owner's to open again, whatever the umask.
#[test]
fn a_umask_that_leaves_nothing_is_none_for_the_trail() {
    let scene = crate::a_scene();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = scene.shell("umask 777; exec \"$BEADLOCK\" hold --audit audit -- true");
    // Root may open it whatever its mode.
    as_nobody(&mut command);
    let ended = Running::apart(command)
        .end()
        .expect(0, &["released .beads"]);
    assert!(!ended.err.contains("warning"), "{ended:?}");
    assert_eq!(lines(&scene, "audit").len(), 2);
    assert_eq!(
        fs::metadata(scene.file("audit"))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777,
        0o600
    );
}

#[test]
fn a_claim_that_is_refused_in_its_own_cycle_is_written_down() {
    let scene = crate::a_scene();
    let _gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    for args in [
        &["hold", "--", "true"][..],
        &["acquire"],
        &["acquire", "--detach"],
    ] {
        let mut command = scene.beadlock(args);
        command
            .env("BEADLOCK_AUDIT", "audit")
            .env("BEADLOCK_CYCLE", scene.beads());
        Running::apart(command)
            .end()
            .expect(4, &["inside a sync cycle of"]);
        let lines = lines(&scene, "audit");
        assert_eq!(words(&lines), [("lock_blocked", "gate_busy")], "{args:?}");
        fs::remove_file(scene.file("audit")).unwrap();
    }
}

/// A stale lock lay aside, and a live one in its place: the one is removed, the claim refused.
#[test]
fn a_removal_is_written_down_also_when_the_claim_is_refused() {
    let scene = crate::a_scene();
    fs::write(
        scene.beads().join(".exclusive-lock.aside"),
        shell_lock_text("crashed", i64::from(dead_pid()), &this_host()),
    )
    .unwrap();
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    let ended = scene.run(&["hold", "--no-wait", "--audit", "audit", "--", "true"]);
    ended.expect(4, &["removed stale lock of crashed (PID ", "is held by vc"]);
    let lines = lines(&scene, "audit");
    assert_eq!(
        words(&lines),
        [
            ("lock_stale_removed", "pid_gone"),
            ("lock_blocked", "pid_alive")
        ]
    );
    assert_eq!(
        lines[0]["previous_lock"]["holder"], "crashed",
        "{}",
        lines[0]
    );
    assert_eq!(scene.names(), [".exclusive-lock"]);
}

/// Once the work has begun the trail never stands in its way.
#[test]
fn a_file_that_goes_bad_meanwhile_is_said_and_no_more() {
    let scene = crate::a_scene();
    let script = "rm audit; ln -s elsewhere audit; exit 7";
    let ended = scene.run(&["hold", "--audit", "audit", "--", "sh", "-c", script]);
    ended.expect(
        7,
        &[
            "warning: lock_released of ",
            "is not in the audit file",
            "released .beads",
        ],
    );
    assert!(!scene.file("elsewhere").exists() && scene.names().is_empty());
    // Renamed by a log rotation: the next line begins the new one.
    let script = "mv audit audit.1";
    let _ = fs::remove_file(scene.file("audit"));
    scene
        .run(&["hold", "--audit", "audit", "--", "sh", "-c", script])
        .expect(0, &[]);
    assert_eq!(
        (lines(&scene, "audit.1").len(), lines(&scene, "audit").len()),
        (1, 1)
    );
}

#[test]
fn lines_of_many_at_once_never_mix() {
    let scene = crate::a_scene();
    let script = "until test -e go; do sleep 0.01; done";
    let holds: Vec<Running> = (0..20)
        .map(|number| {
            let target = format!("lock:lock {number}");
            Running::apart(scene.beadlock(&[
                "hold", &target, "-q", "--audit", "audit", "--", "sh", "-c", script,
            ]))
        })
        .collect();
    until("all are claimed", || {
        scene.read("audit").lines().count() == 20
    });
    fs::write(scene.file("go"), "").unwrap();
    for hold in holds {
        hold.end().expect(0, &[]);
    }
    let lines = lines(&scene, "audit");
    let of = |event: &str| {
        let mut names: Vec<&str> = lines
            .iter()
            .filter(|line| line["event"] == event)
            .map(|line| line["lock_name"].as_str().unwrap())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    assert_eq!(
        (lines.len(), of("lock_acquired"), of("lock_released")),
        (40, 20, 20)
    );
}
