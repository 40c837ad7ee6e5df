//! What an operation finds, and whose claims must stand after it.

use std::fs;

use beadlock_tests::stepwise::Operation;
use beadlock_tests::{Kind, Scene, dead_pid, this_host};

/// A record of somebody who is alive: this test.
pub fn live(kind: Kind, holder: &str) -> String {
    kind.record(holder, std::process::id().into(), &this_host())
}

fn dead(kind: Kind, holder: &str) -> String {
    kind.record(holder, dead_pid().into(), &this_host())
}

/// Lays out what the operation finds.
pub fn prepare(operation: Operation, kind: Kind, scene: &Scene) {
    use Operation as Op;
    let (lock, aside_text) = match operation {
        Op::Removal
        | Op::RemovalThatGivesWay
        | Op::Claim
        | Op::NaiveRemoval
        | Op::NaiveClaim
        | Op::RemovalWithoutGrace => (Some(dead(kind, "long gone")), None),
        Op::RecoveryOfADeadLock => (None, Some(dead(kind, "long gone"))),
        Op::RecoveryOfAClaim | Op::ReleaseBesideAClaim | Op::NaiveRecovery => {
            (None, Some(live(kind, "aside")))
        }
        Op::RecoveryBesideADeadLock => (Some(dead(kind, "long gone")), Some(live(kind, "aside"))),
        Op::Release | Op::NaiveRelease => (None, None),
        Op::Break => (Some(kind.record("elsewhere", 4711, "another-host")), None),
    };
    if let Some(text) = lock {
        fs::write(kind.lock(scene), text).expect("write the lock");
    }
    if let Some(text) = aside_text {
        fs::write(kind.aside(scene), text).expect("write the side file");
    }
}

/// Whose claims stand before it, or come in the middle of it by the operation's own story.
pub fn standing_before(operation: Operation) -> &'static [&'static str] {
    use Operation as Op;
    match operation {
        Op::RemovalThatGivesWay => &["first"],
        Op::RecoveryOfAClaim | Op::RecoveryBesideADeadLock | Op::NaiveRecovery => &["aside"],
        Op::Release | Op::NaiveRelease => &["ours"],
        Op::ReleaseBesideAClaim => &["aside", "ours"],
        Op::Break => &["elsewhere"],
        Op::Removal
        | Op::RecoveryOfADeadLock
        | Op::Claim
        | Op::NaiveRemoval
        | Op::NaiveClaim
        | Op::RemovalWithoutGrace => &[],
    }
}

/// The claim that this operation is there to end, and the step from which on it is ended.
pub fn ends(operation: Operation) -> Option<(&'static str, &'static str)> {
    match operation {
        Operation::Release | Operation::ReleaseBesideAClaim | Operation::NaiveRelease => {
            Some(("ours", "Deleted"))
        }
        Operation::Break => Some(("elsewhere", "Kept")),
        _ => None,
    }
}
