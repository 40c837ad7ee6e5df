//! What is built, as switches: a mutant is the built protocol with one of them changed.

/// How a file that may go is watched until it is deleted (`checker/core/src/take/lease.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// By a read lease.
    Lease,
    /// By its content and its times before and after: where no lease is to be had.
    Comparison,
    /// Not at all.
    Nothing,
}

/// The rules that everybody who cooperates keeps. `true` everywhere is what is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Cycles and claims take the gate.
    pub gate: bool,
    /// A claim is linked, and its command started, after the gate was had; else without waiting for it.
    pub claim_under_gate: bool,
    /// The runner of a cycle's work shares the gate, and keeps it shut when its agent is gone.
    pub work_holds_gate: bool,
    /// The work itself inherits the gate, and keeps it shut when its agent and the runner are both gone.
    pub work_inherits_gate: bool,
    /// A cycle's end unlocks the gate for every copy; else it closes its own, and what the work has left behind has
    /// one.
    pub end_unlocks: bool,
    pub watch: Watch,
    /// The lock is judged once more after the watch has begun.
    pub second_judgement: bool,
    /// What is stale is moved aside first; else it is unlinked by its path.
    pub move_aside: bool,
    /// So is one's own lock in a release.
    pub release_moves_aside: bool,
    /// What is aside is watched until every open that was looked up before has arrived.
    pub grace: bool,
    /// So is one's own lock in a release; else it is deleted as soon as it is aside.
    pub release_grace: bool,
    /// A release keeps the gate while it waits out its grace; else it lets the gate go when the lock is aside, and takes
    /// it again at the end. Meanwhile a recovery passes over that side file, as long as its watch is unbroken.
    pub release_keeps_gate: bool,
    /// What cannot go back, because there is another lock by then, stays aside; else it is deleted.
    pub stays_aside: bool,
    /// A side file is deleted only when it is proved dead; else any actor that finds one deletes it.
    pub side_file_is_judged: bool,
    /// After a removal everything is looked at again; else the removal itself is the answer.
    pub look_again: bool,
    /// A check without the gate looks at the lock, at the side name, and at the lock again; else once at the lock.
    pub three_looks: bool,
}

impl Protocol {
    pub const BUILT: Self = Self {
        gate: true,
        claim_under_gate: true,
        work_holds_gate: true,
        work_inherits_gate: true,
        end_unlocks: true,
        watch: Watch::Lease,
        second_judgement: true,
        move_aside: true,
        release_moves_aside: true,
        grace: true,
        release_grace: true,
        release_keeps_gate: true,
        stays_aside: true,
        side_file_is_judged: true,
        look_again: true,
        three_looks: true,
    };

    /// What is built, where a file system has no leases.
    pub const WITHOUT_LEASES: Self = Self {
        watch: Watch::Comparison,
        ..Self::BUILT
    };

    /// What is built for `lock:PATH`, which no writer knows that does not take the gate (`Names::has_foreign_writers`).
    pub const LOCK_AT_PATH: Self = Self {
        release_grace: false,
        ..Self::BUILT
    };

    /// The same, where a file system has no leases.
    pub const LOCK_AT_PATH_WITHOUT_LEASES: Self = Self {
        watch: Watch::Comparison,
        ..Self::LOCK_AT_PATH
    };

    /// The words of the protocol and no more: read, find it dead, unlink; link; work.
    pub const LITERAL: Self = Self {
        gate: false,
        claim_under_gate: false,
        work_holds_gate: false,
        work_inherits_gate: false,
        end_unlocks: true,
        watch: Watch::Nothing,
        second_judgement: false,
        move_aside: false,
        release_moves_aside: false,
        grace: false,
        release_grace: false,
        release_keeps_gate: true,
        stays_aside: false,
        side_file_is_judged: true,
        look_again: false,
        three_looks: false,
    };
}
