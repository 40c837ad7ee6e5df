//! The steps of the operations on a lock file, by name.

/// The points between the steps, for tests that make a bad interleaving happen every time
/// (docs/design.md#changing-a-lock-file).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// A side file was found.
    SideFound,
    /// The side file has been judged; it is about to be deleted, put back or exchanged.
    SideJudged,
    /// There is no side file, or one that must stay.
    Recovered,
    /// The lock has been read and judged for the first time: it may go.
    Judged,
    /// The lease is held, or cannot be had.
    Leased,
    /// The lock has been judged again, and is about to be moved aside.
    JudgedAgain,
    /// It is aside.
    MovedAside,
    /// Its grace has ended unbroken; it is about to be deleted.
    GraceOver,
    /// It is deleted.
    Deleted,
    /// It is kept under the name of a broken lock.
    Kept,
    /// It was somebody's after all, and is about to be moved back.
    MovingBack,
    /// A heartbeat has found the lock to be its own, and is about to write.
    Ours,
    /// A heartbeat's new file and the lock have changed places.
    Exchanged,
    /// There is no lock, and a claim is about to be written.
    Absent,
    /// The complete record is on disk, without a name.
    Synced,
    /// The lock is linked. This stays the last one: [`Step::ALL`] counts up to it.
    Linked,
}

impl Step {
    /// Every one.
    pub const ALL: [Self; Self::Linked as usize + 1] = [
        Self::SideFound,
        Self::SideJudged,
        Self::Recovered,
        Self::Judged,
        Self::Leased,
        Self::JudgedAgain,
        Self::MovedAside,
        Self::GraceOver,
        Self::Deleted,
        Self::Kept,
        Self::MovingBack,
        Self::Ours,
        Self::Exchanged,
        Self::Absent,
        Self::Synced,
        Self::Linked,
    ];
}
