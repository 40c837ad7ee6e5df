//! The rules of the fleet as switches: a mutant is the built protocol with one of them changed.

/// How an agent makes sure that no claim stands before it runs cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightRule {
    /// One transaction: if there is no claim, put the right.
    Transaction,
    /// Reads the claim, and then puts the right.
    LookThenPut,
    /// Reads the claim, and runs the cycle. There are no rights.
    Look,
}

/// The rules that every session, claim and cycle keeps. `true` everywhere is what is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub right: RightRule,
    /// The name of a right has the lease in it; else the agent's host.
    pub right_names_lease: bool,
    /// A right goes with its lease; else only by a delete.
    pub right_has_lease: bool,
    /// A yield deletes the right only while the claim that it was sent for stands.
    pub yield_names_claim: bool,
    /// A yield is sent only when no cycle runs.
    pub yield_waits: bool,
    /// A yield is sent whatever the agent believes to have; else only when it believes to have the right.
    pub yields_whatever: bool,
    /// A yield is sent again while its claim drains, also when an earlier one has been answered.
    pub yields_again: bool,
    /// The answer to a right that was sent before the last yield does not count.
    pub right_after_yield: bool,
    /// The end of a session revokes its lease; else it deletes the claim by its name.
    pub end_names_lease: bool,
    /// A lease is revoked only when all work under it has ended; else a new session revokes the old one's.
    pub end_after_work: bool,
    /// A watchdog or a cycle runner ends the work at the deadline, whatever its beadlock does.
    pub watchdog: bool,
    /// What begins looks at the deadline first.
    pub looks_at_deadline: bool,
    /// A new fleet keeps everybody from beginning for T.
    pub new_after_loss: bool,
    /// The fleet is known by its nonce; else by the revision at which it was put.
    pub fleet_has_nonce: bool,
    /// `drained` asks for the claim, too; else only for the rights.
    pub drained_compares_claim: bool,
    /// A break marks the lease, and its holder ends; else the break revokes the lease.
    pub break_marks: bool,
    /// A renewal counts only if the session is not older than the last right.
    pub renewal_reads_revision: bool,
    /// A renewal of a claim counts only if the claim is there.
    pub renewal_reads_claim: bool,
    /// A renewal counts only in the fleet that the session is of.
    pub renewal_reads_fleet: bool,
    /// An answer is compared with what was known when it was asked for; else with what is known by now.
    pub compares_with_sent: bool,
}

impl Rules {
    pub const BUILT: Self = Self {
        right: RightRule::Transaction,
        right_names_lease: true,
        right_has_lease: true,
        yield_names_claim: true,
        yield_waits: true,
        yields_whatever: true,
        yields_again: true,
        right_after_yield: true,
        end_names_lease: true,
        end_after_work: true,
        watchdog: true,
        looks_at_deadline: true,
        new_after_loss: true,
        fleet_has_nonce: true,
        drained_compares_claim: true,
        break_marks: true,
        renewal_reads_revision: true,
        renewal_reads_claim: true,
        renewal_reads_fleet: true,
        compares_with_sent: true,
    };
}
