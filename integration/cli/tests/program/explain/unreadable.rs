//! Files in the place of a lock that cannot be understood.
#![expect(
    clippy::disallowed_methods,
    reason = "what tools do to a lock file, and ages for it"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use beadlock_testkit::{Running, as_nobody};
use nix::sys::stat::Mode;
use serde_json::json;

use super::Seen;

#[test]
fn an_empty_file_by_its_age() {
    let scene = crate::a_scene();
    let file = fs::File::create(scene.lock()).unwrap();
    // A little ahead, so that a slow machine cannot make it old.
    let age = |seconds| {
        file.set_modified(now() - Duration::from_secs(seconds))
            .unwrap()
    };
    file.set_modified(now()).unwrap();
    let text = scene.run(&["status", "-v"]).out;
    assert!(
        text.contains("somebody may be writing it")
            && text.contains("next: sleep 2; beadlock status .beads"),
        "{text}"
    );
    age(2);
    Seen::of(&scene, "empty")
        .says(&[
            "why: the file is empty: who made it died before the first byte, or the disk is full",
            "file: 0 bytes",
        ])
        .next("beadlock break .beads --malformed", "df -h");
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["file"].clone();
    assert_eq!(
        (&witnesses["kind"], &witnesses["size"]),
        (&json!("file"), &json!(0))
    );
    assert!(witnesses["age_ms"].as_i64() >= Some(2000), "{witnesses}");
    scene
        .run(&["break", ".beads", "--malformed"])
        .expect(0, &[]);
    Seen::of(&scene, "free").next("beadlock hold .beads -- CMD", "");
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn what_cannot_be_understood() {
    let scene = crate::a_scene();
    for (content, situation) in [
        ("{\"holder\":", "malformed"),
        ("[1]", "malformed"),
        ("{\"holder\":\"x\"}", "invalid"),
    ] {
        fs::write(scene.lock(), content).unwrap();
        let file = fs::File::options().append(true).open(scene.lock()).unwrap();
        file.set_modified(now() - Duration::from_secs(60)).unwrap();
        Seen::of(&scene, situation)
            .says(&["every daemon skips", "last written 1m"])
            .next(
                "beadlock status --raw .beads",
                "when nobody needs it: beadlock break .beads --malformed",
            );
    }
}

#[test]
fn what_is_no_lock_file_at_all() {
    let scene = crate::a_scene();
    let lock = fs::canonicalize(scene.beads())
        .unwrap()
        .join(".exclusive-lock");
    let shown = lock.display();
    symlink("/etc/passwd", &lock).unwrap();
    Seen::of(&scene, "not_a_file")
        .says(&["why: there is a symbolic link where a lock is a regular file"])
        .next(
            &format!("ls -ld {shown}"),
            "beadlock break .beads --malformed",
        );
    fs::remove_file(&lock).unwrap();
    nix::unistd::mkfifo(&lock, Mode::S_IRWXU).unwrap();
    let seen = Seen::of(&scene, "not_a_file").says(&["there is a FIFO", "file: a FIFO, of user "]);
    assert_eq!(seen.data["witnesses"]["file"]["kind"], "fifo");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    Seen::of(&scene, "not_a_file")
        .says(&["there is a directory"])
        .next(&format!("ls -la {shown}"), "");
    fs::remove_dir(&lock).unwrap();
    fs::write(&lock, vec![b' '; 64 * 1024 + 1]).unwrap();
    Seen::of(&scene, "too_large").says(&["why: no lock is that large", "file: 65537 bytes"]);
    fs::write(&lock, "{}").unwrap();
    let mode = |mode| {
        fs::set_permissions(&lock, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap()
    };
    mode(0);
    fs::set_permissions(
        scene.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut command = scene.beadlock(&["status", "-v", ".beads"]);
    if as_nobody(&mut command) {
        let text = Running::apart(command).end().expect(0, &[]).out;
        assert!(
            text.contains("permission denied") && text.contains("next: ls -ld "),
            "{text}"
        );
    }
}

/// The error names the directory, because its mode and not the lock is in the way.
#[test]
fn a_directory_that_may_not_be_searched_is_named() {
    let scene = crate::a_scene();
    fs::create_dir_all(scene.file("half/.beads")).unwrap();
    let chmod = |path: &std::path::Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    chmod(scene.path(), 0o755);
    let half = fs::canonicalize(scene.file("half")).unwrap();
    chmod(&half, 0o644);
    let shown = half.display();
    let closed = format!(
        "this user may not search the directory {shown} (mode 0644); its owner may allow it: chmod a+x {shown}\n"
    );
    for (args, code) in [
        (
            &["hold", "--wait", "1ms", "lock:half/x", "--", "true"][..],
            5,
        ),
        (&["hold", "lock:half/below/x", "--", "true"], 1),
        (&["hold", "memory:half/.beads", "--", "true"], 1),
        (&["check", "half/.beads"], 1),
        (
            &[
                "hold",
                "--wait",
                "1ms",
                "--any-directory",
                "half",
                "--",
                "true",
            ],
            5,
        ),
    ] {
        let mut command = scene.beadlock(args);
        if !as_nobody(&mut command) {
            return;
        }
        let ended = Running::apart(command)
            .end()
            .expect(code, &["permission denied"]);
        assert!(ended.err.ends_with(&closed), "{ended:?}");
    }
    let mut command = scene.beadlock(&["status", "-v", "lock:half/x"]);
    assert!(as_nobody(&mut command));
    let ended = Running::apart(command).end().expect(0, &[]);
    assert!(
        ended
            .out
            .ends_with(&format!("next: namei -l {shown}/x   # {closed}")),
        "{ended:?}"
    );
}
