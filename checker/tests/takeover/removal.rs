//! Removing a stale lock (docs/design.md#changing-a-lock-file).

use std::fs;

use beadlock_checker::{Reason, Removed, Skip, Watched};
use beadlock_core::take::{Means, Settled};

use crate::scene::{
    Database, MEANS, REMOVAL, Writer, crash_at, dead, has_crashed, locked_by, site, with_claim_at,
};

#[test]
fn a_stale_lock_is_removed_and_nothing_is_left() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let settled = site(&gate, means).settle();
        let Settled::Free {
            removed:
                Some(Removed {
                    record,
                    reason,
                    watched,
                    ..
                }),
        } = settled
        else {
            panic!("{means:?}: {settled:?}")
        };
        assert_eq!((record.holder(), reason), ("crashed", Reason::PidGone));
        let expected = if means.leases {
            Watched::ByLease
        } else {
            Watched::ByComparison
        };
        assert_eq!(watched, expected, "{means:?}");
        assert!(
            database.names().is_empty(),
            "{means:?}: {:?}",
            database.names()
        );
    }
}

/// Whatever the step, a tool that claims over a stale lock that is being removed keeps its claim.
#[test]
fn a_naive_claim_survives_a_removal_at_any_step() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in REMOVAL {
                let database = Database::new();
                fs::write(database.lock(), dead("crashed")).unwrap();
                let gate = database.gate();
                let settled = with_claim_at(step, writer, &database, |hook| {
                    site(&gate, means).with_hook(hook).settle()
                });
                drop(gate);
                let scene = format!("{writer:?} at {step:?} with {means:?}: {settled:?}");
                assert!(
                    !matches!(settled, Settled::Free { .. }),
                    "proceeded beside a claim: {scene}"
                );
                assert!(
                    locked_by("naive")(&database.next_check()),
                    "the claim is lost: {scene}"
                );
                assert_eq!(database.holder(), "naive", "{scene}");
            }
        }
    }
}

/// A remover that dies between any two steps leaves nothing that the next check cannot put right.
#[test]
fn a_crash_at_any_step_of_a_removal_is_recovered() {
    for means in MEANS {
        for step in REMOVAL {
            let database = Database::new();
            fs::write(database.lock(), dead("crashed")).unwrap();
            let gate = database.gate();
            let crash = |at| crash_at(at, step);
            let mut crashing = site(&gate, means).with_hook(crash);
            assert!(
                has_crashed(|| crashing.settle()),
                "{step:?} was not reached with {means:?}"
            );
            drop(gate);
            let decision = database.next_check();
            assert!(!decision.is_skip(), "{step:?} with {means:?}: {decision:?}");
            assert!(
                database.names().is_empty(),
                "{step:?} with {means:?}: {:?}",
                database.names()
            );
        }
    }
}

/// Somebody has the stale lock open for writing: a claim may be on its way, so it stays for now.
#[test]
fn a_lock_that_is_open_for_writing_is_not_removed() {
    let database = Database::new();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let writer = fs::OpenOptions::new()
        .write(true)
        .open(database.lock())
        .unwrap();
    let gate = database.gate();
    let settled = site(&gate, Means::BEST).settle();
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
    drop(writer);
    let settled = site(&gate, Means::BEST).settle();
    assert!(
        matches!(settled, Settled::Free { removed: Some(_) }),
        "{settled:?}"
    );
}
