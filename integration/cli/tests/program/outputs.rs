//! `--report` and `--audit` that name a lock file are refused, and the lock stays as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use beadlock_testkit::{Running, Scene, shell_lock_text, this_host};

/// A live lock in each place, and names that lead to them.
fn scene() -> Scene {
    let scene = crate::a_scene();
    let text = shell_lock_text("ann", i64::from(std::process::id()), &this_host());
    fs::write(scene.lock(), &text).unwrap();
    fs::write(scene.file("build.lock"), &text).unwrap();
    fs::write(scene.file("build.lock.aside"), &text).unwrap();
    fs::write(scene.file("todo.json"), "{}").unwrap();
    fs::hard_link(scene.lock(), scene.file("hard")).unwrap();
    fs::hard_link(scene.file("build.lock"), scene.file("hard2")).unwrap();
    symlink(".beads/.exclusive-lock", scene.file("soft")).unwrap();
    symlink(".beads", scene.file("link")).unwrap();
    scene
}

/// Every file of the scene and of its database: its path and its content.
fn all(scene: &Scene) -> Vec<(String, String)> {
    let mut all: Vec<_> = [scene.path().to_owned(), scene.beads()]
        .iter()
        .flat_map(|dir| fs::read_dir(dir).unwrap().flatten())
        .map(|entry| entry.path())
        .map(|path| {
            (
                path.display().to_string(),
                fs::read_to_string(&path).unwrap_or_default(),
            )
        })
        .collect();
    all.sort();
    all
}

#[track_caller]
fn refused(scene: &Scene, option: &str, file: &str, command: Command) {
    let before = all(scene);
    let ended = Running::apart(command).end();
    let words = format!("beadlock: error: {option}: {file} ");
    assert!(
        ended.code == 2 && ended.err.contains(&words),
        "{option} {file}: {ended:?}"
    );
    assert!(ended.err.contains("name another file"), "{ended:?}");
    assert_eq!(all(scene), before, "{option} {file}");
}

const OF_DATABASE: [&str; 7] = [
    ".beads/.exclusive-lock",
    ".beads/.exclusive-lock.aside",
    ".beads/.exclusive-lock-report.json",
    "link/.exclusive-lock",
    ".exclusive-lock",
    "hard",
    "soft",
];

const OF_LOCK: [&str; 5] = [
    "build.lock",
    "link/../build.lock",
    "build.lock.aside",
    "hard2",
    ".exclusive-lock",
];

#[test]
fn a_report_or_a_trail_in_a_lock_files_place_is_a_wrong_command_line() {
    let scene = scene();
    for (target, files) in [(".beads", &OF_DATABASE[..]), ("lock:build.lock", &OF_LOCK)] {
        for file in files {
            for option in ["--report", "--audit"] {
                let hold = scene.beadlock(&[
                    "hold",
                    target,
                    "--no-wait",
                    option,
                    file,
                    "--",
                    "touch",
                    "ran",
                ]);
                refused(&scene, option, file, hold);
                let acquire = scene.beadlock(&["acquire", target, "--no-wait", option, file]);
                refused(&scene, option, file, acquire);
            }
            let args: [&[&str]; 4] = [
                &["release", target, "--id", "x", "--audit", file],
                &[
                    "break",
                    target,
                    "--holder",
                    "ann",
                    "--even-if-live",
                    "--audit",
                    file,
                ],
                &[
                    "hold",
                    target,
                    "--no-wait",
                    "--report",
                    file,
                    "--holder",
                    "",
                    "--",
                    "touch",
                    "ran",
                ],
                &[
                    "hold", target, "--report", file, "--wait", "nonsense", "--", "touch", "ran",
                ],
            ];
            for args in &args[..2] {
                refused(&scene, "--audit", file, scene.beadlock(args));
            }
            // What else is wrong with the line writes no report either.
            for args in &args[2..] {
                let before = all(&scene);
                let ended = Running::apart(scene.beadlock(args)).end();
                assert!(
                    ended.code == 2 && all(&scene) == before,
                    "{args:?}: {ended:?}"
                );
            }
            for args in [&["check", target][..], &["wait", target, "--wait", "10ms"]] {
                let mut command = scene.beadlock(args);
                command.env("BEADLOCK_AUDIT", file);
                refused(&scene, "--audit", file, command);
            }
        }
    }
    assert!(!scene.file("ran").exists());
}

#[test]
fn the_locks_of_other_protocols_are_refused_by_their_names() {
    let scene = scene();
    let named = [
        "--lock-dir",
        "locks",
        "--intent-name",
        "x",
        "--intent-version",
        "1",
    ];
    fs::create_dir(scene.file("locks")).unwrap();
    for (target, more, file) in [
        ("memory:.", &[][..], ".lock"),
        ("memory:.", &[], ".lock.aside"),
        ("tower:app", &named[..], "locks/app.lock"),
        ("tower:app", &named, "locks/app.lock.tmp-77-ab120934"),
        ("file:todo.json", &[], "todo.json.lock"),
        ("file:todo.json", &[], "todo.json"),
    ] {
        for option in ["--report", "--audit"] {
            let args = [
                &["hold", target, option, file],
                more,
                &["--", "touch", "ran"],
            ]
            .concat();
            refused(&scene, option, file, scene.beadlock(&args));
        }
    }
    for (command, more) in [
        ("write", &[][..]),
        ("append", &[]),
        ("update", &["--", "cat"]),
    ] {
        let args = [&[command, "file:todo.json", "--audit", "todo.json"], more].concat();
        refused(&scene, "--audit", "todo.json", scene.beadlock(&args));
    }
    assert!(!scene.file("ran").exists());
}

#[test]
fn any_other_file_is_written() {
    let scene = crate::a_scene();
    let files = ["--report", "report.json", "--audit", "audit.jsonl"];
    let args = [&["hold"], &files[..], &["--", "true"]].concat();
    scene.run(&args).expect(0, &[]);
    assert!(scene.read("report.json").contains("\"released\":true"));
    assert!(scene.read("audit.jsonl").contains("lock_acquired"));
}
