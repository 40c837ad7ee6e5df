//! Releasing one's own lock.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_checker::Place;
use beadlock_core::gate::Gate;
use beadlock_core::record::beads::Record;
use beadlock_core::take::{Attempt, Means, Release, Settled, Step};
use beadlock_testkit::tool;

use crate::scene::{
    Database, MEANS, REMOVAL, Writer, claim_naively, claimed, crash_at, dead, has_crashed, live,
    locked_by, released, site, with_claim_at,
};

/// Only one's own lock is ever released: neither a later one, nor one written over it in place.
#[test]
fn a_release_leaves_a_lock_that_is_not_ours() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            let database = Database::new();
            let gate = database.gate();
            let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
            claim_naively(writer, database.lock()).join().unwrap();
            let released = site(&gate, means).release(&held).unwrap();
            let Release::NotOurs(Some(there)) = released else {
                panic!("{writer:?}: {released:?}")
            };
            assert_eq!(there.holder(), "naive");
            assert_eq!(database.holder(), "naive");
        }
    }
}

/// docs/model.md#v12: a claim that comes while we release is never taken for ours.
#[test]
fn a_naive_claim_survives_a_release_at_any_step() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in REMOVAL {
                let database = Database::new();
                let gate = database.gate();
                let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
                let released = with_claim_at(step, writer, &database, |hook| {
                    site(&gate, means).with_hook(hook).release(&held).unwrap()
                });
                drop(gate);
                let scene = format!("{writer:?} at {step:?} with {means:?}: {released:?}");
                assert!(
                    locked_by("naive")(&database.next_check()),
                    "the claim is lost: {scene}"
                );
            }
        }
    }
}

/// Only beadlock writes a lock at a path, so nobody is waited for (docs/model.md#v13). A file of a database's name is a
/// database's lock whatever claims it, and a claim of it that is released at once waits.
#[test]
fn a_young_lock_at_a_path_is_released_at_once() {
    /// How long the lock of a claim that has just begun lies aside.
    fn lies_aside(name: &str, means: Means) -> Duration {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::named(dir.path(), OsStr::new(name)).unwrap();
        let gate = Gate::try_take(dir.path())
            .unwrap()
            .expect("the gate is free");
        let site = || site(&gate, means).with_names(place.names());
        let record = Record::new("ours", "").unwrap();
        let Attempt::Claimed(held, None) = site().claim(record).unwrap() else {
            panic!("it is free");
        };
        let (mut aside, mut over) = (None, None);
        let hook = |step| match step {
            Step::MovedAside => aside = Some(Instant::now()),
            Step::GraceOver => over = Some(Instant::now()),
            _ => {}
        };
        let released = site().with_hook(hook).release(&held).unwrap();
        assert_eq!(released, Release::Released);
        over.unwrap() - aside.unwrap()
    }
    // Many of each: a busy machine makes a wait longer, and what is left of the grace shorter.
    let at_once = Duration::from_millis(3);
    for means in [Means::BEST, Means::PORTABLE] {
        let all = |name| (0..20).map(move |_| lies_aside(name, means));
        let shortest = all("x.lock").min().unwrap();
        assert!(shortest < at_once, "{means:?}: {shortest:?}");
        let longest = all(".exclusive-lock").max().unwrap();
        assert!(longest >= at_once, "{means:?}: {longest:?}");
    }
}

/// A release that was cut short is finished by the next one with the gate.
#[test]
fn a_crash_at_any_step_of_a_release_is_recovered() {
    for means in MEANS {
        for step in REMOVAL {
            let database = Database::new();
            let gate = database.gate();
            let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
            let crash = |at| crash_at(at, step);
            let mut crashing = site(&gate, means).with_hook(crash);
            assert!(
                has_crashed(|| crashing.release(&held)),
                "{step:?} was not reached"
            );
            let released = site(&gate, Means::BEST).release(&held).unwrap();
            assert!(
                matches!(released, Release::Released | Release::Gone),
                "{step:?}: {released:?}"
            );
            assert!(
                database.names().is_empty(),
                "{step:?} with {means:?}: {:?}",
                database.names()
            );
        }
    }
}

/// Ours at the path and somebody's live claim aside: releasing ours puts theirs in its place.
#[test]
fn a_release_brings_back_what_lies_aside() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    fs::write(database.aside(), live("naive")).unwrap();
    let released = site(&gate, Means::BEST).release(&held).unwrap();
    assert_eq!(
        (released, database.holder().as_str()),
        (Release::Released, "naive")
    );
    drop(gate);
    assert!(locked_by("naive")(&database.next_check()));
}

/// The same while somebody has ours open for writing. A child that another thread starts has it open between its fork
/// and its exec, and then no lease is granted on it.
#[test]
fn a_release_brings_back_what_lies_aside_also_while_ours_is_open_for_writing() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    fs::write(database.aside(), live("naive")).unwrap();
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(database.lock())
        .unwrap();
    let released = site(&gate, Means::BEST).release(&held).unwrap();
    assert_eq!(
        (released, database.holder().as_str()),
        (Release::Released, "naive")
    );
    assert_eq!(
        database.names(),
        [".exclusive-lock"],
        "ours is not left aside"
    );
    drop(writer);
    drop(gate);
    assert!(locked_by("naive")(&database.next_check()));
}

/// A reader never stands in the way, neither of a removal nor of a release.
#[test]
fn readers_are_not_noticed() {
    let database = Database::new();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let reader = fs::File::open(database.lock()).unwrap();
    let gate = database.gate();
    let settled = site(&gate, Means::BEST).settle();
    assert!(
        matches!(settled, Settled::Free { removed: Some(_) }),
        "{settled:?}"
    );
    drop(reader);
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let _reader = fs::File::open(database.lock()).unwrap();
    assert_eq!(released(held, &gate), Release::Released);
}

/// While the lock cannot be looked at (here: under somebody's write lease), a release says neither "gone" nor "not
/// ours"; it comes again until it can.
#[test]
fn a_release_waits_until_it_can_look() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let script = "import fcntl, signal, sys\n\
        signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        file = open(sys.argv[1], 'r+')\n\
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        print('leased', flush=True)\n\
        sys.stdin.read()";
    let Some(python) = tool("python3") else {
        return;
    };
    let mut python = Command::new(python);
    python
        .args(["-c", script])
        .arg(database.lock())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut leaser = python.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(leaser.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "leased\n");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(leaser.stdin.take());
        leaser.wait().unwrap();
    });
    assert_eq!(released(held, &gate), Release::Released);
    later.join().unwrap();
}

/// A record without an id is known by its fields, as a reader sees them.
#[test]
fn a_claim_without_an_id_is_released_too() {
    for means in MEANS {
        let database = Database::new();
        let gate = database.gate();
        let held = claimed(
            &gate,
            means,
            &Record {
                beadlock: None,
                ..Record::new("ours", "1").unwrap()
            },
        );
        assert_eq!(released(held, &gate), Release::Released);
    }
}

#[test]
fn the_gate_of_another_database_releases_nothing() {
    let (ours, other) = (Database::new(), Database::new());
    let gate = ours.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let (held, error) = held.release(Some(&other.gate())).unwrap_err();
    assert!(error.to_string().contains("another directory"), "{error}");
    assert_eq!(ours.holder(), "ours");
    assert_eq!(released(held, &gate), Release::Released);
}

/// The lock goes with its directory when that is renamed during the hold, and so does its release.
#[test]
fn a_release_follows_its_directory() {
    let top = tempfile::tempdir().unwrap();
    let (old, new) = (top.path().join("old"), top.path().join("new"));
    fs::create_dir(&old).unwrap();
    let gate = Gate::try_take(&old).unwrap().unwrap();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    drop(gate);
    fs::rename(&old, &new).unwrap();
    let gate = Gate::try_take(&held.reach()).unwrap().unwrap();
    assert!(
        Gate::try_take(&new).unwrap().is_none(),
        "it is that directory's gate"
    );
    assert_eq!(released(held, &gate), Release::Released);
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
}
