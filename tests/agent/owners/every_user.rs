//! The rule is not root's alone: an agent of any user leaves another user's database alone.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use beadlock_tests::Running;
use beadlock_tests::scene::Scene;
use beadlock_tests::{skip, wait_until};
use nix::sys::signal::Signal;

use super::SOMEBODY;

const BOUND: Duration = Duration::from_secs(30);

/// The user whose agent it is.
const NOBODY: u32 = 65_534;

/// Databases `own`, `roots` and `foreign` below `all`.
fn scene() -> Option<Scene> {
    let setpriv = skip::root().then(|| skip::tool("setpriv")).flatten();
    setpriv?;
    let scene = Scene::new();
    scene.open_to_others();
    for (name, owner) in [("own", NOBODY), ("roots", 0), ("foreign", SOMEBODY)] {
        let dir = scene.path().join("all").join(name);
        fs::create_dir_all(dir.join(".beads")).unwrap();
        for path in [&dir, &dir.join(".beads")] {
            chown(path, Some(owner), Some(owner)).unwrap();
        }
    }
    Some(scene)
}

/// The agent of [`NOBODY`], whose command says where it ran.
fn agent(scene: &Scene, args: &[&str]) -> Running {
    let ran = scene.path().join("ran");
    fs::write(&ran, "").unwrap();
    chown(&ran, Some(NOBODY), None).unwrap();
    let mut command = scene.command("setpriv");
    command.args([
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--",
    ]);
    command.arg(scene.path().join("bin/beadlock-agent"));
    command
        .args([
            "--exec",
            &format!("pwd >> {}", ran.display()),
            "--interval",
            "50ms",
        ])
        .args(args);
    Running::start(command)
}

fn ran_in(scene: &Scene, name: &str) -> bool {
    let dir = fs::canonicalize(scene.path())
        .unwrap()
        .join("all")
        .join(name);
    let ran = fs::read_to_string(scene.path().join("ran")).unwrap();
    ran.lines().any(|line| Path::new(line) == dir)
}

#[test]
fn a_database_of_another_user_that_is_found_is_left_out() {
    let Some(scene) = scene() else { return };
    let log = scene.path().join("all/own/agent.log");
    let log_name = log.to_str().unwrap();
    let agent = agent(&scene, &["--root", "all", "--log-file", log_name]);
    let text = || fs::read_to_string(&log).unwrap_or_default();
    wait_until(BOUND, "a cycle of its own database", || {
        ran_in(&scene, "own")
    });
    let foreign = fs::canonicalize(scene.path()).unwrap().join("all/foreign");
    let refused = format!("Not serving {}", foreign.join(".beads").display());
    wait_until(BOUND, "the refusal", || text().contains(&refused));
    let cycles = || text().matches("Sync cycle complete").count();
    let before = cycles();
    wait_until(BOUND, "more cycles", || cycles() > before + 5);
    agent.signal(Signal::SIGTERM);
    let ended = agent.finish(BOUND);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(!ran_in(&scene, "foreign"));
    let text = text();
    let why = "/foreign/.beads belongs to uid 54321, and the agent would run commands there as nobody (uid 65534); run \
               it as that user, or give --allow-foreign-owner";
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(&refused))
        .collect();
    assert!(lines.len() == 1 && lines[0].ends_with(why), "{text}");
}

#[test]
fn a_named_database_of_another_user_is_an_error_unless_it_is_allowed() {
    let Some(scene) = scene() else { return };
    let refused = agent(&scene, &["--once", "--db", "all/foreign/.beads"]).finish(BOUND);
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(
        words.contains("/foreign/.beads belongs to uid 54321, and the agent would run"),
        "{words}"
    );
    assert!(
        !words.contains("as root") && !ran_in(&scene, "foreign"),
        "{words}"
    );
    let log = scene.path().join("all/own/agent.log");
    let args = [
        "--once",
        "--db",
        "all/foreign/.beads",
        "--log-file",
        log.to_str().unwrap(),
    ];
    let allowed = agent(&scene, &[&args[..], &["--allow-foreign-owner"]].concat()).finish(BOUND);
    assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
    assert!(ran_in(&scene, "foreign"));
}

#[test]
fn a_database_of_root_is_served_by_every_user() {
    let Some(scene) = scene() else { return };
    let log = scene.path().join("all/own/agent.log");
    let args = [
        "--once",
        "--db",
        "all/roots/.beads",
        "--log-file",
        log.to_str().unwrap(),
    ];
    let ended = agent(&scene, &args).finish(BOUND);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(ran_in(&scene, "roots"));
}
