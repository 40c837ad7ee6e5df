//! Breaking a lock: the steps of a removal, with a file that is kept in place of the deletion.

mod strange;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use beadlock_checker::{Options, Place, Reason, Watched};
use beadlock_core::take::{BreakableLock, Broken, Licence, Means, Step};

use crate::scene::{
    Database, MEANS, REMOVAL, Writer, crash_at, dead, has_crashed, live, locked_by, site,
    with_claim_at,
};
use strange::make_strange;

/// Every step of breaking a lock: at the end of a removal it is kept, not deleted.
const BREAKING: [Step; 7] = {
    let mut steps = REMOVAL;
    steps[6] = Step::Kept;
    steps
};

/// What may lie at a lock's path, and what has to be said for it to be broken.
const LOCKS: [(&str, Licence); 3] = [
    ("dead", Licence::UnlessHeld),
    ("live", Licence::EvenIfLive),
    ("torn", Licence::UnlessHeld),
];

fn text(kind: &str) -> String {
    match kind {
        "dead" => dead("old"),
        "live" => live("old"),
        _ => "{\"holder\": \"old".to_owned(),
    }
}

fn seen(database: &Database) -> BreakableLock {
    BreakableLock::at(&Place::beads(database.path()), &Options::default())
}

/// A database with such a lock, and the look that somebody has taken at it.
fn locked(kind: &str) -> (Database, BreakableLock) {
    let database = Database::new();
    fs::write(database.lock(), text(kind)).unwrap();
    let seen = seen(&database);
    (database, seen)
}

/// Runs a test for every kind of lock at every step, with each set of means.
fn each(mut test: impl FnMut(Means, &str, Licence, Step)) {
    for means in MEANS {
        for (kind, licence) in LOCKS {
            BREAKING
                .into_iter()
                .for_each(|step| test(means, kind, licence, step));
        }
    }
}

/// The names of what is kept, after a look that nothing else is left of it.
fn kept(database: &Database) -> Vec<String> {
    assert!(!database.aside().exists(), "{:?}", database.names());
    let mut kept: Vec<String> = database
        .names()
        .into_iter()
        .filter(|name| name.starts_with(".exclusive-lock.broken-"))
        .collect();
    kept.sort();
    kept
}

#[test]
fn a_lock_that_is_broken_is_kept_as_it_was() {
    for means in MEANS {
        for (kind, licence) in LOCKS {
            let database = Database::new();
            let mut inodes = Vec::new();
            for _ in 0..3 {
                fs::write(database.lock(), text(kind)).unwrap();
                let (before, there) = (
                    fs::read(database.lock()).unwrap(),
                    fs::metadata(database.lock()).unwrap(),
                );
                let gate = database.gate();
                let broken = site(&gate, means)
                    .break_lock(&seen(&database), licence)
                    .unwrap();
                let Broken::Kept { file, watched } = broken else {
                    panic!("{kind} with {means:?}: {broken:?}")
                };
                assert_eq!(
                    watched,
                    if means.leases {
                        Watched::ByLease
                    } else {
                        Watched::ByComparison
                    }
                );
                let now = fs::metadata(&file).unwrap();
                assert_eq!(
                    (now.ino(), now.mode()),
                    (there.ino(), there.mode()),
                    "the file itself"
                );
                assert_eq!(fs::read(&file).unwrap(), before);
                assert!(!database.lock().exists());
                inodes.push(now.ino());
            }
            let kept = kept(&database);
            assert_eq!(kept.len(), 3, "never one over another: {kept:?}");
            for name in kept {
                let stem = name
                    .strip_prefix(".exclusive-lock.broken-")
                    .unwrap()
                    .strip_suffix(".json")
                    .unwrap();
                let (time, number) = stem.split_once('-').unwrap_or((stem, "2"));
                let digits = time.strip_suffix('Z').unwrap().replacen('T', "", 1);
                assert!(time.len() == 16 && digits.len() == 14, "{name}");
                assert!(
                    digits.bytes().all(|byte| byte.is_ascii_digit())
                        && number.parse::<u8>().is_ok(),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn a_held_lock_is_spared_unless_one_says_so() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), live("ci")).unwrap();
        let gate = database.gate();
        let broken = site(&gate, means)
            .break_lock(&seen(&database), Licence::UnlessHeld)
            .unwrap();
        assert_eq!(broken, Broken::Changed);
        assert_eq!(database.names(), [".exclusive-lock"]);
    }
}

#[test]
fn nothing_but_what_was_looked_at_is_broken() {
    for means in MEANS {
        for (old, new) in [
            (dead("a"), dead("b")),
            (live("a"), live("b")),
            (String::new(), "[".into()),
            ("[".into(), live("b")),
        ] {
            let database = Database::new();
            fs::write(database.lock(), old).unwrap();
            let seen = seen(&database);
            fs::write(database.lock(), &new).unwrap();
            let gate = database.gate();
            let broken = site(&gate, means)
                .break_lock(&seen, Licence::EvenIfLive)
                .unwrap();
            assert_eq!(
                (broken, fs::read_to_string(database.lock()).unwrap()),
                (Broken::Changed, new)
            );
            fs::remove_file(database.lock()).unwrap();
            assert_eq!(
                site(&gate, means)
                    .break_lock(&seen, Licence::EvenIfLive)
                    .unwrap(),
                Broken::Gone
            );
            assert!(database.names().is_empty());
        }
        // All empty files are alike: this one is somebody's who is about to write.
        let database = Database::new();
        fs::write(database.lock(), "").unwrap();
        let seen = seen(&database);
        fs::remove_file(database.lock()).unwrap();
        fs::write(database.lock(), "").unwrap();
        let gate = database.gate();
        assert_eq!(
            site(&gate, means)
                .break_lock(&seen, Licence::UnlessHeld)
                .unwrap(),
            Broken::Changed
        );
        assert!(database.lock().exists());
    }
}

/// Whatever the step, a tool that claims over a lock that is being broken keeps its claim, and where it claimed over
/// that very file, that is not broken.
#[test]
fn a_naive_claim_survives_a_breaking_at_any_step() {
    for writer in [Writer::InPlace, Writer::ByRename] {
        each(|means, kind, licence, step| {
            let (database, seen) = locked(kind);
            let old = fs::read(database.lock()).unwrap();
            let gate = database.gate();
            let broken = with_claim_at(step, writer, &database, |hook| {
                site(&gate, means)
                    .with_hook(hook)
                    .break_lock(&seen, licence)
                    .unwrap()
            });
            drop(gate);
            let scene = format!("{writer:?} over {kind} at {step:?} with {means:?}: {broken:?}");
            assert!(
                locked_by("naive")(&database.next_check()),
                "the claim is lost: {scene}"
            );
            match broken {
                Broken::Kept { file, .. } => assert_eq!(fs::read(file).unwrap(), old, "{scene}"),
                Broken::Changed => assert!(kept(&database).is_empty(), "{scene}"),
                other => panic!("{other:?}: {scene}"),
            }
        });
    }
}

/// A program that removes locks by path, without the gate, takes nothing else along.
#[test]
fn a_naive_removal_at_any_step_leaves_nothing_or_the_kept_file() {
    each(|means, kind, licence, step| {
        let (database, seen) = locked(kind);
        let gate = database.gate();
        let hook = |at| {
            if at == step {
                let _ = fs::remove_file(database.lock());
            }
        };
        let broken = site(&gate, means)
            .with_hook(hook)
            .break_lock(&seen, licence)
            .unwrap();
        let is_kept = matches!(broken, Broken::Kept { .. });
        let scene = format!("{kind} at {step:?} with {means:?}: {broken:?}");
        assert!(
            is_kept || [Broken::Gone, Broken::Changed].contains(&broken),
            "{scene}"
        );
        assert_eq!(kept(&database).len(), usize::from(is_kept), "{scene}");
        assert!(!database.lock().exists(), "{scene}");
    });
}

/// What lies aside after a crash is put back (or, being dead, removed) by the next one with the gate.
#[test]
fn a_crash_at_any_step_of_a_breaking_is_recovered() {
    each(|means, kind, licence, step| {
        let (database, seen) = locked(kind);
        let gate = database.gate();
        let crashing = site(&gate, means).with_hook(|at| crash_at(at, step));
        assert!(
            has_crashed(|| crashing.break_lock(&seen, licence)),
            "{step:?} was not reached with {means:?}"
        );
        drop(gate);
        let decision = database.next_check();
        let scene = format!("{kind} at {step:?} with {means:?}: {decision:?}");
        if step == Step::Kept {
            assert_eq!(
                (decision.is_skip(), kept(&database).len()),
                (false, 1),
                "{scene}"
            );
            return;
        }
        assert!(kept(&database).is_empty(), "{scene}");
        match kind {
            "dead" => assert!(!decision.is_skip(), "{scene}"),
            "live" => assert!(locked_by("old")(&decision), "{scene}"),
            _ => assert_eq!(decision.reason(), Reason::Malformed, "{scene}"),
        }
        let gate = database.gate();
        let again = site(&gate, means).break_lock(&seen, licence).unwrap();
        let expected = if kind == "dead" {
            Broken::Gone
        } else {
            again.clone()
        };
        assert_eq!(again, expected, "{scene}");
        assert_eq!(
            kept(&database).len(),
            usize::from(kind != "dead"),
            "{scene}"
        );
    });
}

/// A break that died before it let the gate go is finished by the next one, without a check in between.
#[test]
fn the_next_break_takes_up_what_a_crash_has_left() {
    for means in MEANS {
        let (database, seen) = locked("live");
        fs::rename(database.lock(), database.aside()).unwrap();
        let gate = database.gate();
        let broken = site(&gate, means)
            .break_lock(&seen, Licence::EvenIfLive)
            .unwrap();
        assert!(
            matches!(broken, Broken::Kept { .. }),
            "{means:?}: {broken:?}"
        );
        assert_eq!(kept(&database).len(), 1);
    }
}

/// A live claim lies aside, and what is to be broken is why it has to stay there: the two change places.
#[test]
fn breaking_brings_back_what_lies_aside() {
    for kind in ["torn", "live", "FIFO"] {
        let make = |database: &Database| {
            fs::write(database.aside(), live("naive")).unwrap();
            match kind {
                "FIFO" => make_strange(kind, &database.lock()),
                _ => fs::write(database.lock(), text(kind)).unwrap(),
            }
            seen(database)
        };
        let database = Database::new();
        let looked = make(&database);
        let gate = database.gate();
        let broken = site(&gate, Means::BEST)
            .break_lock(&looked, Licence::EvenIfLive)
            .unwrap();
        assert!(matches!(broken, Broken::Kept { .. }), "{kind}: {broken:?}");
        assert_eq!(
            (database.holder().as_str(), kept(&database).len()),
            ("naive", 1),
            "{kind}"
        );

        for step in BREAKING {
            let database = Database::new();
            let looked = make(&database);
            let gate = database.gate();
            let crashing = site(&gate, Means::BEST).with_hook(|at| crash_at(at, step));
            let crashed = has_crashed(|| crashing.break_lock(&looked, Licence::EvenIfLive));
            assert!(crashed, "{kind}: {step:?} was not reached");
            let there =
                [database.lock(), database.aside()].map(|path| path.symlink_metadata().is_ok());
            assert_eq!(
                there,
                [true, step != Step::Kept],
                "{kind} at {step:?}: one of them is lost"
            );
        }

        let database = Database::new();
        let looked = make(&database);
        let gate = database.gate();
        let error = site(&gate, Means::PORTABLE)
            .break_lock(&looked, Licence::EvenIfLive)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("make room for the claim aside of"),
            "{error}"
        );
        assert!(database.lock().symlink_metadata().is_ok() && database.aside().exists());
    }
}

/// A writer in place that comes while the two have changed places writes where the lock is.
#[test]
fn a_writer_into_a_lock_that_changed_places_claims_at_the_path() {
    let database = Database::new();
    fs::write(database.aside(), live("other")).unwrap();
    fs::write(database.lock(), text("torn")).unwrap();
    let seen = seen(&database);
    let gate = database.gate();
    let broken = with_claim_at(Step::JudgedAgain, Writer::InPlace, &database, |hook| {
        site(&gate, Means::BEST)
            .with_hook(hook)
            .break_lock(&seen, Licence::UnlessHeld)
            .unwrap()
    });
    assert_eq!(
        (broken, database.holder().as_str()),
        (Broken::Changed, "naive")
    );
    assert!(
        fs::read_to_string(database.aside())
            .unwrap()
            .contains("other")
    );
}

/// A break waits one second for a process that has the lock open for writing and does nothing.
#[test]
fn a_lock_that_stays_open_for_writing_is_broken_by_comparison() {
    let database = Database::new();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(database.lock())
        .unwrap();
    let gate = database.gate();
    let begun = Instant::now();
    let broken = site(&gate, Means::BEST)
        .break_lock(&seen(&database), Licence::UnlessHeld)
        .unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(
        matches!(
            broken,
            Broken::Kept {
                watched: Watched::ByComparison,
                ..
            }
        ),
        "{broken:?}"
    );
    drop(writer);
}

/// A process writes the lock all the time, with the same content: no lease, and no two looks alike.
#[test]
fn a_lock_that_is_written_all_the_time_stays() {
    let database = Database::new();
    let content = live("busy");
    fs::write(database.lock(), &content).unwrap();
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(database.lock())
        .unwrap();
    let seen = seen(&database);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let writing = std::thread::spawn(move || {
        while stopped
            .recv_timeout(Duration::from_millis(10))
            .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            std::os::unix::fs::FileExt::write_all_at(&writer, content.as_bytes(), 0).unwrap();
        }
    });
    let gate = database.gate();
    let broken = site(&gate, Means::BEST)
        .break_lock(&seen, Licence::EvenIfLive)
        .unwrap();
    drop(stop);
    writing.join().unwrap();
    assert_eq!(broken, Broken::Contended);
    assert_eq!(
        (database.holder().as_str(), kept(&database).len()),
        ("busy", 0)
    );
}
