//! Breaking a lock that is not a readable file: whatever it is, it is kept as a lock is.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use beadlock_checker::{Reason, Verdict, Watched};
use beadlock_core::take::{Broken, Licence, Means, Step};

use super::{BREAKING, kept, seen};
use crate::scene::{
    Database, MEANS, Writer, crash_at, has_crashed, locked_by, site, with_claim_at,
};

const STRANGE: [&str; 5] = ["symlink", "FIFO", "socket", "directory", "large"];

/// Puts such a thing where a lock is a regular file.
pub fn make_strange(kind: &str, lock: &Path) {
    match kind {
        "symlink" => symlink("/nowhere", lock).unwrap(),
        "FIFO" => nix::unistd::mkfifo(lock, nix::sys::stat::Mode::S_IRWXU).unwrap(),
        "socket" => drop(UnixListener::bind(lock).unwrap()),
        "directory" => {
            fs::create_dir(lock).unwrap();
            fs::write(lock.join("pid"), "7").unwrap();
        }
        _ => fs::write(lock, vec![b' '; 70_000]).unwrap(),
    }
}

#[test]
fn what_is_no_readable_file_is_kept_the_same_way() {
    for means in MEANS {
        for kind in STRANGE {
            let database = Database::new();
            make_strange(kind, &database.lock());
            let before = fs::symlink_metadata(database.lock()).unwrap().ino();
            let seen = seen(&database);
            assert_eq!(seen.look().verdict, Verdict::Unreadable(Reason::Unreadable));
            let gate = database.gate();
            let broken = site(&gate, means).break_lock(&seen, Licence::UnlessHeld);
            if kind == "directory" && !means.renameat2 {
                let error = broken.unwrap_err().to_string();
                assert!(
                    error.starts_with("failed to move aside /"),
                    "a directory has no second link: {error}"
                );
                assert_eq!(database.names(), [".exclusive-lock"]);
                continue;
            }
            let Broken::Kept { file, watched } = broken.unwrap() else {
                panic!("{kind} with {means:?}")
            };
            assert_eq!(fs::symlink_metadata(file).unwrap().ino(), before);
            let by_lease = means.leases && kind == "large";
            assert_eq!(
                watched,
                if by_lease {
                    Watched::ByLease
                } else {
                    Watched::ByComparison
                },
                "{kind}"
            );
            assert_eq!(kept(&database).len(), 1);
            assert_eq!(database.names().len(), 1, "{:?}", database.names());
        }
    }
}

/// A claim by rename over a strange thing, and one in place into a large file, at any step.
#[test]
fn a_naive_claim_over_a_strange_thing_survives() {
    for means in MEANS {
        for (kind, writer) in [
            ("symlink", Writer::ByRename),
            ("FIFO", Writer::ByRename),
            ("large", Writer::ByRename),
            ("large", Writer::InPlace),
        ] {
            for step in BREAKING {
                let database = Database::new();
                make_strange(kind, &database.lock());
                let inode = fs::symlink_metadata(database.lock()).unwrap().ino();
                let seen = seen(&database);
                let gate = database.gate();
                let broken = with_claim_at(step, writer, &database, |hook| {
                    site(&gate, means)
                        .with_hook(hook)
                        .break_lock(&seen, Licence::UnlessHeld)
                        .unwrap()
                });
                drop(gate);
                let scene =
                    format!("{writer:?} over {kind} at {step:?} with {means:?}: {broken:?}");
                assert!(
                    locked_by("naive")(&database.next_check()),
                    "the claim is lost: {scene}"
                );
                match broken {
                    Broken::Kept { file, .. } => {
                        assert_eq!(fs::symlink_metadata(file).unwrap().ino(), inode, "{scene}");
                    }
                    Broken::Changed => assert!(kept(&database).is_empty(), "{scene}"),
                    other => panic!("{other:?}: {scene}"),
                }
            }
        }
    }
}

#[test]
fn a_crash_with_a_strange_thing_aside_is_recovered() {
    for kind in STRANGE {
        let database = Database::new();
        make_strange(kind, &database.lock());
        let seen = seen(&database);
        let gate = database.gate();
        let crashing = site(&gate, Means::BEST).with_hook(|at| crash_at(at, Step::MovedAside));
        assert!(has_crashed(
            || crashing.break_lock(&seen, Licence::UnlessHeld)
        ));
        drop(gate);
        assert_eq!(database.next_check().reason(), Reason::Unreadable, "{kind}");
        let gate = database.gate();
        let broken = site(&gate, Means::BEST)
            .break_lock(&seen, Licence::UnlessHeld)
            .unwrap();
        assert!(matches!(broken, Broken::Kept { .. }), "{kind}: {broken:?}");
    }
}

/// Something is put into a directory while it is watched: somebody is at it. What comes after the grace is too late,
/// so one round in time is enough.
#[test]
fn a_strange_thing_that_changes_is_left() {
    assert!(
        (0..5).any(|_| one_that_changes_is_left()),
        "no change is ever seen"
    );
}

fn one_that_changes_is_left() -> bool {
    let database = Database::new();
    make_strange("directory", &database.lock());
    let seen = seen(&database);
    let gate = database.gate();
    let mut writing = None;
    let hook = |at| {
        if at == Step::MovedAside {
            // It looked the path up before the move; its file comes during the grace.
            let aside = database.aside();
            writing = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                let _ = fs::write(aside.join("new"), "");
            }));
        }
    };
    let broken = site(&gate, Means::BEST)
        .with_hook(hook)
        .break_lock(&seen, Licence::UnlessHeld)
        .unwrap();
    writing.unwrap().join().unwrap();
    if broken != Broken::Changed {
        return false;
    }
    assert!(database.lock().join("new").exists() && kept(&database).is_empty());
    true
}
