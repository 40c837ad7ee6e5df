//! `beadlock doctor`: what can be done in a directory, tried on real file systems, and what follows.

mod git_merge;
mod mounts;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Running, Scene, as_nobody, dead_pid, this_host, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::acquire::with_word;

const BENCH: &str = ".exclusive-lock.doctor-";

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A scene whose `.beads` is as private as it should be.
fn scene() -> Scene {
    let scene = crate::a_scene();
    chmod(&scene.beads(), 0o700);
    scene
}

fn trial(json: &Value, name: &str) -> Value {
    let trials = json["data"]["trials"].as_array().unwrap();
    trials
        .iter()
        .find(|trial| trial["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {json}"))
        .clone()
}

fn guarantee(json: &Value, name: &str) -> (String, String) {
    let all = json["data"]["guarantees"].as_array().unwrap();
    let found = all
        .iter()
        .find(|one| one["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {json}"));
    let word = |key: &str| found[key].as_str().unwrap().to_owned();
    (word("holds"), word("how"))
}

/// The names of the trials that were not `ok`.
fn missing(json: &Value) -> Vec<String> {
    let trials = json["data"]["trials"].as_array().unwrap();
    let missing = trials.iter().filter(|trial| trial["ok"] != true);
    missing
        .map(|trial| trial["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_dolt_database_has_a_row_and_a_hold_says_what_it_keeps_away() {
    const LIMIT: &str = "beadlock: .beads is a Dolt database: this claim keeps away beadlock-agent and daemons that ask, \
                         but not bd\n";
    let scene = scene();
    let of_bd = |scene: &Scene| {
        let ended = scene.run(&["doctor", "--json"]);
        trial(&ended.json(), "asked_by_bd")
    };
    assert_eq!(of_bd(&scene)["ok"], true);
    let hold = |args: &[&str]| {
        scene
            .run(&[args, &["hold", "--", "true"]].concat())
            .expect(0, &[])
            .err
    };
    assert!(!hold(&[]).contains("Dolt"));

    fs::create_dir_all(scene.beads().join("embeddeddolt/bd/.dolt/noms")).unwrap();
    let row = of_bd(&scene);
    assert_eq!(
        (&row["ok"], &row["detail"]),
        (&json!(false), &json!("a Dolt database (embeddeddolt)"))
    );
    let said = hold(&[]);
    assert_eq!(said.matches(LIMIT).count(), 1, "{said}");
    assert!(said.find("claimed") < said.find("Dolt"), "{said}");
    assert_eq!(hold(&["-q"]), "");
    // Another kind of lock does not keep the database.
    let other = scene.run(&["hold", "lock:x", "--", "true"]).expect(0, &[]);
    assert!(!other.err.contains("Dolt"), "{other:?}");
}

#[test]
fn a_directory_that_may_not_be_written_or_read_is_no_place_for_locks() {
    for (mode, word, name) in [
        (0o555, "nothing can be locked here", "writable"),
        (0o733, "there is no gate", "gate_opens"),
    ] {
        let scene = scene();
        chmod(scene.path(), 0o755);
        chmod(&scene.beads(), mode);
        let mut command = scene.beadlock(&["doctor", "--json", ".beads"]);
        if !as_nobody(&mut command) {
            return;
        }
        let json = Running::apart(command).end().expect(5, &[]).json();
        let trial = trial(&json, name);
        assert_eq!(
            (&trial["ok"], &trial["detail"]),
            (&false.into(), &"permission denied".into()),
            "{json}"
        );
        let message = json["data"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("NO, ") && message.contains(word),
            "{message}"
        );
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

#[test]
fn says_who_else_may_write() {
    let scene = scene();
    chmod(&scene.beads(), 0o777);
    let ended = scene.run(&["doctor"]).expect(1, &[]);
    assert!(
        ended
            .out
            .contains("mode 0777, its group and every user may write"),
        "{ended:?}"
    );
    chmod(&scene.beads(), 0o755);
    let json = scene.run(&["doctor", "--json"]).json();
    let private = trial(&json, "private");
    assert_eq!(private["ok"], true);
    assert!(
        private["detail"]
            .as_str()
            .unwrap()
            .contains("0700 is better"),
        "{private}"
    );
    assert_eq!(guarantee(&json, "privacy").0, "yes");
}

#[test]
fn has_a_line_for_each_trial_and_each_promise() {
    let scene = scene();
    let json = scene.run(&["doctor", "--json"]).json();
    let mut keys: Vec<&str> = json["data"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["can_lock", "guarantees", "message", "path", "trials"]
    );
    let beads = fs::canonicalize(scene.beads()).unwrap();
    assert_eq!(json["data"]["path"], beads.to_str().unwrap());
    let text = scene.run(&["doctor"]).out;
    for trial in json["data"]["trials"].as_array().unwrap() {
        let mut keys: Vec<&str> = trial
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        assert_eq!(keys, ["detail", "means", "name", "next", "ok"]);
        let word = match trial["ok"].as_bool() {
            Some(true) => "ok",
            Some(false) => "no",
            None => "unknown",
        };
        let of = |key: &str| trial[key].as_str().unwrap().to_owned();
        let (name, detail, means) = (of("name").replace('_', " "), of("detail"), of("means"));
        let is_its = |line: &&str| {
            let says_what_it_means = word == "unknown" || line.ends_with(&means);
            line.trim_start().starts_with(word) && line.contains(&name) && says_what_it_means
        };
        assert_eq!(text.lines().filter(is_its).count(), 1, "{trial} in {text}");
        // Times and what is free differ from one run to the next.
        let is_steady =
            !["space", "fdatasync", "timestamps"].contains(&name.as_str()) && word == "ok";
        let has = |detail: &str| text.contains(detail.split(" at once").next().unwrap());
        let before_the_time = detail.split(" after ").next().unwrap();
        assert!(!is_steady || has(before_the_time), "{trial} in {text}");
    }
    for guarantee in json["data"]["guarantees"].as_array().unwrap() {
        let line = format!(
            "{}: {}",
            guarantee["promise"].as_str().unwrap(),
            guarantee["how"].as_str().unwrap()
        );
        assert!(text.contains(&line), "{line} in {text}");
    }
    assert!(!text.contains('\u{1b}'));
    assert!(
        scene
            .run(&["doctor", "--color", "always"])
            .out
            .contains("\u{1b}[32mok     \u{1b}[0m")
    );
}

#[test]
fn finds_its_directory_as_every_command_and_takes_a_plain_one() {
    let scene = scene();
    let first = |args: &[&str]| {
        scene
            .run(args)
            .out
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(first(&["doctor"]).starts_with(".beads: "));
    assert!(first(&["doctor", ".beads"]).starts_with(".beads: "));
    assert!(
        first(&["doctor", "."]).starts_with("./.beads (the database in .): "),
        "{}",
        first(&["doctor", "."])
    );
    fs::create_dir(scene.file("plain")).unwrap();
    let json = scene.run(&["doctor", "plain", "--json"]).json();
    let plain = fs::canonicalize(scene.file("plain")).unwrap();
    assert_eq!(
        json["data"]["path"],
        plain.to_str().unwrap(),
        "as it is, although a database is near"
    );
    let nowhere = scene
        .run(&["doctor", "nowhere", "--json"])
        .expect(1, &["nowhere does not exist"])
        .json();
    assert_eq!(
        (&nowhere["ok"], &nowhere["data"], &nowhere["error"]["code"]),
        (&false.into(), &Value::Null, &"NO_TARGET".into())
    );
    fs::write(scene.file("file"), "").unwrap();
    scene
        .run(&["doctor", "file"])
        .expect(1, &["file is not a directory"]);
    scene
        .run(&["doctor", "a", "b"])
        .expect(2, &["unexpected argument"]);
    scene
        .run(&["doctor", "ftp:x"])
        .expect(2, &["unknown scheme ftp:"]);
    fs::remove_dir(scene.beads()).unwrap();
    scene
        .run(&["doctor"])
        .expect(1, &["no .beads here or above"]);
}

/// What is promised, and which file git is to ignore, is that of the protocol.
#[test]
fn each_protocol_has_its_own_promises_and_its_own_file() {
    let scene = scene();
    fs::create_dir(scene.path().join("d")).unwrap();
    let mut git = scene.command("git");
    git.args(["init", "-q"]);
    Running::apart(git).end().expect(0, &[]);
    for (target, lock, promises) in [
        (
            ".beads",
            ".exclusive-lock",
            "claim drain live_lock stale_lock wake proof privacy",
        ),
        (
            "lock:d/build",
            "build",
            "claim live_lock stale_lock wake proof privacy",
        ),
        (
            "memory:d",
            ".lock",
            "claim live_lock stale_lock wake privacy",
        ),
        ("file:d/todo.json", "todo.json.lock", "claim wake privacy"),
    ] {
        let json = scene.run(&["doctor", target, "--json"]).json();
        let names: Vec<_> = json["data"]["guarantees"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert_eq!(names.join(" "), promises, "{target}");
        let ignored = trial(&json, "ignored_by_git");
        assert_eq!(
            ignored["detail"],
            format!("git does not ignore {lock}"),
            "{target}"
        );
        let next = ignored["next"].as_str().unwrap();
        assert!(next.contains(lock), "{target}: {next}");
    }
}

/// The lock stays as it is, and a gate that is shut is none of its business.
#[test]
fn touches_neither_the_lock_nor_the_gate() {
    let scene = scene();
    scene.write_shell_lock("vc", i64::from(dead_pid()), &this_host());
    fs::write(scene.beads().join(".exclusive-lock.aside"), "x").unwrap();
    let look = |name: &str| {
        let meta = fs::metadata(scene.beads().join(name)).unwrap();
        (meta.ino(), meta.mtime_nsec(), meta.ctime_nsec(), meta.len())
    };
    let names = [".exclusive-lock", ".exclusive-lock.aside"];
    let before = names.map(look);
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let json = scene.run(&["doctor", "--json"]).json();
    assert_eq!(trial(&json, "flock_processes")["ok"], true, "{json}");
    drop(gate);
    assert_eq!(names.map(look), before);
    assert_eq!(scene.names(), names);
    let running = caught(&scene);
    assert!(
        Gate::try_take(&scene.beads()).unwrap().is_some(),
        "the gate is free while it tries"
    );
    running.signal(Signal::SIGCONT);
    let code = running.end().code;
    assert!([0, 1].contains(&code), "{code}");
    assert_eq!(scene.names(), names);
}

fn benches(scene: &Scene) -> Vec<String> {
    scene
        .names()
        .into_iter()
        .filter(|name| name.starts_with(BENCH))
        .collect()
}

/// A doctor that was stopped in the middle of its trials.
fn caught(scene: &Scene) -> Running {
    for _ in 0..100 {
        let mut running = Running::apart(scene.beadlock(&["doctor", ".beads"]));
        until("it begins or ends", || {
            running.has_ended() || !benches(scene).is_empty()
        });
        if running.has_ended() {
            continue;
        }
        running.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", running.pid());
        let state = || {
            fs::read_to_string(&stat)
                .unwrap()
                .rsplit(") ")
                .next()
                .unwrap()
                .chars()
                .next()
        };
        until("it stands still", || matches!(state(), Some('T' | 'Z')));
        if state() == Some('T') && !benches(scene).is_empty() {
            return running;
        }
        running.signal(Signal::SIGCONT);
        running.end();
    }
    panic!("a hundred doctors, and none was caught in the middle");
}

#[test]
fn a_signal_ends_it_and_nothing_is_left() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
    ] {
        let scene = scene();
        let running = caught(&scene);
        running.signal(signal);
        running.signal(Signal::SIGCONT);
        let ended = running.end().expect(code, &[]);
        assert_eq!(
            ended.signal.is_some(),
            signal == Signal::SIGINT,
            "so that the script around it stops: {ended:?}"
        );
        assert_eq!(ended.out, "");
        assert!(scene.names().is_empty(), "{:?}", scene.names());
    }
}

fn second_processes(scene: &Scene) -> usize {
    with_word(scene, "--second-process").len()
}

#[test]
fn what_a_killed_one_leaves_is_swept_by_the_next() {
    let scene = scene();
    let running = caught(&scene);
    running.signal(Signal::SIGKILL);
    running.end().expect(137, &[]);
    assert_eq!(benches(&scene).len(), 1);
    until("its second process ends too", || {
        second_processes(&scene) == 0
    });
    scene.run(&["doctor"]);
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}

/// A PID says nothing about another machine's process: its bench is swept when it is too old to be anybody's.
#[test]
fn what_another_machine_may_be_at_is_left_alone() {
    let scene = scene();
    let make = |name: &str| {
        let dir = scene.beads().join(format!("{BENCH}{name}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        dir
    };
    let dead = i64::from(dead_pid());
    let (young, old) = (
        make(&format!("{dead}-00000000aa")),
        make(&format!("{dead}-00000000bb")),
    );
    let (alive, no_pid) = (
        make(&format!("{}-00000000cc", std::process::id())),
        make("x-dd"),
    );
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for dir in [&old, &alive, &no_pid] {
        fs::File::open(dir).unwrap().set_modified(long_ago).unwrap();
    }
    let link = scene.beads().join(format!("{BENCH}{dead}-00000000ee"));
    std::os::unix::fs::symlink("../kept", &link).unwrap();
    fs::create_dir(scene.file("kept")).unwrap();
    fs::write(scene.file("kept/file"), "").unwrap();
    scene.run(&["doctor"]);
    assert!(!old.exists(), "an hour old, and dead");
    assert!(young.exists() && alive.exists() && no_pid.exists() && link.is_symlink());
    assert!(scene.file("kept/file").exists(), "nothing is followed");
}

#[test]
fn the_second_process_works_on_a_bench_only() {
    let scene = scene();
    fs::write(scene.file("file"), "mine").unwrap();
    let mut command = scene.shell("echo remove | $BEADLOCK doctor --second-process");
    command.env("LC_ALL", "C");
    Running::apart(command).end().expect(2, &[]);
    assert_eq!(scene.read("file"), "mine");
    let help = Command::new(env!("CARGO_BIN_EXE_beadlock"))
        .args(["doctor", "--help"])
        .env_clear()
        .output()
        .unwrap();
    assert!(
        !String::from_utf8_lossy(&help.stdout).contains("second"),
        "it is nobody's to type"
    );
}

#[test]
fn two_at_once_do_not_disturb_each_other() {
    let scene = scene();
    let running: Vec<Running> = (0..4)
        .map(|_| Running::apart(scene.beadlock(&["doctor", "--json", ".beads"])))
        .collect();
    for one in running {
        let json = one.end().json();
        for name in ["exclusive_create", "flock_processes", "flock_descriptors"] {
            assert_eq!(trial(&json, name)["ok"], json!(true), "{json}");
        }
    }
    assert!(scene.names().is_empty(), "{:?}", scene.names());
}
