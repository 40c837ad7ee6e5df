//! Which situation a lock is in: one pure judgement, from which `status`, `list` and `check --explain` take their
//! words. The verdict says what a daemon does; the situation says what a person is looking at.

use std::time::Duration;

use beadlock_checker::internal::dialect::{Record, StartedAt, beads, memory};
use beadlock_checker::internal::facts::{Facts, Liveness};
use beadlock_checker::internal::obstacle::Obstacle;
use beadlock_checker::internal::{FileKind, Look, Member};
use beadlock_checker::{Reason, Verdict};

use crate::claim::protocol::LONGEST_LOCK_FILE;
use crate::claim::settling::WRITING;

/// How a recorded start may differ from the one that is read back and still be the same: in clock ticks.
const TICK: u64 = 1;

/// What a person is looking at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// There is no lock.
    Free,
    /// There is no lock but one that was set aside: by a removal that goes on, or that has crashed.
    SetAside,
    /// Its process lives here.
    Alive,
    /// Its process lives here and is another user's.
    AliveOfAnotherUser,
    /// Its process has ended, and its parent has not asked how.
    Zombie,
    /// Its PID is another process now.
    Recycled,
    /// This machine has booted since, and its PID is in use again.
    Rebooted {
        /// `--reap-proven-dead` takes it for dead; not on a file system that other machines may write.
        proved: bool,
    },
    /// Its process is gone: the next check removes it.
    Gone {
        /// This machine has booted since.
        rebooted: bool,
    },
    /// No process can have its PID.
    NoSuchPid,
    /// The system gives no answer about its PID.
    Unanswered,
    /// This machine, this boot, these PIDs; another name, or another machine id.
    Renamed(Here),
    /// A container of this machine.
    Container(Inside),
    /// A container of this machine in which nobody lives any more.
    ContainerGone {
        /// The record has this host's name, so `--reap-proven-dead` counts it.
        proved: bool,
    },
    /// Another host.
    Remote {
        /// It has this machine's id, and another boot: renamed and booted since, or a copy of this machine's disk.
        same_machine: bool,
    },
    /// Another machine of this name.
    Namesake,
    /// This machine has no name to compare with.
    Nameless,
    /// A named lock whose holder has said in time that it lives.
    Beating,
    /// A named lock whose holder has said nothing for too long.
    Silent,
    /// A named lock whose last heartbeat lies in the future.
    BeatingInFuture,
    /// A lock that is judged by its age, and not too old.
    Recent,
    /// A lock that is judged by its age, and does not say when it was acquired: it never becomes too old.
    Ageless,
    /// A lock that is judged by its age, and too old.
    Old,
    /// A lock that is too old by the wall clock, and whose process may live here: one look cannot tell whether it is
    /// refreshed.
    OldByTheClock,
    /// An empty file.
    Empty {
        /// Written a moment ago: the rest may come.
        fresh: bool,
    },
    /// Not JSON, or of the wrong types.
    Malformed {
        /// Written a moment ago: the rest may come.
        fresh: bool,
    },
    /// JSON in which a value that is needed is missing or wrong.
    Invalid,
    /// At `lock:PATH`: no lock at all, but somebody's data.
    Data,
    /// Something that is no regular file.
    NotAFile(FileKind),
    /// Larger than any lock.
    TooLarge,
    /// A regular file that the system does not let us read.
    Unread,
    /// One that could not be opened just now.
    NotOpened(Obstacle),
}

/// What became of a process of this machine that the rule does not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// It lives.
    Lives,
    /// Its PID is another process now.
    Recycled,
    /// There is no such process.
    Gone,
    /// There is no telling.
    Unknown,
}

/// What is to be seen of a process in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// Its PID as it is here.
    Process(i32),
    /// Only others of its container, one of which is this.
    Others(i32),
    /// Nothing.
    Nothing,
}

/// What was asked beyond the facts of the verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked<'a> {
    /// The wall clock.
    pub now: StartedAt,
    /// What `kill(pid, 0)` says of the recorded PID here, when the rule does not ask.
    pub liveness: Liveness,
    /// Who lives in the recorded PID namespace, when it is not ours.
    pub members: &'a [Member],
}

impl Situation {
    /// Of a look.
    pub fn of(look: &Look, asked: &Asked<'_>) -> Self {
        match (look.verdict, &look.record, &look.facts) {
            (Verdict::Free, ..) if look.side_file => Self::SetAside,
            (Verdict::Free, ..) => Self::Free,
            (Verdict::Unreadable(reason), ..) => unreadable(reason, look, asked.now),
            (Verdict::Held(reason) | Verdict::Stale(reason), Some(record), Some(facts)) => match record {
                Record::Beads(record) => of_record(reason, record, facts, asked),
                Record::Tower(_) => of_heartbeat(reason),
                Record::Memory(record) => of_age(reason, record),
            },
            (Verdict::Held(_) | Verdict::Stale(_), ..) => Self::Unread,
        }
    }

    /// A word for it, e.g. `container_gone`; for JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::SetAside => "set_aside",
            Self::Alive | Self::AliveOfAnotherUser => "alive",
            Self::Zombie => "zombie",
            Self::Recycled => "pid_recycled",
            Self::Rebooted { .. } => "rebooted",
            Self::Gone { .. } => "gone",
            Self::NoSuchPid | Self::Unanswered => "pid_unknown",
            Self::Renamed(_) => "renamed",
            Self::Container(_) => "container",
            Self::ContainerGone { .. } => "container_gone",
            Self::Remote { .. } => "remote",
            Self::Namesake => "namesake",
            Self::Nameless => "nameless",
            Self::Beating => "beating",
            Self::Silent => "silent",
            Self::BeatingInFuture => "beating_in_future",
            Self::Recent => "recent",
            Self::Ageless => "ageless",
            Self::Old => "old",
            Self::OldByTheClock => "old_by_the_clock",
            Self::Empty { .. } => "empty",
            Self::Malformed { .. } => "malformed",
            Self::Invalid => "invalid",
            Self::Data => "not_a_lock",
            Self::NotAFile(_) => "not_a_file",
            Self::TooLarge => "too_large",
            Self::Unread | Self::NotOpened(_) => "unread",
        }
    }
}

fn of_heartbeat(reason: Reason) -> Situation {
    match reason {
        Reason::HeartbeatFresh => Situation::Beating,
        Reason::HeartbeatInFuture => Situation::BeatingInFuture,
        _ => Situation::Silent,
    }
}

fn of_age(reason: Reason, record: &memory::Record) -> Situation {
    match reason {
        Reason::PidGone => Situation::Gone { rebooted: false },
        Reason::AgeExceeded => Situation::Old,
        Reason::AgeFresh => Situation::Recent,
        _ if record.acquired_at.is_some() => Situation::OldByTheClock,
        _ => Situation::Ageless,
    }
}

fn unreadable(reason: Reason, look: &Look, now: StartedAt) -> Situation {
    let age = look.on_disk.map(|on_disk| on_disk.modified.age(now));
    let fresh = age.and_then(|age| Duration::try_from(age).ok()).is_some_and(|age| age < WRITING);
    match (reason, look.on_disk) {
        _ if look.content == Some(beads::Content::Data) => Situation::Data,
        (Reason::Malformed, Some(on_disk)) if on_disk.size == 0 => Situation::Empty { fresh },
        (Reason::Malformed, _) => Situation::Malformed { fresh },
        (Reason::Invalid, _) => Situation::Invalid,
        (_, Some(on_disk)) if on_disk.kind != FileKind::File => Situation::NotAFile(on_disk.kind),
        (_, Some(on_disk)) if on_disk.size > LONGEST_LOCK_FILE => Situation::TooLarge,
        _ => Obstacle::of(&look.detail).map_or(Situation::Unread, Situation::NotOpened),
    }
}

fn of_record(reason: Reason, record: &beads::Record, facts: &Facts, asked: &Asked<'_>) -> Situation {
    let proof = match beads::judge(record, facts, true) {
        Verdict::Stale(proof) => Some(proof),
        _ => None,
    };
    let rebooted = facts.other_boot(record) == Some(true);
    match (proof, reason) {
        (Some(Reason::PidGone), _) => Situation::Gone { rebooted },
        (Some(Reason::OtherBoot), _) => Situation::Rebooted { proved: true },
        (Some(Reason::PidReused), _) => Situation::Recycled,
        (Some(Reason::Zombie), _) => Situation::Zombie,
        (Some(Reason::NamespaceGone), _) => Situation::ContainerGone { proved: true },
        (_, Reason::OtherPidNamespace) => inside(record, facts, asked),
        (_, Reason::OtherHost | Reason::OtherMachine) if facts.other_boot(record) == Some(false) => {
            match record.pid_ns().zip(facts.ids.pid_ns.as_deref()) {
                Some((theirs, ours)) if theirs == ours => Situation::Renamed(here(record, facts, asked)),
                Some(_) => inside(record, facts, asked),
                None => elsewhere(reason, record, facts),
            }
        }
        (_, Reason::OtherHost | Reason::OtherMachine) => elsewhere(reason, record, facts),
        (_, Reason::HostUnknown) => Situation::Nameless,
        (_, Reason::PidAlive | Reason::PidNotPermitted | Reason::PidUnknown) if rebooted => {
            Situation::Rebooted { proved: false }
        }
        (_, Reason::PidAlive) => Situation::Alive,
        (_, Reason::PidNotPermitted) => Situation::AliveOfAnotherUser,
        _ if i32::try_from(record.pid).is_err() => Situation::NoSuchPid,
        _ => Situation::Unanswered,
    }
}

fn elsewhere(reason: Reason, record: &beads::Record, facts: &Facts) -> Situation {
    match reason {
        Reason::OtherMachine => Situation::Namesake,
        _ => Situation::Remote { same_machine: facts.other_machine(record) == Some(false) },
    }
}

fn inside(record: &beads::Record, facts: &Facts, asked: &Asked<'_>) -> Situation {
    if facts.proof.as_ref().is_some_and(|proof| proof.namespace_gone) {
        return Situation::ContainerGone { proved: false };
    }
    let is_it = |member: &&Member| i64::from(member.pid_there) == record.pid;
    Situation::Container(match (asked.members.iter().find(is_it), asked.members.first()) {
        (Some(member), _) => Inside::Process(member.pid),
        (None, Some(other)) => Inside::Others(other.pid),
        (None, None) => Inside::Nothing,
    })
}

fn here(record: &beads::Record, facts: &Facts, asked: &Asked<'_>) -> Here {
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

#[cfg(test)]
mod tests;
