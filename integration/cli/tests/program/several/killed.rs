//! beadlock is killed: each lock is left as a claim of it alone would leave it.

use beadlock_testkit::{Running, Scene, children, lives, until};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::{BOTH, UNTIL_GO, hold, holding, occupy};

#[track_caller]
fn verdict(scene: &Scene, target: &str) -> String {
    let answered = scene.run(&["status", "--json", target]);
    answered.json()["data"][0]["verdict"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Waits for the end of an orphan, which is the test's child: before it is reaped its PID answers.
fn reap(pid: i32) {
    waitpid(Pid::from_raw(pid), None).unwrap();
}

#[test]
fn both_locks_stay_true_while_the_command_works_and_are_stale_after_it() {
    let scene = crate::a_scene();
    let words = [".beads", "--and", "lock:a.lock"];
    let running = holding(&scene, &words, UNTIL_GO);
    let pid = scene.pid_in("pid");
    running.signal(Signal::SIGKILL);
    running.end();
    for target in [".beads", "lock:a.lock"] {
        assert_eq!(verdict(&scene, target), "held", "{target}");
    }
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    reap(pid);
    for target in [".beads", "lock:a.lock"] {
        assert_eq!(verdict(&scene, target), "stale", "{target}");
    }
    scene
        .run(&[
            "hold",
            words[0],
            words[1],
            words[2],
            "--no-wait",
            "--",
            "true",
        ])
        .expect(0, &["removed stale lock"]);
}

/// The process that is killed has one of the two locks, and waits for the other.
#[test]
fn one_that_is_killed_while_it_waits_leaves_a_stale_lock_and_runs_nothing() {
    let scene = crate::a_scene();
    occupy(&scene, "b.lock");
    let running = hold(
        &scene,
        &[&BOTH, &["--wait", "1h"][..]].concat(),
        "touch ran",
    );
    until("it waits", || {
        running.err().contains("b.lock") && scene.file("a.lock").exists()
    });
    let [child] = children(running.pid())[..] else {
        panic!("one child")
    };
    running.signal(Signal::SIGKILL);
    running.end();
    reap(child);
    assert_eq!(
        (
            verdict(&scene, "lock:a.lock").as_str(),
            scene.file("ran").exists()
        ),
        ("stale", false)
    );
    assert_eq!(verdict(&scene, "lock:b.lock"), "held");
}

/// Each flock goes with the work, and not before it.
#[test]
fn files_are_locked_until_the_work_has_ended() {
    let scene = crate::a_scene();
    let files = [
        "file:a.json",
        "--and",
        "file:b.json",
        "--and",
        "file:c.json",
    ];
    let words = [&files[..], &["--kill-after", "700ms"]].concat();
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let running = holding(&scene, &words, script);
    let pid = scene.pid_in("pid");
    running.signal(Signal::SIGKILL);
    running.end();
    let targets = ["file:a.json", "file:b.json", "file:c.json"];
    let mut seen_held = 0;
    until("all are free", || {
        let free = targets.map(|target| verdict(&scene, target) == "free");
        // In this order: one that is free while the command works is what must not be.
        assert!(
            !(free.contains(&true) && lives(pid)),
            "{free:?}, and the command works on"
        );
        seen_held += usize::from(free == [false; 3]);
        free == [true; 3]
    });
    assert!(seen_held > 0, "it was looked at while the command lived");
}

/// Under a lock without a record the command ends with beadlock, and then the database's lock is stale.
#[test]
fn a_database_beside_a_file_is_stale_when_the_work_has_ended() {
    let scene = crate::a_scene();
    let running = holding(&scene, &[".beads", "--and", "file:todo.json"], UNTIL_GO);
    let pid = scene.pid_in("pid");
    running.signal(Signal::SIGKILL);
    running.end();
    until("the command was ended", || {
        !lives(pid) && verdict(&scene, "file:todo.json") == "free"
    });
    reap(pid);
    assert_eq!(
        (
            verdict(&scene, ".beads").as_str(),
            scene.file("ran").exists()
        ),
        ("stale", false)
    );
    let words = [
        "hold",
        "file:todo.json",
        "--and",
        ".beads",
        "--no-wait",
        "--",
        "true",
    ];
    Running::apart(scene.beadlock(&words))
        .end()
        .expect(0, &["removed stale lock"]);
}
