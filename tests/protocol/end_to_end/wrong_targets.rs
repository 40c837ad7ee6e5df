//! A target that was mistyped: none of the programs that claim reports success for a directory that nobody syncs.

use std::fs;

use beadlock_tests::{Ended, Scene, run};

/// Directories and what is typed for them: an empty one, one of memories, one of sources, one that does not exist.
const MISTYPED: [&str; 6] = [
    "shop",
    "beads:shop",
    "./shop/",
    "memory",
    "src",
    "memory:nosuch",
];

fn scene() -> Scene {
    let scene = Scene::new();
    for dir in ["shop", "memory", "src"] {
        fs::create_dir(scene.path().join(dir)).expect("create a directory");
    }
    fs::write(scene.path().join("memory/tasks.json"), "[]").expect("write a file");
    fs::write(scene.path().join("src/main.rs"), "fn main() {}").expect("write a file");
    scene
}

fn listing(scene: &Scene) -> Vec<String> {
    let listed = Ended::from(run(
        scene.shell("find shop memory src nosuch 2>/dev/null | sort")
    ));
    listed.out.lines().map(str::to_owned).collect()
}

/// How each program ends, for one target.
fn ended(scene: &Scene, target: &str, insisting: &[&str]) -> Vec<Ended> {
    let mut all = Vec::new();
    for before in [&["hold"][..], &["cycle"]] {
        let words = [before, &[target], insisting, &["--", "touch", "ran"]].concat();
        all.push(scene.run(&words));
    }
    let agent = [
        &["--db", target, "--once", "--exec", "touch ran"],
        insisting,
    ]
    .concat();
    all.push(Ended::from(run(scene.agent(&agent))));
    // The last one: its lock stays.
    all.push(scene.run(&[&["acquire", target, "--for", "1"], insisting].concat()));
    all
}

#[test]
fn a_mistyped_directory_is_refused_by_every_program_that_claims() {
    let scene = scene();
    let before = listing(&scene);
    for target in MISTYPED {
        for ended in ended(&scene, target, &[]) {
            assert!([1, 2].contains(&ended.code), "{target}: {ended:?}");
            assert_eq!(ended.err.lines().count(), 1, "{target}: {ended:?}");
        }
        assert_eq!(listing(&scene), before, "{target}: nothing is written");
        assert!(
            !scene.path().join("ran").exists(),
            "{target}: a command ran"
        );
    }
    // The control: the same words claim when they insist.
    for ended in ended(&scene, "shop", &["--any-directory"]) {
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    assert!(scene.path().join("ran").exists() && listing(&scene) != before);
}

#[test]
fn an_empty_database_is_accepted_by_its_name() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.beads()).expect("remove what the scene has put there");
    fs::create_dir(scene.beads()).expect("create a directory");
    assert_eq!(scene.run(&["hold", "--", "true"]).code, 0);
    assert_eq!(scene.run(&["cycle", ".beads", "--", "true"]).code, 0);
    let agent = Ended::from(run(
        scene.agent(&["--db", ".beads", "--once", "--action", "none"])
    ));
    assert_eq!(agent.code, 0, "{agent:?}");
}
