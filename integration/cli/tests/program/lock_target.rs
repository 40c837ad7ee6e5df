//! `lock:PATH`: the beads rule for a lock file anywhere, with the words of REQ-F-033.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools and crashes do to a lock file"
)]

use std::fs;
use std::path::PathBuf;

use beadlock_testkit::{Ended, Running, Scene, dead_pid, shell_lock_text, this_host, until};
use serde_json::Value;

use crate::acquire::{Printed, Sleeper, keepers};

fn scene() -> (Scene, PathBuf) {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("run")).unwrap();
    let lock = fs::canonicalize(scene.file("run"))
        .unwrap()
        .join("deploy.lock");
    (scene, lock)
}

/// The names in the lock's directory, sorted.
fn names(scene: &Scene) -> Vec<String> {
    let entries = fs::read_dir(scene.file("run")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

const TARGET: &str = "lock:run/deploy.lock";

#[test]
fn a_command_runs_under_it_and_the_record_is_the_beads_one() {
    let (scene, lock) = scene();
    let script = "cp run/deploy.lock seen; echo \"$BEADLOCK_HELD_TARGET\" > target; \"$BEADLOCK\" hold \"$0\" --no-wait -q -- true";
    let ended = scene.run(&["hold", TARGET, "--", "sh", "-c", script, TARGET]);
    ended.expect(
        0,
        &[
            "claimed lock:run/deploy.lock for sh (PID ",
            "released lock:run/deploy.lock after ",
        ],
    );
    let record: Value = serde_json::from_str(&scene.read("seen")).unwrap();
    let keys: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["holder", "pid", "hostname", "started_at", "beadlock"]
    );
    assert_eq!(scene.read("target"), format!("lock:{}\n", lock.display()));
    assert!(names(&scene).is_empty() && scene.names().is_empty());
}

#[test]
fn check_and_status_answer_by_the_beads_rule() {
    let (scene, lock) = scene();
    let check = |words: &[&str]| scene.run(&[&["check", TARGET], words].concat());
    assert_eq!(check(&[]).expect(0, &[]).out, "");
    let sleeper = Sleeper::start();
    fs::write(
        &lock,
        shell_lock_text("deploy", sleeper.pid().parse().unwrap(), &this_host()),
    )
    .unwrap();
    assert_eq!(
        check(&[]).expect(4, &[]).out,
        "Skipping (locked by deploy)\n"
    );
    let ended = scene.run(&["status", TARGET, "--json"]).expect(0, &[]);
    let status = &ended.json()["data"][0];
    assert_eq!(
        (&status["target"], status["path"].as_str()),
        (&TARGET.into(), lock.to_str())
    );
    assert_eq!(
        (&status["verdict"], &status["holder"]),
        (&"held".into(), &"deploy".into())
    );
    drop(sleeper);
    assert_eq!(
        check(&["--dry-run"]).expect(0, &[]).out,
        "Stale lock (deploy) would be removed\n"
    );
    assert_eq!(
        check(&[]).expect(0, &[]).out,
        "Removed stale lock (deploy)\n"
    );
    fs::write(&lock, "").unwrap();
    check(&[]).expect(5, &[]);
    fs::write(&lock, shell_lock_text("deploy", 1, "elsewhere")).unwrap();
    assert_eq!(
        check(&["--json"]).expect(4, &[]).json()["data"][0]["reason"],
        "other_host"
    );
}

/// The wire format of docs/protocols/framework.md, with PID, age and path in the places of its example's.
#[test]
fn a_wait_that_ran_out_has_the_documents_words() {
    let (scene, lock) = scene();
    let sleeper = Sleeper::start();
    let pid = sleeper.pid();
    fs::write(
        &lock,
        shell_lock_text("deploy", pid.parse().unwrap(), &this_host()),
    )
    .unwrap();
    for (words, limit) in [
        (&["--wait", "200ms"][..], "200ms"),
        (&["--wait", "1s"], "1s"),
        (&["--no-wait"], "0ms"),
    ] {
        for command in [
            &["hold", TARGET, "--json"][..],
            &["acquire", TARGET, "--json"],
        ] {
            let tail = if command[0] == "hold" {
                &["--", "true"][..]
            } else {
                &[]
            };
            let ended = scene.run(&[command, words, tail].concat()).expect(4, &[]);
            let json = ended.json();
            let envelope: Vec<&String> = json.as_object().unwrap().keys().collect();
            assert_eq!(envelope, ["ok", "data", "error", "warnings", "meta"]);
            assert_eq!((&json["ok"], &json["data"]), (&false.into(), &Value::Null));
            let error = &json["error"];
            let fields: Vec<&String> = error.as_object().unwrap().keys().collect();
            assert_eq!(
                fields,
                ["code", "message", "retryable", "retry_after_ms", "detail"]
            );
            assert_eq!(
                (&error["code"], &error["retryable"]),
                (&"LOCK_HELD".into(), &true.into())
            );
            assert!(error["retry_after_ms"].as_u64().unwrap() > 0);
            let detail = error["detail"].as_str().unwrap();
            let start = format!(
                "lock_file={} holder_pid={pid} holder_age_ms=",
                lock.display()
            );
            let age: u64 = detail
                .strip_prefix(&start)
                .unwrap_or_else(|| panic!("{detail}"))
                .parse()
                .unwrap();
            let seconds = age / 1000;
            let message = format!(
                "Resource lock held by PID {pid} (age: {seconds}s) — acquisition timed out after {limit}"
            );
            assert_eq!(error["message"], message.as_str());
            assert!(
                ended.err.ends_with(&format!("error: {message}\n")),
                "{ended:?}"
            );
            assert!(json["meta"]["duration_ms"].is_u64() && json["meta"]["request_id"].is_string());
        }
    }
}

/// The command line beats it, also with a longer one.
#[test]
fn the_environment_says_for_how_long_it_waits() {
    let (scene, lock) = scene();
    let sleeper = Sleeper::start();
    fs::write(
        &lock,
        shell_lock_text("deploy", sleeper.pid().parse().unwrap(), &this_host()),
    )
    .unwrap();
    for (words, limit) in [(&[][..], "200ms"), (&["--wait", "300ms"], "300ms")] {
        for command in [
            &["hold", TARGET, "--json"][..],
            &["acquire", TARGET, "--json"],
            &["wait", TARGET, "--json"],
        ] {
            let tail = if command[0] == "hold" {
                &["--", "true"][..]
            } else {
                &[]
            };
            let mut command = scene.beadlock(&[command, words, tail].concat());
            command.env("BEADLOCK_WAIT", "200ms");
            let json = Ended::of(&command.output().unwrap()).expect(4, &[]).json();
            let message = json["error"]["message"].as_str().unwrap();
            assert!(
                message.ends_with(&format!("acquisition timed out after {limit}")),
                "{message}"
            );
            assert!(
                json["meta"]["duration_ms"].as_u64().unwrap() < 10_000,
                "{json}"
            );
        }
    }
}

#[test]
fn it_waits_for_the_holder_and_takes_over_from_a_dead_one() {
    let (scene, lock) = scene();
    let sleeper = Sleeper::start();
    fs::write(
        &lock,
        shell_lock_text("crashed", sleeper.pid().parse().unwrap(), &this_host()),
    )
    .unwrap();
    let waiting = Running::apart(scene.beadlock(&["hold", TARGET, "--wait", "1h", "--", "true"]));
    until("it waits", || waiting.err().contains("waiting"));
    drop(sleeper);
    waiting.end().expect(
        0,
        &[
            "removed stale lock of crashed (PID ",
            "claimed lock:run/deploy.lock",
        ],
    );
    fs::write(
        &lock,
        shell_lock_text("crashed", i64::from(dead_pid()), &this_host()),
    )
    .unwrap();
    let ended = scene
        .run(&["acquire", TARGET, "--no-wait"])
        .expect(0, &["removed stale lock of crashed"]);
    scene
        .run(&["release", TARGET, "--id", &Printed::of(&ended).id])
        .expect(0, &[]);
    assert!(names(&scene).is_empty());
}

#[test]
fn acquire_and_release_from_anywhere() {
    let (scene, lock) = scene();
    let printed = Printed::of(&scene.run(&["acquire", TARGET, "-q"]).expect(0, &[]));
    assert_eq!(printed.target, format!("lock:{}", lock.display()));
    let with = |words: &[&str]| {
        let mut command = scene.beadlock(words);
        command
            .current_dir("/")
            .env("BEADLOCK_TARGET", &printed.target)
            .env("BEADLOCK_ID", &printed.id);
        Running::apart(command).end()
    };
    with(&["check"]).expect(4, &[]);
    with(&["hold", "-q", "--no-wait", "--", "true"]).expect(0, &[]);
    assert_eq!(names(&scene), ["deploy.lock"]);
    with(&["release"]).expect(0, &["released lock:/"]);
    with(&["release"]).expect(9, &["deploy.lock is not there any more"]);
    let ended = scene
        .run(&["acquire", TARGET, "-q", "--detach", "--max-hold", "1h"])
        .expect(0, &[]);
    let theirs = fs::read(&lock).unwrap();
    with(&["release"]).expect(9, &["was not touched"]);
    assert_eq!(fs::read(&lock).unwrap(), theirs);
    scene
        .run(&["release", TARGET, "--id", &Printed::of(&ended).id])
        .expect(0, &[]);
    until("the keeper has ended", || keepers(&scene).is_empty());
}

#[test]
fn a_side_file_is_recovered() {
    let (scene, lock) = scene();
    let aside = lock.with_file_name("deploy.lock.aside");
    let sleeper = Sleeper::start();
    let live = shell_lock_text("deploy", sleeper.pid().parse().unwrap(), &this_host());
    fs::write(&aside, &live).unwrap();
    scene.run(&["check", TARGET]).expect(4, &[]);
    assert_eq!(
        (fs::read_to_string(&lock).unwrap(), aside.exists()),
        (live, false)
    );
    fs::rename(&lock, &aside).unwrap();
    drop(sleeper);
    scene
        .run(&["hold", TARGET, "--no-wait", "--", "true"])
        .expect(0, &[]);
    assert!(names(&scene).is_empty(), "{:?}", names(&scene));
}

#[test]
fn a_name_that_is_no_locks_is_refused() {
    let (scene, _) = scene();
    fs::write(scene.file("run/x.aside"), "somebody's").unwrap();
    let long = format!("lock:run/{}", "x".repeat(224));
    for (target, code, word) in [
        ("lock:", 2, "the target is empty"),
        ("lock:run/", 2, "names no file"),
        ("lock:run/.", 2, "names no file"),
        ("lock:run/new/", 2, "names no file"),
        ("lock:.", 2, "names no file"),
        ("lock:..", 2, "names no file"),
        ("lock:/", 2, "names no file"),
        (
            "lock:run/x.aside",
            2,
            "is what lock:run/x calls a file beside it",
        ),
        (
            &long,
            2,
            "a lock's name has at most 223 bytes, this one has 224",
        ),
        (
            "lock:run/x.tmp-7-0123abcd",
            2,
            "is what lock:run/x calls a file beside it",
        ),
        ("lock:nowhere/x", 1, "nowhere"),
        ("LOCK:run/x", 2, "unknown scheme LOCK:"),
    ] {
        scene
            .run(&["hold", target, "--", "touch", "ran"])
            .expect(code, &[word]);
        assert_eq!(
            scene.run(&["acquire", target]).expect(code, &[word]).out,
            ""
        );
        scene
            .run(&["release", target, "--id", "x"])
            .expect(code, &[word]);
        scene.run(&["check", target]).expect(code, &[word]);
        scene.run(&["status", target]).expect(code, &[word]);
    }
    assert!(!scene.file("ran").exists());
    assert_eq!(names(&scene), ["x.aside"]);
    scene
        .run(&["hold", "lock:run/a:b .x", "--", "true"])
        .expect(0, &["claimed lock:run/a:b .x for true"]);
    // The longest has room for all that is called by it.
    let (long, dead) = ("x".repeat(223), shell_lock_text("deploy", 1, "elsewhere"));
    fs::write(scene.file("run").join(&long), dead).unwrap();
    let target = format!("lock:run/{long}");
    scene
        .run(&["break", &target, "--holder", "deploy", "--even-if-live"])
        .expect(0, &[]);
    scene.run(&["hold", &target, "--", "true"]).expect(0, &[]);
    assert!(
        names(&scene)
            .iter()
            .any(|name| name.len() == 252 && name.starts_with(&long)),
        "{:?}",
        names(&scene)
    );
}

/// As in a database: no lock, and nothing that a claim or a check may touch.
#[test]
fn a_directory_in_the_locks_place_is_unreadable() {
    let (scene, lock) = scene();
    fs::create_dir(&lock).unwrap();
    std::os::unix::fs::symlink("deploy.lock", lock.with_file_name("link")).unwrap();
    let line = "Skipping (lock check failed: failed to read lock file: it is";
    for (target, what) in [
        (TARGET, "a directory"),
        ("lock:run/link", "a symbolic link"),
    ] {
        assert_eq!(
            scene.run(&["check", target]).expect(5, &[]).out,
            format!("{line} {what})\n")
        );
        let ended = scene
            .run(&["hold", target, "--json", "--", "touch", "ran"])
            .expect(5, &[what]);
        assert_eq!(ended.json()["error"]["code"], "LOCK_UNREADABLE");
        scene.run(&["status", target]).expect(0, &[]);
        scene
            .run(&["release", target, "--id", "x"])
            .expect(5, &["was not touched"]);
    }
    assert_eq!(
        (names(&scene), scene.file("ran").exists()),
        (vec!["deploy.lock".into(), "link".into()], false)
    );
    scene
        .run(&["break", TARGET, "--malformed"])
        .expect(5, &["deploy.lock is not a lock file (", "--yes"]);
    scene
        .run(&["break", TARGET, "--malformed", "--yes"])
        .expect(0, &["broke a directory in place of the lock"]);
    assert!(!lock.exists());
}

/// Said once; there is nothing to be said a second time when the command ends.
#[test]
fn raw_bytes_that_cannot_be_written_are_one_failure() {
    let (scene, lock) = scene();
    fs::write(&lock, shell_lock_text("deploy", 1, "elsewhere")).unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = scene
        .beadlock(&["status", TARGET, "--raw"])
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(
        (
            ended.status.code(),
            said.matches("failed to write to stdout").count()
        ),
        (Some(1), 1),
        "{said}"
    );
}

/// `build.tmp-PID-notes.txt` is somebody's file, and no unfinished lock of `build`.
#[test]
fn a_claim_sweeps_nothing_but_unfinished_locks() {
    let (scene, _) = scene();
    let dead = i64::from(dead_pid());
    let ours = format!("run/build.tmp-{dead}-0123abcd");
    let theirs = ["notes.txt", "0123abcd.txt", "0123ABCD", "0123abc"];
    let theirs = theirs.map(|tail| format!("run/build.tmp-{dead}-{tail}"));
    for name in theirs.iter().chain([&ours]) {
        fs::write(scene.file(name), "precious").unwrap();
    }
    scene
        .run(&["hold", "-q", "lock:run/build", "--", "true"])
        .expect(0, &[]);
    for name in &theirs {
        assert_eq!(scene.read(name), "precious", "{name}");
    }
    assert!(!scene.file(&ours).exists());
}

/// Locks of one directory share the gate and nothing else: neither the side file, nor what a claim is nested under.
#[test]
fn neighbours_are_not_each_other() {
    let (scene, lock) = scene();
    let inner = "\"$BEADLOCK\" hold lock:run/other.lock --no-wait -- cp run/other.lock seen || exit 3; \
                 \"$BEADLOCK\" release lock:run/other.lock --id \"$BEADLOCK_HELD_ID\"; echo $? > code; \
                 test -e run/deploy.lock";
    let ended = scene
        .run(&["hold", TARGET, "--", "sh", "-c", inner])
        .expect(0, &["claimed lock:run/other.lock for cp"]);
    assert_eq!(
        (
            ended.err.matches("beadlock: released lock:").count(),
            scene.read("code").as_str()
        ),
        (2, "9\n"),
        "{ended:?}"
    );
    assert!(scene.file("seen").exists() && names(&scene).is_empty());
    // The name of the one is the beginning of the other's, and of its side file's.
    let sleeper = Sleeper::start();
    let live = |holder: &str| shell_lock_text(holder, sleeper.pid().parse().unwrap(), &this_host());
    fs::write(&lock, live("one")).unwrap();
    fs::write(lock.with_file_name("deploy"), live("two")).unwrap();
    scene
        .run(&[
            "hold",
            "lock:run/deploy.lock.bak",
            "--no-wait",
            "--",
            "true",
        ])
        .expect(0, &[]);
    for (target, holder) in [("lock:run/deploy", "two"), (TARGET, "one")] {
        let out = scene.run(&["check", target]).expect(4, &[]).out;
        assert_eq!(out, format!("Skipping (locked by {holder})\n"));
    }
    assert_eq!(names(&scene), ["deploy", "deploy.lock"]);
}

/// A hold knows all the holds around it, whatever lies between: it would wait for its own ancestor.
#[test]
fn a_hold_within_a_hold_of_another_target_knows_its_outer_claim() {
    let (scene, _) = scene();
    let inner = r#"
        "$BEADLOCK" hold --no-wait -q -- sh -c 'echo "$BEADLOCK_HELD_ID $BEADLOCK_HELD_IDS" > inner' || exit 3
        test "$("$BEADLOCK" acquire --no-wait -q .beads | grep _ID)" = "export BEADLOCK_ID='nested:$OUTER'" || exit 4
        "$BEADLOCK" release .beads --id "$OUTER" 2> said || exit 5
        echo "$BEADLOCK_HELD_ID $BEADLOCK_HELD_IDS" > middle; cp .beads/.exclusive-lock seen"#;
    fs::write(scene.file("inner.sh"), inner).unwrap();
    let script = "export OUTER=$BEADLOCK_HELD_ID; exec \"$BEADLOCK\" hold \"$0\" -q -- sh inner.sh";
    scene
        .run(&["hold", "--", "sh", "-c", script, TARGET])
        .expect(0, &["released .beads"]);
    let (inner, middle) = (scene.read("inner"), scene.read("middle"));
    let (inner, middle): (Vec<&str>, Vec<&str>) =
        (inner.split(' ').collect(), middle.split(' ').collect());
    let [outer, first, second] = inner[..] else {
        panic!("{inner:?}")
    };
    assert_eq!(
        (outer, format!("{outer} {}\n", middle[0])),
        (first, format!("{first} {second}")),
        "{inner:?}"
    );
    assert_eq!(middle[1..], inner[1..]);
    assert!(scene.read("seen").contains(outer));
    assert!(
        scene
            .read("said")
            .contains("is still held by the outer claim, a hold"),
        "{}",
        scene.read("said")
    );
    assert!(names(&scene).is_empty() && scene.names().is_empty());
}

/// It is not watched from within: the outer one watches itself, and ends all that runs in it.
#[test]
fn the_loss_of_an_outer_hold_is_said_once() {
    let (scene, _) = scene();
    let script = "exec \"$BEADLOCK\" hold \"$0\" -q -- \"$BEADLOCK\" hold --no-wait -q -- \
                  sh -c 'rm .beads/.exclusive-lock; exec sleep 300'";
    let ended = scene
        .run(&["hold", "--", "sh", "-c", script, TARGET])
        .expect(9, &["lost the lock of .beads"]);
    assert_eq!(
        ended.err.matches("the lock is lost").count(),
        1,
        "{ended:?}"
    );
    assert!(names(&scene).is_empty() && scene.names().is_empty());
}

#[test]
fn its_loss_is_one_too() {
    let (scene, lock) = scene();
    let ended = scene.run(&[
        "hold",
        TARGET,
        "--",
        "sh",
        "-c",
        "rm run/deploy.lock; exec sleep 300",
    ]);
    ended.expect(
        9,
        &[
            "lost the lock of lock:run/deploy.lock after ",
            "beadlock status lock:run/deploy.lock",
        ],
    );
    let ended = scene.run(&[
        "hold",
        TARGET,
        "--",
        "sh",
        "-c",
        "mv run/deploy.lock run/deploy.lock.broken-20260101T000000Z.json; exec sleep 300",
    ]);
    ended.expect(
        9,
        &[
            "was broken by somebody",
            "deploy.lock.broken-20260101T000000Z.json",
        ],
    );
    assert!(!lock.exists());
}

/// There are no cycles here: nothing is drained, and the gate is free while the command runs.
#[test]
fn the_gate_is_only_for_the_moments_of_a_change() {
    let (scene, _) = scene();
    let script = "\"$BEADLOCK\" hold lock:run/second --drain 1s --no-wait -q -- true";
    scene
        .run(&["hold", TARGET, "--", "sh", "-c", script])
        .expect(0, &[]);
}
