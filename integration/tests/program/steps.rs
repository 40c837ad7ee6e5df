//! A claim over several steps, from a script as people write it: what is written down of it, and what a step says
//! whose claim is gone.
#![expect(
    clippy::disallowed_methods,
    reason = "what careless tools do to a lock file"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_testkit::{Ended, Running, Scene, until};
use serde_json::Value;

use crate::acquire::keepers;

/// The claims of these tests, one of each kind that has a keeper: a scene, and what is typed after `acquire`.
const KEPT: [(&str, &str); 4] = [
    (
        "tower:app",
        "tower:app --intent-name deploy --intent-version 1",
    ),
    (
        "tower:app",
        "tower:app --detach --intent-name deploy --intent-version 1",
    ),
    ("memory:mem", "memory:mem"),
    (".beads", ".beads --detach"),
];

/// A scene with the directories of every kind of lock.
fn a_scene() -> Scene {
    let scene = crate::a_scene();
    for dir in ["locks", "mem"] {
        fs::create_dir(scene.file(dir)).unwrap();
        fs::set_permissions(scene.file(dir), fs::Permissions::from_mode(0o700)).unwrap();
    }
    scene
}

/// Runs the script by `sh`, with the program in its `PATH`.
fn script(scene: &Scene, script: &str) -> Ended {
    script_by(scene, "sh", script)
}

fn script_by(scene: &Scene, shell: &str, script: &str) -> Ended {
    let bin = scene.file("bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_beadlock"), bin.join("beadlock")).unwrap();
    }
    scene.write("script", script);
    let mut command = scene.command(shell);
    command
        .arg("script")
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("BEADLOCK_LOCK_DIR", scene.file("locks"))
        .env("ACTOR", "ann");
    Running::apart(command).end()
}

fn events(scene: &Scene) -> Vec<String> {
    let of_line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["event"].as_str().unwrap_or_default().to_owned()
    };
    scene.read("audit").lines().map(of_line).collect()
}

/// T072, T093, T101, M050: and nothing else. Whatever ends the keeper's watch first: the lock's end, its process's, or
/// the next claim of the same name.
#[test]
fn a_clean_end_is_a_claim_and_a_release_and_nothing_else() {
    let ways = [
        ("the script ends with the release", "exit 0"),
        ("it goes on", "sleep 0.3"),
        (
            "the next one claims at once",
            "eval \"$(beadlock acquire -q $W)\"; beadlock release -q $T",
        ),
    ];
    for (target, words) in KEPT {
        for (way, then) in ways {
            let scene = a_scene();
            for _ in 0..3 {
                let ended = script(
                    &scene,
                    &format!(
                        "set -a; T={target} W='{words}' BEADLOCK_AUDIT=audit\neval \"$(beadlock acquire -q $W)\"\n\
                         beadlock release -q $T\n{then}"
                    ),
                );
                assert_eq!(ended.code, 0, "{ended:?}");
            }
            until("the keepers have ended", || keepers(&scene).is_empty());
            let claims = if way.starts_with("the next") { 6 } else { 3 };
            let expected = ["lock_acquired", "lock_released"].repeat(claims);
            assert_eq!(events(&scene), expected, "{words}: {way}");
        }
    }
}

/// A heartbeat that puts a new file in the lock's place does not hide the release from its keeper, and a lock that
/// was removed by hand is lost.
#[test]
fn after_heartbeats_a_release_is_a_release_and_rm_a_loss() {
    for (end, last) in [
        ("beadlock release -q", "lock_released"),
        (
            "rm locks/app.lock; until grep -q lock_lost audit; do sleep 0.05; done",
            "lock_lost",
        ),
    ] {
        let scene = a_scene();
        let ended = script(
            &scene,
            &format!(
                "set -a; BEADLOCK_AUDIT=audit\n\
                 eval \"$(beadlock acquire -q tower:app --ttl 3 --intent-name i --intent-version 1)\"\n\
                 exec 7<locks/app.lock; beat() {{ sed -n 's/.*last_heartbeat_at\": *//p' locks/app.lock; }}\n\
                 first=$(beat); while [ \"$first\" = \"$(beat)\" ]; do sleep 0.1; done\n{end}"
            ),
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        until("the keeper has ended", || keepers(&scene).is_empty());
        assert_eq!(events(&scene), ["lock_acquired", last], "{end}");
    }
}
