//! The situation of a lock whose process is judged: one pure judgement. The verdict says what a daemon does; the
//! situation says what a person is looking at.

use beadlock_base::namespace::NamespaceMember;
use beadlock_base::process::Liveness;
use beadlock_core::facts::Facts;
use beadlock_core::record::beads;
use beadlock_core::{Reason, Verdict};

use beadlock_claim::protocol::process::TICK;

/// What became of the process that holds a lock, as far as this machine can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessSituation {
    /// The lock's process lives on this machine.
    Alive,
    /// The lock's process lives on this machine and belongs to another user.
    AliveOfAnotherUser,
    /// The lock's process has ended, and its parent has not asked how.
    Zombie,
    /// The lock's PID is another process now.
    Recycled,
    /// This machine has booted since, and its PID is in use again. Proved: `--reap-proven-dead` takes it for dead;
    /// not on a file system that other machines may write.
    Rebooted {
        /// Whether the boot alone proves that its process is gone.
        proved: bool,
    },
    /// The lock's process is gone: the next check removes the lock.
    Gone {
        /// Whether this machine is known to have booted since the claim.
        rebooted: bool,
    },
    /// The recorded PID does not fit in 32 bits: no process can have it.
    NoSuchPid,
    /// The system gives no answer about the recorded PID.
    Unanswered,
    /// The lock was claimed on this machine, in this boot and PID namespace, under another host name or machine id.
    Renamed(Here),
    /// The lock was claimed in a container of this machine.
    Container(Inside),
    /// The lock was claimed in a container of this machine in which no process lives now. Proved: the record has this
    /// host's name.
    ContainerGone {
        /// Whether `--reap-proven-dead` takes its process for dead.
        proved: bool,
    },
    /// The lock was claimed on another host. Same machine: this machine's id and another boot, so it was renamed, or is
    /// a copy.
    Remote {
        /// Whether the record has this machine's id.
        same_machine: bool,
    },
    /// The lock was claimed on another machine that has this host's name.
    Namesake,
    /// This machine has no host name to compare with the recorded one.
    Nameless,
}

/// The state of a lock's process on this machine, where the rule does not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// The lock's process lives.
    Lives,
    /// Its PID is another process now.
    Recycled,
    /// The lock's process is gone, or a zombie.
    Gone,
    /// The system gives no answer about its PID.
    Unknown,
}

/// The processes of a lock's container that can be seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// The lock's process, by its PID here.
    Process(i32),
    /// Only other processes of the container, one of them with this PID here.
    Others(i32),
    /// No process of the container is visible.
    Nothing,
}

/// The answers of this machine that are not among the facts of the verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LiveFacts<'a> {
    /// The answer of `kill(pid, 0)` about the recorded PID here, where the rule does not ask for it.
    pub liveness: Liveness,
    /// The processes that live in the recorded PID namespace, when it is not ours.
    pub members: &'a [NamespaceMember],
}

/// The situation of a lock whose verdict has this `reason`.
pub fn of(
    reason: Reason,
    record: &beads::Record,
    facts: &Facts,
    asked: &LiveFacts<'_>,
) -> ProcessSituation {
    let proof = match beads::judge(record, facts, true) {
        Verdict::Stale(proof) => Some(proof),
        _ => None,
    };
    let rebooted = facts.other_boot(record) == Some(true);
    match (proof, reason) {
        (Some(Reason::PidGone), _) => ProcessSituation::Gone { rebooted },
        (Some(Reason::OtherBoot), _) => ProcessSituation::Rebooted { proved: true },
        (Some(Reason::PidReused), _) => ProcessSituation::Recycled,
        (Some(Reason::Zombie), _) => ProcessSituation::Zombie,
        (Some(Reason::NamespaceGone), _) => ProcessSituation::ContainerGone { proved: true },
        (_, Reason::OtherPidNamespace) => inside(record, facts, asked),
        (_, Reason::OtherHost | Reason::OtherMachine)
            if facts.other_boot(record) == Some(false) =>
        {
            match record.pid_ns().zip(facts.ids.pid_ns.as_deref()) {
                Some((theirs, ours)) if theirs == ours => {
                    ProcessSituation::Renamed(here(record, facts, asked))
                }
                Some(_) => inside(record, facts, asked),
                None => elsewhere(reason, record, facts),
            }
        }
        (_, Reason::OtherHost | Reason::OtherMachine) => elsewhere(reason, record, facts),
        (_, Reason::HostUnknown) => ProcessSituation::Nameless,
        (_, Reason::PidAlive | Reason::PidNotPermitted | Reason::PidUnknown) if rebooted => {
            ProcessSituation::Rebooted { proved: false }
        }
        (_, Reason::PidAlive) => ProcessSituation::Alive,
        (_, Reason::PidNotPermitted) => ProcessSituation::AliveOfAnotherUser,
        _ if i32::try_from(record.pid).is_err() => ProcessSituation::NoSuchPid,
        _ => ProcessSituation::Unanswered,
    }
}

fn elsewhere(reason: Reason, record: &beads::Record, facts: &Facts) -> ProcessSituation {
    match reason {
        Reason::OtherMachine => ProcessSituation::Namesake,
        _ => ProcessSituation::Remote {
            same_machine: facts.other_machine(record) == Some(false),
        },
    }
}

fn inside(record: &beads::Record, facts: &Facts, asked: &LiveFacts<'_>) -> ProcessSituation {
    if facts
        .proof
        .as_ref()
        .is_some_and(|proof| proof.namespace_gone)
    {
        return ProcessSituation::ContainerGone { proved: false };
    }
    let is_it = |member: &&NamespaceMember| i64::from(member.pid_there) == record.pid;
    ProcessSituation::Container(
        match (asked.members.iter().find(is_it), asked.members.first()) {
            (Some(member), _) => Inside::Process(member.pid),
            (None, Some(other)) => Inside::Others(other.pid),
            (None, None) => Inside::Nothing,
        },
    )
}

fn here(record: &beads::Record, facts: &Facts, asked: &LiveFacts<'_>) -> Here {
    let proof = facts.proof.as_ref();
    let recorded = record.beadlock.as_ref().and_then(|mark| mark.start_ticks);
    let now = proof.and_then(|proof| proof.start_ticks);
    match (asked.liveness, recorded.zip(now)) {
        (Liveness::Gone, _) => Here::Gone,
        (_, Some((then, now))) if then.abs_diff(now) > TICK => Here::Recycled,
        _ if proof.is_some_and(|proof| proof.zombie) => Here::Gone,
        (Liveness::Alive | Liveness::NotPermitted, _) => Here::Lives,
        (Liveness::Unknown | Liveness::NotAsked, _) => Here::Unknown,
    }
}
