//! What the program `stepwise` does, a step at a time, with its caller in between. These are operations on a lock file
//! that can be stopped at every hook point, or killed there, as no thread of a test can be.

/// An operation, and what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A check that removes a dead lock.
    Removal,
    /// The same, with a live claim renamed over the lock just before it is moved aside: it has to go back.
    RemovalThatGivesWay,
    /// A check that finds a dead lock aside and none in its place.
    RecoveryOfADeadLock,
    /// A check that finds a live claim aside and none in its place.
    RecoveryOfAClaim,
    /// A check that finds a live claim aside and a dead lock in its place.
    RecoveryBesideADeadLock,
    /// A claim that takes a dead lock over.
    Claim,
    /// A release.
    Release,
    /// A release with a live claim of somebody else aside.
    ReleaseBesideAClaim,
    /// The breaking of a lock that nobody here can judge.
    Break,
    /// Control: reads, finds it dead, unlinks.
    NaiveRemoval,
    /// Control: what is aside goes back by plain rename, whatever is there.
    NaiveRecovery,
    /// Control: looks, creates, writes.
    NaiveClaim,
    /// Control: finds its own, unlinks.
    NaiveRelease,
    /// Control of the grace: moves a dead lock aside, compares it at once, unlinks.
    RemovalWithoutGrace,
}

use Operation as Op;

impl Operation {
    /// Those of the product.
    pub const OURS: [Self; 9] = [
        Op::Removal,
        Op::RemovalThatGivesWay,
        Op::RecoveryOfADeadLock,
        Op::RecoveryOfAClaim,
        Op::RecoveryBesideADeadLock,
        Op::Claim,
        Op::Release,
        Op::ReleaseBesideAClaim,
        Op::Break,
    ];
    /// What everybody writes first.
    pub const NAIVE: [Self; 4] = [
        Op::NaiveRemoval,
        Op::NaiveRecovery,
        Op::NaiveClaim,
        Op::NaiveRelease,
    ];

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::OURS
            .into_iter()
            .chain(Self::NAIVE)
            .chain([Op::RemovalWithoutGrace]);
        all.find(|operation| format!("{operation:?}") == name)
    }
}
