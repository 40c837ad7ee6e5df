//! A named directory that does not look like a database is refused, from the command line and from the file.

use std::fs;

use crate::agent::{OfAgent, fresh_scene};
use beadlock_testkit::Scene;

const REFUSED: &str = "shop is not a beads database (it has no *.db, *.sqlite*, *.jsonl or redirect); did you mean \
                       .beads? --any-directory insists\n";

fn scene_with_shop() -> Scene {
    let scene = fresh_scene();
    fs::create_dir(scene.file("shop")).unwrap();
    scene
}

#[test]
fn an_empty_directory_is_refused_unless_the_option_insists() {
    let scene = scene_with_shop();
    let (code, stderr) = scene.once(&["--db", "shop", "--exec", "touch ran"]);
    assert!(code == 2 && stderr.ends_with(REFUSED), "{code}: {stderr}");
    assert!(
        !scene.file("ran").exists() && fs::read_dir(scene.file("shop")).unwrap().next().is_none()
    );
    assert_eq!(
        scene.once(&["--db", "shop", "--exec", "touch ran", "--any-directory"]),
        (0, String::new())
    );
    assert!(scene.file("ran").exists());
}

#[test]
fn a_database_file_makes_it_one() {
    let scene = scene_with_shop();
    scene.write("shop/beads.db", "");
    assert_eq!(
        scene.once(&["--db", "shop", "--action", "none"]),
        (0, String::new())
    );
}

#[test]
fn the_file_names_line_and_column_and_may_insist() {
    let scene = scene_with_shop();
    scene.write("conf.toml", "action = 'none'\n[[database]]\ndir = 'shop'\n");
    let (code, stderr) = scene.once(&["--config", "conf.toml"]);
    assert_eq!(code, 2, "{stderr}");
    for word in [
        "conf.toml:3:",
        "shop is not a beads database",
        "--any-directory insists",
    ] {
        assert!(stderr.contains(word), "no {word}: {stderr}");
    }
    scene.write(
        "conf.toml",
        "action = 'none'\nany-directory = true\n[[database]]\ndir = 'shop'\n",
    );
    assert_eq!(scene.once(&["--config", "conf.toml"]), (0, String::new()));
}

#[test]
fn the_variable_of_the_database_is_believed_and_a_target_is_not() {
    let scene = scene_with_shop();
    let once = |name: &str| {
        let mut agent = scene.agent(&["--once", "--action", "none"]);
        agent.env(name, "shop").output().unwrap()
    };
    assert_eq!(once("BEADS_DIR").status.code(), Some(0));
    let refused = once("BEADLOCK_TARGET");
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.status.code() == Some(2) && stderr.ends_with(REFUSED),
        "{stderr}"
    );
}

#[test]
fn any_directory_is_served_by_its_scheme() {
    let scene = scene_with_shop();
    fs::create_dir(scene.file("shop/.beads")).unwrap();
    let (code, stderr) = scene.once(&["--db", "dir:shop"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("dir:shop is no database") && stderr.contains("--action none"),
        "{stderr}"
    );
    let by_option = ["--db", "dir:shop", "--exec", "echo \"$BEADS_DIR\" > ran"];
    assert_eq!(scene.once(&by_option), (0, String::new()));
    let dir = fs::canonicalize(scene.file("shop")).unwrap();
    let ran = || fs::read_to_string(scene.file("ran")).unwrap();
    assert_eq!(ran(), format!("{}\n", dir.display()));

    scene.write("ran", "");
    scene.write(
        "conf.toml",
        "exec = 'echo again > ran'\n[[database]]\ndir = 'dir:shop'\n",
    );
    assert_eq!(scene.once(&["--config", "conf.toml"]), (0, String::new()));
    assert_eq!(ran(), "again\n");

    let (code, stderr) = scene.once(&["--db", "dir:", "--exec", "true"]);
    assert!(
        code == 2 && stderr.contains("such as dir:path"),
        "{code}: {stderr}"
    );

    scene.write("ran", "");
    scene.write("shop/.exclusive-lock", "{");
    let (code, _) = scene.once(&by_option);
    assert_eq!(
        (code, ran()),
        (5, String::new()),
        "a lock that cannot be read is one"
    );
}
