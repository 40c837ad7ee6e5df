//! `ps` shows the helper processes as what they are.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use beadlock_base::helper::kind_of;
use beadlock_testkit::process::marked_by;
use beadlock_testkit::{Running, Scene, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::acquire::keepers;

/// The command lines of the helpers of this scene, each word of them.
fn helpers(scene: &Scene) -> Vec<Vec<String>> {
    let lines = marked_by(scene).into_iter().filter_map(|pid| {
        kind_of(pid.as_raw())?;
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        Some(
            line.trim_end_matches('\0')
                .split('\0')
                .map(str::to_owned)
                .collect(),
        )
    });
    lines.collect()
}

/// The one helper of this scene shows itself as `title`.
#[track_caller]
fn shows(scene: &Scene, title: &str) {
    assert_eq!(shown(scene), title);
}

/// The title that the one helper of this scene shows in `ps`.
#[track_caller]
fn shown(scene: &Scene) -> String {
    until("there is one helper", || helpers(scene).len() == 1);
    let mut helpers = helpers(scene);
    let words = helpers.swap_remove(0);
    assert_eq!(
        (words[1].as_str(), words.len()),
        ("__helper", 3),
        "{words:?}"
    );
    words.into_iter().next().expect("its title")
}

fn release_all(scene: &Scene) {
    for pid in keepers(scene) {
        kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    }
    until("the keepers are gone", || keepers(scene).is_empty());
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test compares the end with a clock of its own"
)]
fn a_lease_keeper_is_shown_by_its_target_and_its_holder() {
    let scene = crate::a_scene();
    let end = |hours: i64| jiff::Timestamp::now() + jiff::SignedDuration::from_hours(hours);
    let earliest = end(2);
    scene
        .run(&[
            "acquire",
            "--detach",
            "--max-hold",
            "2h",
            "--holder",
            "release-991",
        ])
        .expect(0, &[]);
    let title = shown(&scene);
    let until = title
        .strip_prefix("beadlock: keeps .beads for release-991 until ")
        .expect(&title);
    let until: jiff::Timestamp = until.parse().expect(&title);
    assert!(
        until.as_second() >= earliest.as_second() && until <= end(2),
        "{title}"
    );
    let status = scene.run(&["status"]);
    assert!(
        status.out.contains(&format!(": {title}, on ")),
        "{status:?}"
    );
    release_all(&scene);
    scene
        .run(&["acquire", "--detach", "file:todo.json"])
        .expect(0, &[]);
    let title = shown(&scene);
    assert!(
        title.starts_with("beadlock: keeps file:todo.json until 20"),
        "{title}"
    );
    release_all(&scene);
    let me = std::process::id();
    scene
        .run(&[
            "acquire",
            "--for",
            &me.to_string(),
            "memory:.",
            "--session-id",
            "s1",
        ])
        .expect(0, &[]);
    shows(
        &scene,
        &format!("beadlock: keeps memory:. for s1 while PID {me} lives"),
    );
    release_all(&scene);
}

const TOWER: [&str; 8] = [
    "hold",
    "tower:app-prod",
    "--lock-dir",
    "locks",
    "--intent-name",
    "deploy",
    "--intent-version",
    "1",
];

#[test]
fn a_watchdog_is_shown_by_its_command_and_its_target() {
    let work = [
        "--",
        "sh",
        "-c",
        "echo > ready; until test -e go; do sleep 0.01; done",
    ];
    for (words, title) in [
        (&TOWER[..], "beadlock: watches sh for tower:app-prod"),
        (
            &["hold", "file:todo.json"],
            "beadlock: watches sh for file:todo.json",
        ),
        (&["cycle"], "beadlock: keeps the gate of .beads for sh"),
    ] {
        let scene = crate::a_scene();
        let running = Running::apart(scene.beadlock(&[words, &work].concat()));
        until("the command runs", || scene.file("ready").exists());
        shows(&scene, title);
        fs::write(scene.file("go"), "").unwrap();
        running.end().expect(0, &[]);
    }
}

#[test]
fn names_of_directories_reach_ps_escaped_and_short_and_the_helper_whole() {
    let scene = crate::a_scene();
    let name = std::ffi::OsStr::from_bytes(b"a\nb \xff\x1b[2J");
    let dir = scene.path().join(name).join("d".repeat(200)).join(".beads");
    fs::create_dir_all(&dir).unwrap();
    let mut command = scene.beadlock(&["acquire", "--detach", "--holder", "h"]);
    command.arg(dir.strip_prefix(scene.path()).unwrap());
    Running::apart(command).end().expect(0, &[]);
    let [words] = &helpers(&scene)[..] else {
        panic!("one keeper")
    };
    assert!(
        words[0].starts_with("beadlock: keeps a\\nb \u{fffd}\\u{1b}[2J/ddd"),
        "{words:?}"
    );
    assert!(
        words[0].contains("… for h until ") && words[0].chars().count() < 200,
        "{words:?}"
    );
    assert!(dir.join(".exclusive-lock").exists());
    release_all(&scene);
    assert!(
        !dir.join(".exclusive-lock").exists(),
        "it knows the directory by its bytes"
    );
}

#[test]
fn a_request_that_cannot_be_decoded_is_refused() {
    let scene = crate::a_scene();
    for request in ["", "x", "{}", "{\"Watchdog\":{}}", "{\"LeaseKeeper\":1}"] {
        scene
            .run(&["__helper", request])
            .expect(2, &["this is for beadlock's own use"]);
    }
    scene
        .run(&["__helper"])
        .expect(2, &["this is for beadlock's own use"]);
}
