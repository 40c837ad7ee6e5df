//! `dir:PATH`: any directory, with the lock and the gate of a database, and without one.

use std::fs;

use beadlock_testkit::{Running, Scene, until};

fn scene() -> Scene {
    let scene = crate::a_scene();
    fs::create_dir_all(scene.file("work/.beads")).unwrap();
    // Neither is meant: the directory is taken as it is.
    scene.write("work/redirect", "../elsewhere\n");
    scene
}

/// Works until there is a file `go`.
const WORK: &str = "touch begun; until test -e go; do sleep 0.01; done";

fn begun(scene: &Scene, words: &[&str]) -> Running {
    let words = [words, &["--", "sh", "-c", WORK]].concat();
    let running = Running::apart(scene.beadlock(&words));
    until("it works", || scene.file("begun").exists());
    running
}

#[test]
fn a_claim_keeps_cycles_out() {
    let scene = scene();
    let hold = begun(&scene, &["hold", "dir:work"]);
    assert!(scene.file("work/.exclusive-lock").exists());
    scene
        .run(&["cycle", "dir:work", "--", "touch", "never"])
        .expect(4, &["Skipping database (locked by sh)"]);
    let checked = scene.run(&["check", "dir:work"]).expect(4, &[]);
    assert_eq!(checked.out, "Skipping (locked by sh)\n");
    let status = scene.run(&["status", "dir:work"]).expect(0, &[]).out;
    assert!(status.starts_with("dir:work: held by sh (PID"), "{status}");
    // It is the lock of the same directory by another name.
    scene
        .run(&["hold", "work", "--any-directory", "--no-wait", "--", "true"])
        .expect(2, &["did you mean"]);
    fs::remove_dir(scene.file("work/.beads")).unwrap();
    fs::write(scene.file("work/redirect"), "").unwrap();
    scene
        .run(&["hold", "work", "--any-directory", "--no-wait", "--", "true"])
        .expect(4, &["is held by"]);
    scene.write("go", "");
    hold.end().expect(0, &[]);
    assert!(!scene.file("work/.exclusive-lock").exists() && !scene.file("never").exists());
}

#[test]
fn a_claim_waits_for_the_end_of_a_cycle() {
    let scene = scene();
    let cycle = begun(&scene, &["cycle", "dir:work"]);
    scene
        .run(&[
            "hold", "dir:work", "--drain", "50ms", "--", "touch", "never",
        ])
        .expect(4, &["work is busy"]);
    let hold =
        Running::apart(scene.beadlock(&["hold", "dir:work", "--", "sh", "-c", "ls done > saw"]));
    scene.write("done", "");
    scene.write("go", "");
    cycle.end().expect(0, &[]);
    hold.end().expect(0, &[]);
    assert!(scene.file("saw").exists() && !scene.file("never").exists());
}

#[test]
fn the_command_of_a_cycle_knows_no_database() {
    let scene = scene();
    let script = "echo \"${BEADS_DIR-none} $BEADLOCK_CYCLE\" > seen";
    scene
        .run(&["cycle", "dir:work/", "--", "sh", "-c", script])
        .expect(0, &[]);
    let dir = fs::canonicalize(scene.file("work")).unwrap();
    let seen = fs::read_to_string(scene.file("seen")).unwrap();
    assert_eq!(seen, format!("none {}\n", dir.display()));
}

#[test]
fn a_lock_of_it_is_acquired_and_released_from_anywhere() {
    let scene = scene();
    let script = "eval \"$(\"$BEADLOCK\" acquire dir:work)\" && cd / && \"$BEADLOCK\" status && \"$BEADLOCK\" release";
    let ended = Running::apart(scene.shell(script))
        .end()
        .expect(0, &["claimed dir:work", "released"]);
    assert!(ended.out.contains("/work: held by sh (PID"), "{ended:?}");
    assert!(!scene.file("work/.exclusive-lock").exists());
}

#[test]
fn what_is_no_directory_is_named_with_what_to_type() {
    let scene = scene();
    scene.write("file", "");
    for (target, words) in [
        (
            "dir:none",
            "dir:none does not exist; make it first: mkdir -p ",
        ),
        ("dir:file", "dir:file is not a directory"),
    ] {
        scene
            .run(&["hold", target, "--", "true"])
            .expect(1, &[words]);
    }
    scene
        .run(&["hold", "dir:", "--", "true"])
        .expect(2, &["such as dir:path"]);
    scene
        .run(&["hold", "dir:work", "--any-directory", "--", "true"])
        .expect(2, &["dir:work"]);
}
