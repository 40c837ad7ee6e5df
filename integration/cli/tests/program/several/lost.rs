//! One of the locks is lost while another is waited for. Nobody gives that other one back before the wait has ended.

use std::fs;
use std::os::unix::fs::MetadataExt;

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Running, Scene, shell_lock_text, until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::terminal::state;

use super::{BOTH, UNTIL_GO, hold, holding, json, occupy, scene_of_all_kinds};

/// A claim that would wait for an hour. It has the lock `first`, and waits for another one.
fn waiting(scene: &Scene, words: &[&str], first: &str) -> Running {
    let running = hold(
        scene,
        &[words, &["--wait", "1h", "--drain", "1h"]].concat(),
        "touch ran",
    );
    until("it waits", || {
        running.err().contains("waiting for ") && scene.file(first).exists()
    });
    running
}

#[track_caller]
fn expect_loss(scene: &Scene, running: Running, lost: &str) -> Ended {
    let ended = running
        .end()
        .expect(9, &[&format!("error: lost the lock of {lost} after ")]);
    assert!(!scene.file("ran").exists(), "{ended:?}");
    ended
}

#[test]
fn the_loss_of_a_lock_of_any_kind_ends_the_wait_for_another() {
    let named = [
        "--lock-dir",
        "locks",
        "--intent-name",
        "deploy",
        "--intent-version",
        "1",
    ];
    // Each beside the lock of somebody else, in one directory, so that it is taken first.
    for (target, lock, held, options) in [
        (".beads", ".beads/.exclusive-lock", ".beads/z.lock", &[][..]),
        ("tower:app", "locks/app.lock", "locks/z.lock", &named),
        ("memory:mem", "mem/.lock", "mem/z.lock", &[]),
        (
            "file:run/todo.json",
            "run/todo.json.lock",
            "run/z.lock",
            &[],
        ),
        ("lock:run/x.lock", "run/x.lock", "run/z.lock", &[]),
    ] {
        let scene = scene_of_all_kinds();
        fs::create_dir(scene.file("locks")).unwrap();
        occupy(&scene, held);
        let before = scene.read(held);
        let other = format!("lock:{held}");
        let running = waiting(
            &scene,
            &[&[&other, "--and", target], options].concat(),
            lock,
        );
        fs::remove_file(scene.file(lock)).unwrap();
        expect_loss(&scene, running, target);
        assert!(!scene.file(lock).exists(), "{target}");
        assert_eq!(scene.read(held), before, "{target}");
    }
}

/// Somebody else has the lost lock by now, and that lock stays. A command would run on after such a loss.
#[test]
fn the_message_names_the_new_holder_and_the_other_locks_are_given_back() {
    let scene = crate::a_scene();
    occupy(&scene, "c.lock");
    let others = scene.read("c.lock");
    let words = [
        &BOTH[..],
        &[
            "--and",
            "lock:c.lock",
            "--on-loss",
            "warn",
            "--report",
            "report",
            "--audit",
            "trail",
        ],
    ];
    let running = waiting(&scene, &words.concat(), "b.lock");
    let foreign = shell_lock_text("vc", 77, "elsewhere");
    fs::write(scene.file("new"), &foreign).unwrap();
    fs::rename(scene.file("new"), scene.file("b.lock")).unwrap();
    let ended = expect_loss(&scene, running, "lock:b.lock");
    let ended = ended.expect(
        9,
        &[
            "is vc's now (PID 77, on elsewhere) and it was not touched",
            "released lock:a.lock",
        ],
    );
    assert_eq!(ended.err.matches("released ").count(), 1, "{ended:?}");
    assert!(!scene.file("a.lock").exists());
    assert_eq!(
        (scene.read("b.lock"), scene.read("c.lock")),
        (foreign, others)
    );

    let report = json(&scene.read("report"));
    assert_eq!(
        (&report["error"]["code"], &report["data"]),
        (&"LOCK_LOST".into(), &Value::Null),
        "{report}"
    );
    let trail: Vec<Value> = scene.read("trail").lines().map(json).collect();
    let event = |entry: &Value| {
        ["event", "lock_name", "reason"].map(|key| entry[key].as_str().unwrap_or("-").to_owned())
    };
    let wanted = [
        ["lock_acquired", "lock:a.lock", "-"],
        ["lock_acquired", "lock:b.lock", "-"],
        ["lock_lost", "lock:b.lock", "changed"],
        ["lock_released", "lock:a.lock", "command_not_started"],
    ];
    assert_eq!(trail.iter().map(event).collect::<Vec<_>>(), wanted);
}

#[test]
fn one_that_is_broken_ends_the_wait_too() {
    let scene = crate::a_scene();
    occupy(&scene, "b.lock");
    let running = waiting(&scene, &BOTH, "a.lock");
    let id = json(&scene.read("a.lock"))["beadlock"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    scene
        .run(&["break", "lock:a.lock", "--id", &id, "--even-if-live"])
        .expect(0, &[]);
    expect_loss(&scene, running, "lock:a.lock")
        .expect(9, &["was broken by somebody; its record is kept in "]);
    assert!(!scene.file("a.lock").exists() && scene.file("b.lock").exists());
}

#[test]
fn a_wait_for_a_file_ends_too() {
    let scene = scene_of_all_kinds();
    let holder = holding(&scene, &["file:run/z.json"], UNTIL_GO);
    let running = waiting(
        &scene,
        &["file:run/z.json", "--and", "lock:run/a.lock"],
        "run/a.lock",
    );
    fs::remove_file(scene.file("run/a.lock")).unwrap();
    expect_loss(&scene, running, "lock:run/a.lock");
    fs::write(scene.file("go"), "").unwrap();
    holder.end().expect(0, &["released file:run/z.json"]);
}

#[test]
fn a_wait_for_a_running_cycle_ends_too() {
    let scene = crate::a_scene();
    let mut dirs = ["one", "two"];
    dirs.iter()
        .for_each(|dir| fs::create_dir(scene.file(dir)).unwrap());
    dirs.sort_by_key(|dir| fs::metadata(scene.file(dir)).unwrap().ino());
    let [first, second] = dirs;
    let gate = Gate::try_take(&scene.file(second)).unwrap().unwrap();
    let lock = format!("{first}/a.lock");
    let target = format!("lock:{lock}");
    let running = waiting(
        &scene,
        &[second, "--and", &target, "--any-directory"],
        &lock,
    );
    fs::remove_file(scene.file(&lock)).unwrap();
    expect_loss(&scene, running, &target);
    drop(gate);
}

/// It stands under a claim of `acquire`, which nobody else watches.
#[test]
fn the_loss_of_an_outer_claim_ends_the_wait_too() {
    let scene = crate::a_scene();
    occupy(&scene, "b.lock");
    let me = std::process::id().to_string();
    scene
        .run(&["acquire", "lock:a.lock", "--for", &me])
        .expect(0, &[]);
    let id = json(&scene.read("a.lock"))["beadlock"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let words = [
        &["hold"],
        &BOTH[..],
        &["--wait", "1h", "--", "touch", "ran"],
    ]
    .concat();
    let mut command = scene.beadlock(&words);
    command.env("BEADLOCK_ID", id);
    let running = Running::apart(command);
    until("it waits", || running.err().contains("waiting for "));
    fs::remove_file(scene.file("a.lock")).unwrap();
    expect_loss(&scene, running, "lock:a.lock");
    assert!(scene.file("b.lock").exists());
}

/// The process stands still meanwhile: no look during the wait can tell.
#[test]
fn a_loss_that_is_seen_only_after_the_wait_is_a_loss_before_the_command_starts() {
    let scene = crate::a_scene();
    occupy(&scene, "b.lock");
    let running = waiting(&scene, &BOTH, "a.lock");
    running.signal(Signal::SIGSTOP);
    until("it is stopped", || state(running.pid()) == 'T');
    fs::remove_file(scene.file("a.lock")).unwrap();
    fs::remove_file(scene.file("b.lock")).unwrap();
    running.signal(Signal::SIGCONT);
    expect_loss(&scene, running, "lock:a.lock");
    assert!(!scene.file("b.lock").exists());
}
