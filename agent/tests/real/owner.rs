//! As root the agent runs nothing in a database of another user. Only root can have such a scene.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use crate::agent::{OfAgent, count_in, fresh_scene, log_of};
use beadlock_testkit::{root, until};
use nix::sys::signal::Signal;

const SOMEBODY: u32 = 54_321;

fn give(dir: &Path, uid: u32) {
    chown(dir, Some(uid), Some(uid)).unwrap();
}

fn words(dir: &Path) -> String {
    format!(
        "{} belongs to uid {SOMEBODY}, and as root the agent would run commands there; run it as that user, or \
         give --allow-foreign-owner",
        dir.display()
    )
}

#[test]
fn one_that_is_named_is_refused_at_the_start() {
    if !root() {
        return;
    }
    let scene = fresh_scene();
    let redirected = scene.database("redirected");
    fs::write(redirected.join("redirect"), "../.beads").unwrap();
    scene.write(
        "conf.toml",
        "exec = 'touch ran'\n[[database]]\ndir = '.beads'\n",
    );
    for (foreign, args) in [
        (&scene.beads(), &["--exec", "touch ran"][..]),
        (
            &scene.beads(),
            &["--db", "redirected/.beads", "--exec", "touch ran"],
        ),
        (
            &redirected,
            &["--db", "redirected/.beads", "--exec", "touch ran"],
        ),
        (&scene.path().to_path_buf(), &["--exec", "touch ran"]),
        (&scene.beads(), &["--config", "conf.toml"]),
    ] {
        give(foreign, SOMEBODY);
        let (code, stderr) = scene.once(args);
        assert!(code == 1 && stderr.contains(&words(foreign)), "{stderr}");
        assert!(!scene.file("ran").exists() && !scene.beads().join("daemon.log").exists());
        give(foreign, 0);
    }
    give(&scene.beads(), SOMEBODY);
    assert_eq!(
        scene.once(&["--exec", "touch ran", "--allow-foreign-owner"]),
        (0, String::new())
    );
    assert!(scene.file("ran").exists());
    let stderr = scene.once(&["--config", "conf.toml"]).1;
    assert!(
        stderr.starts_with("beadlock-agent: conf.toml:3:1: ")
            && stderr.contains(&words(&scene.beads())),
        "{stderr}"
    );
}

#[test]
fn one_that_is_found_is_left_out_and_said_once() {
    if !root() {
        return;
    }
    let scene = fresh_scene();
    let foreign = scene.database("foreign");
    give(&foreign, SOMEBODY);
    let not_serving = format!("Not serving {}: {}", foreign.display(), words(&foreign));
    let agent = scene.start(&["--root", ".", "--interval", "100ms", "--exec", "true"]);
    until("cycles", || scene.count("Sync cycle complete") > 10);
    assert!(!foreign.join("daemon.log").exists());
    // Becoming root's it is served; and no longer when it is somebody's again.
    give(&foreign, 0);
    until("its cycles", || {
        count_in(&foreign, "Sync cycle complete") > 0
    });
    give(&foreign, SOMEBODY);
    until("its end", || {
        scene.count(&format!("Database gone: {}", foreign.display())) == 1
    });
    let five_cycles = || {
        let cycles = scene.count("Sync cycle complete");
        until("cycles", || scene.count("Sync cycle complete") > cycles + 5);
    };
    // Its last words may still be on their way to its log.
    five_cycles();
    let lines = log_of(&foreign).len();
    five_cycles();
    assert_eq!(log_of(&foreign).len(), lines);
    assert!(scene.count(&not_serving) <= 3, "once each time");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn it_is_asked_again_before_each_cycle() {
    if !root() {
        return;
    }
    let scene = fresh_scene();
    let agent = scene.start(&["--interval", "50ms", "--exec", "echo x >> ran"]);
    until("a cycle", || scene.count("Sync cycle complete") > 0);
    // Another directory in its place.
    #[expect(clippy::disallowed_methods, reason = "what somebody does")]
    fs::rename(scene.beads(), scene.file("old")).unwrap();
    let next = scene.file("next");
    fs::create_dir(&next).unwrap();
    give(&next, SOMEBODY);
    #[expect(clippy::disallowed_methods, reason = "what somebody does")]
    fs::rename(&next, scene.beads()).unwrap();
    let not_serving = format!(
        "Not serving {}: {}",
        scene.beads().display(),
        words(&scene.beads())
    );
    until("the word", || scene.count(&not_serving) == 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(
        (
            scene.count(&not_serving),
            scene.count("Starting sync cycle...")
        ),
        (1, 0),
        "once, and no cycle"
    );
    let reloaded = format!(
        "Configuration not reloaded: {}; the old one stays",
        words(&scene.beads())
    );
    agent.signal(Signal::SIGHUP);
    until("no reload", || scene.count(&reloaded) == 1);
    give(&scene.beads(), 0);
    until("a cycle", || scene.count("Sync cycle complete") > 0);
    assert_eq!(agent.stop(), Some(0));
}
