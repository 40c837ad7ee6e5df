//! Recovering what a crash has left aside (docs/design.md#recover).

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use beadlock_checker::{Options, Place, Reason, Skip, check, should_skip_database};
use beadlock_core::take::{Means, Settled, Step};

use crate::scene::{Database, MEANS, dead, live, locked_by, site};

/// docs/model.md#v3, docs/model.md#v5: a remover moved a claim aside that had just come, and died before it could move
/// it back.
#[test]
fn a_live_side_file_goes_back_to_an_empty_path() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.aside(), live("naive")).unwrap();
        let gate = database.gate();
        let settled = site(&gate, means).settle();
        assert!(
            matches!(
                settled,
                Settled::Refused {
                    skip: Skip::Locked(..),
                    ..
                }
            ),
            "{settled:?}"
        );
        assert_eq!(database.names(), [".exclusive-lock"]);
    }
}

/// docs/model.md#v5, docs/model.md#v8: a plain check that finds the path absent and a side file takes the gate and
/// recovers.
#[test]
fn a_plain_check_recovers_a_side_file() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    assert!(locked_by("naive")(&database.next_check()));

    fs::remove_file(database.lock()).unwrap();
    fs::write(database.aside(), dead("crashed")).unwrap();
    assert_eq!(
        database.next_check().to_string(),
        "Removed stale lock (crashed), proceeding with sync"
    );
    assert!(database.names().is_empty());

    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), "torn").unwrap();
    let decision = should_skip_database(database.path());
    assert_eq!(
        decision.reason(),
        Reason::Malformed,
        "both must stay, and the lock's is the answer"
    );
    assert!(database.aside().exists());

    fs::remove_file(database.lock()).unwrap();
    let gate = database.gate();
    assert_eq!(
        should_skip_database(database.path()).reason(),
        Reason::GateBusy
    );
    drop(gate);
    assert!(locked_by("naive")(&database.next_check()));
}

/// docs/model.md#v7: a live claim aside and a dead lock at the path change places; a dead one aside never gets to the
/// path.
#[test]
fn a_live_side_file_and_a_stale_lock_change_places() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), dead("crashed")).unwrap();
    assert!(locked_by("naive")(&database.next_check()));
    assert_eq!(database.names(), [".exclusive-lock"]);

    fs::write(database.aside(), dead("crashed")).unwrap();
    let before = fs::metadata(database.lock()).unwrap().ino();
    let gate = database.gate();
    let settled = site(&gate, Means::BEST).settle();
    assert!(
        matches!(
            settled,
            Settled::Refused {
                skip: Skip::Locked(..),
                ..
            }
        ),
        "{settled:?}"
    );
    assert_eq!(
        database.names(),
        [".exclusive-lock"],
        "the dead one is deleted first"
    );
    assert_eq!(fs::metadata(database.lock()).unwrap().ino(), before);
}

/// Without `RENAME_EXCHANGE` both stay, and the answer is to skip; nothing live is lost.
#[test]
fn where_nothing_can_be_exchanged_both_stay() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let gate = database.gate();
    let settled = site(&gate, Means::PORTABLE).settle();
    assert!(
        matches!(
            settled,
            Settled::Refused {
                skip: Skip::InProgress,
                ..
            }
        ),
        "{settled:?}"
    );
    assert!(database.aside().exists() && database.lock().exists());
}

/// A move back without `renameat2`, cut short between its two calls.
#[test]
fn one_file_under_both_names_is_one_lock() {
    let database = Database::new();
    fs::write(database.lock(), live("naive")).unwrap();
    fs::hard_link(database.lock(), database.aside()).unwrap();
    let gate = database.gate();
    let settled = site(&gate, Means::BEST).settle();
    assert!(
        matches!(
            settled,
            Settled::Refused {
                skip: Skip::Locked(..),
                ..
            }
        ),
        "{settled:?}"
    );
    assert_eq!(database.names(), [".exclusive-lock"]);
}

/// Whatever lies aside and cannot be judged is somebody's.
#[test]
fn a_strange_side_file_is_put_back_and_never_deleted() {
    let database = Database::new();
    fs::write(database.aside(), "").unwrap();
    assert_eq!(database.next_check().reason(), Reason::Malformed);
    fs::remove_file(database.lock()).unwrap();
    std::os::unix::fs::symlink("/nowhere", database.aside()).unwrap();
    assert_eq!(database.next_check().reason(), Reason::Unreadable);
    assert!(database.lock().is_symlink());
}

/// A dry run says what would come of a side file, and touches nothing.
#[test]
fn a_dry_run_foresees_a_recovery() {
    let database = Database::new();
    let foreseen = || {
        check(
            &Place::beads(database.path()),
            &Options {
                dry_run: true,
                ..Options::default()
            },
        )
    };
    fs::write(database.aside(), dead("crashed")).unwrap();
    assert_eq!(
        foreseen().to_string(),
        "Stale lock (crashed) would be removed, proceeding with sync"
    );
    fs::write(database.aside(), live("naive")).unwrap();
    assert!(locked_by("naive")(&foreseen()));
    assert_eq!(database.names(), [".exclusive-lock.aside"]);
    // A claim that is aside takes a dead lock's place.
    fs::write(database.lock(), dead("also crashed")).unwrap();
    assert!(locked_by("naive")(&foreseen()), "{}", foreseen());
    fs::write(database.aside(), "").unwrap();
    assert_eq!(foreseen().reason(), Reason::Malformed);
    fs::write(database.aside(), dead("crashed")).unwrap();
    assert_eq!(
        foreseen().to_string(),
        "Stale lock (also crashed) would be removed, proceeding with sync"
    );
    fs::write(database.lock(), live("another")).unwrap();
    assert!(locked_by("another")(&foreseen()));
    assert_eq!(database.names().len(), 2);
}

/// A writer that waits to write into a side file goes on only when it is in its place again. One that comes after the
/// grace finds no file, so one round in time is enough.
#[test]
fn a_writer_into_a_side_file_claims_at_the_path() {
    assert!(
        (0..5).any(|_| one_writer_claims_at_the_path()),
        "no writer is ever seen"
    );
}

fn one_writer_claims_at_the_path() -> bool {
    let database = Database::new();
    fs::write(database.aside(), dead("crashed")).unwrap();
    let gate = database.gate();
    let mut claiming = None;
    let mut was_aside = false;
    let hook = |at| match at {
        Step::SideFound if claiming.is_none() => {
            let aside = database.aside();
            // It looked the path up before the file was moved; its open comes during the grace.
            claiming = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                fs::write(aside, live("naive")).unwrap();
            }));
        }
        Step::SideJudged => {
            was_aside |=
                fs::read_to_string(database.aside()).is_ok_and(|text| text.contains("naive"))
        }
        _ => {}
    };
    let settled = site(&gate, Means::BEST).with_hook(hook).settle();
    claiming.unwrap().join().unwrap();
    drop(gate);
    if matches!(settled, Settled::Free { .. }) {
        return false;
    }
    assert!(!was_aside, "it claimed where nobody looks");
    assert!(locked_by("naive")(&database.next_check()), "{settled:?}");
    true
}
