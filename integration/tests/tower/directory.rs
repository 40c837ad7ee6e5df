//! Sections 2.3, 10.1 and 12.1: the lock directory.
#![expect(clippy::disallowed_methods, reason = "a test clears up")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use beadlock_testkit::Running;

use crate::scene::{INTENT, TARGET, Tower};

#[test]
fn the_default_is_the_documents() {
    let tower = Tower::new();
    let json = tower.scene.run(&["status", TARGET, "--json"]).json();
    assert_eq!(json["data"][0]["path"], "/root/tower-fleet/logs/locks/app-prod.lock");
}

#[test]
fn the_option_beats_the_environment_and_the_file_is_name_dot_lock() {
    let tower = Tower::new();
    let hold = |dir: &[&str]| {
        let words = [&["hold", TARGET][..], &INTENT, dir, &["--", "sh", "-c", "ls locks other"]].concat();
        Running::apart(tower.command(&words)).end()
    };
    fs::create_dir(tower.scene.file("other")).unwrap();
    assert_eq!(hold(&[]).expect(0, &[]).out, "locks:\napp-prod.lock\n\nother:\n");
    assert_eq!(hold(&["--lock-dir", "other"]).expect(0, &[]).out, "locks:\n\nother:\napp-prod.lock\n");
}

#[test]
fn it_is_made_with_mode_0700() {
    let tower = Tower::new();
    fs::remove_dir(tower.dir()).unwrap();
    let words = [&["hold", TARGET, "--lock-dir", "a/b/locks"][..], &INTENT, &["--", "true"]].concat();
    tower.run(&words).expect(0, &[]);
    for made in ["a", "a/b", "a/b/locks"] {
        assert_eq!(fs::metadata(tower.scene.file(made)).unwrap().permissions().mode() & 0o7777, 0o700, "{made}");
    }
    assert!(tower.scene.file("a/b/audit.jsonl").exists());
}

#[test]
fn another_users_is_warned_about() {
    let tower = Tower::new();
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    chown(tower.dir(), Some(65534), None).unwrap();
    tower.hold(&[], "true").expect(0, &["warning:", "belongs to user 65534"]);
}

#[test]
fn one_that_others_may_write_is_warned_about() {
    let tower = Tower::new();
    fs::set_permissions(tower.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    tower.hold(&[], "true").expect(0, &["warning: others may write the lock directory", "chmod 700"]);
}

#[test]
fn one_that_cannot_be_made_is_said() {
    let tower = Tower::new();
    fs::write(tower.scene.file("file"), "").unwrap();
    let words = [&["hold", TARGET, "--lock-dir", "file/locks"][..], &INTENT, &["--", "true"]].concat();
    tower.run(&words).expect(1, &["file/locks cannot be made: not a directory", "--lock-dir"]);
    fs::remove_file(tower.scene.file("file")).unwrap();
}
