//! Creating a lock.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use beadlock_checker::{Skip, should_skip_database};
use beadlock_core::record::beads::Record;
use beadlock_core::take::{Attempt, Means, Release, Step};

use crate::scene::{
    Database, MEANS, claimed, crash_at, dead, has_crashed, live, locked_by, released, site,
};

#[test]
fn a_claim_is_whole_is_seen_and_is_released() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let record = Record::new("ours", "1.0").unwrap();
        let held = claimed(&gate, means, &record);
        assert_eq!(
            fs::read_to_string(database.lock()).unwrap(),
            record.to_json()
        );
        assert_eq!(
            fs::metadata(database.lock()).unwrap().mode() & 0o7777,
            0o644
        );
        assert_eq!(database.names(), [".exclusive-lock"], "{means:?}");
        let again = site(&gate, means).claim(&record).unwrap();
        assert!(
            matches!(again, Attempt::Refused(Skip::Locked(..), None)),
            "{again:?}"
        );
        assert!(locked_by("ours")(&should_skip_database(database.path())));
        let released = site(&gate, means).release(&held).unwrap();
        assert_eq!(released, Release::Released, "{means:?}");
        assert!(
            database.names().is_empty(),
            "{means:?}: {:?}",
            database.names()
        );
        let again = site(&gate, Means::BEST).release(&held).unwrap();
        assert_eq!(again, Release::Gone);
    }
}

/// A claim that dies at any step leaves nothing, or a whole record of a process that may be asked for.
#[test]
fn a_crash_at_any_step_of_a_claim_leaves_a_whole_record_or_none() {
    for means in MEANS {
        for step in [Step::Absent, Step::Synced, Step::Linked] {
            let database = Database::new();
            let gate = database.gate();
            let record = Record::new("ours", "").unwrap();
            let crash = |at| crash_at(at, step);
            let crashing = site(&gate, means).with_hook(crash);
            assert!(
                has_crashed(|| crashing.claim(&record)),
                "{step:?} was not reached"
            );
            match step {
                Step::Linked => assert_eq!(
                    fs::read_to_string(database.lock()).unwrap(),
                    record.to_json()
                ),
                _ => assert!(!database.lock().exists()),
            }
        }
    }
}

/// A named unfinished lock, as it is made where there are no unnamed files, is swept by the next claim once its process
/// is dead.
#[test]
fn unfinished_locks_of_the_dead_are_swept() {
    for means in MEANS {
        let database = Database::new();
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = child.id();
        let at = |name: &str| database.path().join(format!(".exclusive-lock.tmp-{name}"));
        let dead = at(&format!("{gone}-0123abcd"));
        let living = at(&format!("{}-0123abcd", std::process::id()));
        for name in [&dead, &living] {
            fs::write(name, "{").unwrap();
        }
        // Somebody's own, whatever it is called, and whatever no unfinished lock can be.
        let [named, long, link, fifo] = ["notes.txt", "00000001", "00000002", "00000003"]
            .map(|random| at(&format!("{gone}-{random}")));
        fs::write(&named, "precious").unwrap();
        fs::write(&long, [b'x'; 64 * 1024 + 1]).unwrap();
        std::os::unix::fs::symlink(&named, &link).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let gate = database.gate();
        let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
        assert!(!dead.exists() && living.exists(), "{means:?}");
        for theirs in [&named, &long, &link, &fifo] {
            assert!(
                fs::symlink_metadata(theirs).is_ok(),
                "{means:?}: {theirs:?}"
            );
        }
        assert_eq!(released(held, &gate), Release::Released);
    }
}

/// A stale lock that was removed is told of also when another one came before the claim.
#[test]
fn a_removal_is_told_of_when_the_claim_is_refused_after_it() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let mut came = None;
        let hook = |at| {
            if at == Step::Deleted && came.is_none() {
                came = Some(fs::write(database.lock(), live("other")));
            }
        };
        let attempt = site(&gate, means)
            .with_hook(hook)
            .claim(Record::new("ours", "").unwrap())
            .unwrap();
        let Attempt::Refused(Skip::Locked(record, _), Some(removed)) = attempt else {
            panic!("{means:?}: {attempt:?}")
        };
        assert_eq!(
            (record.holder(), removed.record.holder()),
            ("other", "crashed"),
            "{means:?}"
        );
        assert_eq!(database.holder(), "other");
    }
}

/// What no reader would accept is never written: it would block the database for ever.
#[test]
fn a_record_that_nobody_could_read_is_not_claimed_with() {
    let database = Database::new();
    let gate = database.gate();
    let mut nameless = Record::new("ours", "").unwrap();
    nameless.holder.clear();
    for record in [nameless, Record::new("ours", &"1".repeat(70_000)).unwrap()] {
        let error = site(&gate, Means::BEST)
            .claim(&record)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("that nobody could read") && error.contains(".exclusive-lock"),
            "{error}"
        );
        assert!(database.names().is_empty());
    }
}
