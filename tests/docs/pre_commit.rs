//! `.pre-commit-hooks.yaml` and its script, which is a hook of git's too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Scene, run, tool};

use super::{document, path_with_programs};

/// The value of a key of the one hook.
fn value(key: &str) -> String {
    let text = document(".pre-commit-hooks.yaml");
    let line = text
        .lines()
        .find_map(|line| line.get(2..)?.strip_prefix(key)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{key} in {text}")).to_owned()
}

/// The hook as pre-commit starts it: the words of `entry`, its first one in the repository that it comes from, with
/// `args`; without the names of files.
fn hook(scene: &Scene, args: &[&str]) -> Command {
    let entry = value("entry");
    let mut words = entry.split(' ');
    let program = checkout().join(words.next().expect("a program"));
    let mut command = scene.command(program);
    command.args(words).args(args);
    command.env("PATH", path_with_programs());
    command
}

fn answer(command: Command) -> Ended {
    Ended::from(run(command))
}

#[test]
fn the_hook_is_one_that_pre_commit_can_run() {
    assert_eq!(value("language"), "script");
    assert_eq!(value("pass_filenames"), "false");
    assert_eq!(value("always_run"), "true");
    assert_eq!(value("stages"), "[pre-commit]");
    let script = checkout().join(value("entry"));
    let mode = fs::metadata(script).expect("it is there").permissions();
    assert_ne!(mode.mode() & 0o111, 0, "it can be executed");
}

#[test]
fn the_hook_passes_when_free_and_names_the_holder_when_held() {
    let scene = Scene::new();
    let before = scene.names();
    answer(hook(&scene, &[])).expect(0, &[]);
    assert_eq!(scene.names(), before);

    let held = scene.hold(&["--holder", "import", "--", "sleep", "1000"]);
    let lock = scene.lock_text();
    let refused = answer(hook(&scene, &[]));
    refused.expect(
        4,
        &["locked by import", "held by import (PID ", "beadlock wait "],
    );
    // Another target is free, and of two one is held.
    answer(hook(&scene, &["lock:other.lock"])).expect(0, &[]);
    answer(hook(&scene, &["lock:other.lock", ".beads"])).expect(4, &["locked by import"]);
    // A claim of another target does not stand in for the database.
    let mut command = hook(&scene, &[]);
    command.env("BEADLOCK_TARGET", "lock:other.lock");
    answer(command).expect(4, &["locked by import"]);
    let mut command = hook(&scene, &[]);
    command.envs([("BEADLOCK_HOLDER", "mport"), ("BEADLOCK_ID", "no such id")]);
    answer(command).expect(4, &["locked by import"]);
    assert_eq!(scene.lock_text(), lock);
    held.stop();

    // One that a check would remove stays.
    scene.write_stale_lock("gone");
    answer(hook(&scene, &[])).expect(0, &[]);
    assert!(scene.lock().exists(), "it changes nothing");

    scene.write_lock("no record");
    answer(hook(&scene, &[])).expect(5, &["malformed"]);
    answer(hook(&scene, &["nowhere/.beads"])).expect(1, &["does not exist"]);
}

/// Below `hold`, of this target or of another one first; with the id of `acquire`, or with its holder's name.
#[test]
fn the_hook_passes_inside_ones_own_claim() {
    let scene = Scene::new();
    let script = checkout().join(value("entry")).display().to_string();
    let shell = |text: &str| {
        let mut command = scene.shell(&text.replace("HOOK", &script));
        command.env("PATH", path_with_programs());
        answer(command)
    };
    shell("beadlock hold -q -- HOOK").expect(0, &[]);
    shell("beadlock hold -q lock:other.lock --and .beads -- HOOK").expect(0, &[]);
    shell("beadlock hold -q lock:other.lock -- HOOK lock:other.lock .beads").expect(0, &[]);
    let acquired = "beadlock acquire -q --detach --max-hold 1h --holder agent-7 > claim; ";
    let and = |text: &str| {
        format!(
            "{acquired}{text}; code=$?; . ./claim; beadlock release -q --id $BEADLOCK_ID >/dev/null; exit $code"
        )
    };
    shell(&and("(set -a; . ./claim; HOOK)")).expect(0, &[]);
    shell(&and("BEADLOCK_HOLDER=agent-7 HOOK")).expect(0, &[]);
    shell(&and("HOOK")).expect(4, &["locked by agent-7"]);
    shell(&format!(
        "{}; BEADLOCK_HOLDER=agent-7 HOOK lock:other.lock; exit $?",
        "beadlock acquire -q lock:other.lock --for $$ --holder agent-7 >/dev/null"
    ))
    .expect(0, &[]);
    // Another one whose name ends like the line of this one.
    let other = "beadlock acquire -q --for $$ --holder 'x (locked by agent-7)' >/dev/null";
    shell(&format!("{other}; BEADLOCK_HOLDER='agent-7' HOOK; exit $?")).expect(4, &["locked by x"]);
    scene.run(&["wait", "-q"]).expect(0, &[]);
    assert!(!scene.lock().exists());
}

/// An agent's sync commits, and git runs the hook: it must not wait for, or be refused by, the sync's own gate.
#[test]
fn the_hook_passes_in_a_cycle() {
    let scene = Scene::new();
    let gate = scene.take_gate();
    answer(hook(&scene, &[])).expect(0, &[]);
    drop(gate);
}

#[test]
fn git_runs_a_copy_of_it_before_each_commit() {
    let Some(git) = tool("git") else {
        return;
    };
    let scene = Scene::new();
    let git = |args: &[&str]| {
        let mut command = scene.command(Path::new(&git));
        command.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]);
        command.args(args).env("PATH", path_with_programs());
        answer(command)
    };
    git(&["init", "--quiet"]).expect(0, &[]);
    fs::create_dir_all(scene.file(".git/hooks")).expect("make the directory of hooks");
    fs::copy(
        checkout().join(value("entry")),
        scene.file(".git/hooks/pre-commit"),
    )
    .expect("copy it");
    git(&["commit", "--quiet", "--allow-empty", "-m", "one"]).expect(0, &[]);
    let held = scene.hold(&["--holder", "import", "--", "sleep", "1000"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "two"]).expect(1, &["locked by import"]);
    git(&["commit", "--no-verify", "--allow-empty", "-m", "three"]).expect(0, &[]);
    held.stop();
    assert_eq!(git(&["log", "--format=%s"]).out, "three\none\n");
}
