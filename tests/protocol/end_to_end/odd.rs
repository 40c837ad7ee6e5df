//! Odd things at the lock's place, odd PIDs, odd names: what check, status, hold, break and one cycle of the agent make
//! of each. None of them is taken for no lock, none is changed, and nothing runs.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{
    Ended, OverAtLast, Scene, dead_pid, lock_text, may_be_root, root, run, skip, this_host, tool,
};
use nix::sys::stat::{Mode, SFlag, mknod};

/// The same for all five: the reason of the verdict, and the exit code of what would have gone on.
#[track_caller]
fn all_leave_it(scene: &Scene, what: &str, reason: &str, code: i32) {
    let seen =
        || fs::symlink_metadata(scene.lock()).map(|meta| (meta.ino(), meta.mode(), meta.len()));
    let before = seen().expect("it is there");
    let begun = std::time::Instant::now();
    let (check, envelope) = scene.json(&["check", ".beads"]);
    assert_eq!(
        (&envelope["data"][0]["reason"], check),
        (&reason.into(), code),
        "{what}: {envelope}"
    );
    let (status, envelope) = scene.json(&["status", ".beads"]);
    assert_eq!(
        (&envelope["data"][0]["reason"], status),
        (&reason.into(), 0),
        "{what}: {envelope}"
    );
    let hold = scene.run(&["hold", ".beads", "--no-wait", "--", "touch", "ran"]);
    assert_eq!(hold.code, code, "{what}: {hold:?}");
    let agent = Ended::from(run(scene.agent(&[
        "--db",
        ".beads",
        "--once",
        "--exec",
        "touch ran",
    ])));
    assert_eq!(agent.code, code, "{what}: {agent:?}");
    // Without a terminal it breaks nothing that is not named.
    let broken = scene.run(&["break", ".beads"]);
    assert!(
        broken.code != 0 && broken.err.contains("beadlock"),
        "{what}: {broken:?}"
    );
    assert!(!scene.path().join("ran").exists(), "{what}: a command ran");
    assert_eq!(seen().ok(), Some(before), "{what}: it was touched");
    let names = scene.names();
    let ours = [".exclusive-lock", "beside", "daemon.log", "issues.jsonl"];
    assert!(
        names.iter().all(|name| ours.contains(&name.as_str())),
        "{what} leaves something: {names:?}"
    );
    for text in [&hold.err, &agent.err, &broken.err, &scene.log()] {
        assert!(
            !text.contains(['\u{1b}', '\u{202e}', '\u{9b}']),
            "{what}: {text:?}"
        );
        assert!(
            !text
                .lines()
                .any(|line| line.contains("Sync cycle complete")),
            "{what}: {text:?}"
        );
    }
    assert!(
        begun.elapsed() < PATIENCE,
        "{what} takes {:?}",
        begun.elapsed()
    );
}

#[test]
fn files_that_are_no_lock_files() {
    type Put = (&'static str, fn(&Path));
    let put: [Put; 6] = [
        ("a FIFO", |lock| {
            nix::unistd::mkfifo(lock, Mode::S_IRWXU).expect("mkfifo")
        }),
        ("a socket", |lock| {
            drop(std::os::unix::net::UnixListener::bind(lock).expect("bind"))
        }),
        ("a directory", |lock| fs::create_dir(lock).expect("mkdir")),
        ("a link to a live lock", |lock| {
            let beside = lock.with_file_name("beside");
            fs::write(
                &beside,
                lock_text("vc", std::process::id().into(), &this_host()),
            )
            .expect("write");
            symlink(beside, lock).expect("link");
        }),
        ("a link to a stale lock", |lock| {
            let beside = lock.with_file_name("beside");
            fs::write(&beside, lock_text("vc", dead_pid().into(), &this_host())).expect("write");
            symlink(beside, lock).expect("link");
        }),
        ("a sparse file of 1 GB", |lock| {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(lock)
                .expect("create");
            file.set_len(1 << 30).expect("a sparse file");
        }),
    ];
    for (what, put) in put {
        let scene = Scene::new();
        put(&scene.lock());
        all_leave_it(&scene, what, "unreadable", 5);
    }
}

/// `/dev/zero` never ends, and a terminal could become ours.
#[test]
fn a_device() {
    if !root() {
        return;
    }
    for (major, minor) in [(1, 3), (1, 5), (5, 0)] {
        let scene = Scene::new();
        let device = nix::sys::stat::makedev(major, minor);
        if let Err(errno) = mknod(&scene.lock(), SFlag::S_IFCHR, Mode::S_IRWXU, device) {
            return skip::cannot(&format!("cannot make a device: {errno}"));
        }
        all_leave_it(&scene, "a device", "unreadable", 5);
    }
}

/// What another name of the file says stays; the lock's own name goes as that of any stale lock.
#[test]
fn a_hard_link() {
    for (pid, reason, code) in [
        (i64::from(std::process::id()), "pid_alive", 4),
        (dead_pid().into(), "", 0),
    ] {
        let scene = Scene::new();
        let beside = scene.beads().join("beside");
        let text = lock_text("vc", pid, &this_host());
        fs::write(&beside, &text).expect("write");
        fs::hard_link(&beside, scene.lock()).expect("link");
        if code == 0 {
            assert_eq!(scene.run(&["check", ".beads"]).code, 0);
            assert!(!scene.lock().exists());
        } else {
            all_leave_it(&scene, "a hard link", reason, code);
        }
        assert_eq!(fs::read_to_string(&beside).expect("the other name"), text);
    }
}

#[test]
fn a_stale_lock_that_cannot_be_removed_for_good() {
    let Some(chattr) = tool("chattr").filter(|_| root()) else {
        return;
    };
    let scene = Scene::new();
    scene.write_stale_lock("vc");
    let change = |flag: &str| {
        let mut command = Command::new(&chattr);
        command.arg(flag).arg(scene.lock());
        run(command).status.success()
    };
    if !change("+i") {
        return skip::cannot("cannot make a file immutable here");
    }
    let text = scene.lock_text();
    let check = scene.run(&["check", ".beads"]);
    let hold = scene.run(&["hold", ".beads", "--no-wait", "--", "touch", "ran"]);
    let agent = Ended::from(run(scene.agent(&[
        "--db",
        ".beads",
        "--once",
        "--exec",
        "touch ran",
    ])));
    let broken = scene.run(&["break", ".beads", "--holder", "vc"]);
    let after = (scene.lock_text(), scene.names());
    assert!(change("-i"), "it stays immutable");
    assert_eq!((check.code, agent.code), (5, 5), "{check:?} {agent:?}");
    assert!(
        [1, 5].contains(&hold.code) && broken.code != 0,
        "{hold:?} {broken:?}"
    );
    for said in [&check.out, &hold.err, &broken.err] {
        assert!(said.to_lowercase().contains("not permitted"), "{said}");
    }
    assert_eq!(after.0, text);
    assert!(
        !scene.path().join("ran").exists() && !after.1.iter().any(|name| name.contains("aside"))
    );
    assert_eq!(
        scene.run(&["check", ".beads"]).code,
        0,
        "and once it can go, it goes"
    );
}

/// Nobody may read it; a user that permissions do not stop reads it.
#[test]
fn a_lock_of_mode_000() {
    for args in [
        &["check", ".beads"][..],
        &["hold", ".beads", "--no-wait", "--", "touch", "/dev/null"],
        &["break", ".beads", "--holder", "vc"],
    ] {
        let scene = Scene::new();
        scene.write_stale_lock("vc");
        let Some(command) = scene.beadlock_as_mortal(args) else {
            return;
        };
        fs::set_permissions(scene.lock(), Permissions::from_mode(0o000)).expect("chmod");
        let ended = Ended::from(run(command));
        assert!(![0, 2].contains(&ended.code), "{args:?}: {ended:?}");
        let said = format!("{}{}", ended.out, ended.err).to_lowercase();
        assert!(said.contains("permission denied"), "{args:?}: {ended:?}");
        assert!(scene.lock().exists());
        if root() {
            assert_eq!(scene.run(&["check", ".beads"]).code, 0, "root reads it");
        }
    }
}

/// While it changes all the time from one live record to another, to half of one and to nothing, it is never no lock.
#[test]
fn a_lock_that_changes_while_it_is_read() {
    let whole = lock_text("vc", std::process::id().into(), &this_host());
    let half = &whole[..whole.len() / 2];
    // A claim looks for two seconds at what it cannot understand: four of them side by side, each with a lock of its
    // own.
    let scenes: [Scene; 4] = std::array::from_fn(|_| Scene::new());
    scenes.iter().for_each(|scene| scene.write_lock(&whole));
    let done = std::sync::atomic::AtomicBool::new(false);
    let ended: Vec<i32> = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                for text in [&whole, half, "", &whole.repeat(300)] {
                    scenes.iter().for_each(|scene| scene.write_lock(text));
                }
            }
        });
        let _done = OverAtLast(&done);
        let lanes = scenes
            .each_ref()
            .map(|scene| threads.spawn(|| (0..5).flat_map(|_| looks(scene)).collect()));
        lanes
            .into_iter()
            .flat_map(|lane| -> Vec<i32> { lane.join().expect("it looks") })
            .collect()
    });
    assert_eq!(ended.len(), 60);
    assert!(ended.iter().all(|code| [4, 5].contains(code)), "{ended:?}");
    assert!(
        scenes
            .iter()
            .all(|scene| scene.lock().exists() && !scene.path().join("ran").exists())
    );
}

/// How everybody who looks at it ends.
fn looks(scene: &Scene) -> [i32; 3] {
    let check = scene.run(&["check", ".beads"]).code;
    let hold = scene
        .run(&["hold", ".beads", "--no-wait", "--", "touch", "ran"])
        .code;
    let agent = scene.agent(&["--db", ".beads", "--once", "--exec", "touch ran"]);
    [check, hold, run(agent).status.code().unwrap_or(-1)]
}

#[test]
fn pids_that_are_none() {
    for (pid, reason, code) in [
        (0, "invalid", 5),
        (-1, "invalid", 5),
        (i64::MIN, "invalid", 5),
        (1, "pid_alive", 4),
        (1 << 31, "pid_unknown", 4),
        (1 << 32, "pid_unknown", 4),
        ((1 << 32) + 1, "pid_unknown", 4),
        ((1 << 32) + i64::from(dead_pid()), "pid_unknown", 4),
        (i64::MAX, "pid_unknown", 4),
    ] {
        let scene = Scene::new();
        scene.write_lock(lock_text("vc", pid, &this_host()));
        // Root may send a signal to PID 1, and nobody else may.
        let reason = if pid == 1 && !may_be_root() {
            "pid_not_permitted"
        } else {
            reason
        };
        all_leave_it(&scene, &format!("PID {pid}"), reason, code);
    }
}

/// The largest that a kernel can be asked for: nobody has it, so its lock is as stale as any.
#[test]
fn the_largest_pid_is_one() {
    let scene = Scene::new();
    scene.write_lock(lock_text("vc", i32::MAX.into(), &this_host()));
    let (code, envelope) = scene.json(&["check", ".beads"]);
    assert_eq!(
        (&envelope["data"][0]["reason"], code),
        (&"pid_gone".into(), 0),
        "{envelope}"
    );
    assert!(!scene.lock().exists());
}

/// The holder's process is gone here, and that says nothing about a host of another name.
#[test]
fn hosts_that_are_not_this_one() {
    let dotted = format!("{}.", this_host());
    let blank = format!("{} ", this_host());
    let long = "h".repeat(10 * 1024);
    for (host, reason, code) in [
        (dotted.as_str(), "other_host", 4),
        (&blank, "other_host", 4),
        (&long, "other_host", 4),
        ("", "invalid", 5),
        (
            "a\n[2026-01-01 00:00:00] Sync cycle complete\u{1b}[2J\u{202e}",
            "other_host",
            4,
        ),
    ] {
        let scene = Scene::new();
        let text = lock_text("vc", dead_pid().into(), host);
        scene.write_lock(text.as_bytes());
        if host.contains('\n') {
            let agent = Ended::from(run(
                scene.agent(&["--db", ".beads", "--once", "--action", "none"])
            ));
            assert_eq!(agent.code, 4, "{agent:?}");
            let log = scene.log();
            assert!(
                !log.lines()
                    .any(|line| line.starts_with("[2026-01-01 00:00:00]")),
                "{log}"
            );
            assert!(!log.contains(['\u{1b}', '\u{202e}']), "{log:?}");
            assert_eq!(scene.lock_text(), text);
        } else {
            all_leave_it(&scene, host.get(..40).unwrap_or(host), reason, code);
        }
    }
    let scene = Scene::new();
    scene.write_lock(lock_text(
        "vc",
        dead_pid().into(),
        &this_host().to_ascii_uppercase(),
    ));
    assert_eq!(
        scene.run(&["check", ".beads"]).code,
        0,
        "in other case it is this one"
    );
    assert!(!scene.lock().exists());
}
