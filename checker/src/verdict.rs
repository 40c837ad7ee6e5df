//! Verdict: what a lock file amounts to (docs/design.md#the-beads-rule). It is about the bytes and the facts.

use std::fmt;

/// The result of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is no lock.
    Free,
    /// Somebody has it, or cannot be shown not to.
    Held(Reason),
    /// Its holder is proved dead.
    Stale(Reason),
    /// It cannot be understood; fails safe, as if held.
    Unreadable(Reason),
}

impl Verdict {
    /// The word of the JSON contract: `free`, `held`, `stale` or `unreadable`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held(_) => "held",
            Self::Stale(_) => "stale",
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Why.
    pub fn reason(self) -> Reason {
        match self {
            Self::Free => Reason::NoLock,
            Self::Held(reason) | Self::Stale(reason) | Self::Unreadable(reason) => reason,
        }
    }
}

/// Why a verdict or a decision is what it is. The words are a closed list that scripts rely on
/// (docs/design.md#commands).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No lock file.
    NoLock,
    /// `kill(pid, 0)` succeeded.
    PidAlive,
    /// `kill(pid, 0)` said EPERM: it lives, and belongs to someone else.
    PidNotPermitted,
    /// `kill(pid, 0)` said ESRCH.
    PidGone,
    /// Another errno, or a PID that no kernel can have.
    PidUnknown,
    /// The record is from another host.
    OtherHost,
    /// This machine's own host name cannot be read.
    HostUnknown,
    /// The same host name on another machine.
    OtherMachine,
    /// The same host and boot, but a PID of another namespace.
    OtherPidNamespace,
    /// Somebody has the gate.
    GateBusy,
    /// A stale lock could not be removed.
    RemovalFailed,
    /// Not JSON, or of the wrong types.
    Malformed,
    /// JSON of the right types without a needed value.
    Invalid,
    /// Not a readable regular file of at most 64 KiB.
    Unreadable,
    /// Proved dead: this machine has booted since (only with `--reap-proven-dead`).
    OtherBoot,
    /// Proved dead: the PID is another process now (only with `--reap-proven-dead`).
    PidReused,
    /// Proved dead: a zombie without living threads (only with `--reap-proven-dead`).
    Zombie,
    /// Proved dead: nothing lives in its PID namespace any more (only with `--reap-proven-dead`).
    NamespaceGone,
    /// The last heartbeat of a named lock is not overdue.
    HeartbeatFresh,
    /// The last heartbeat of a named lock is longer ago than its TTL.
    HeartbeatExpired,
    /// The last heartbeat of a named lock lies in the future: the clocks differ.
    HeartbeatInFuture,
    /// Somebody has a file's lock: an flock says nothing else.
    FlockHeld,
    /// A lock that is judged by its age is not too old.
    AgeFresh,
    /// A lock that is judged by its age is too old.
    AgeExceeded,
}

impl Reason {
    /// The word of the contract, e.g. `pid_alive`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoLock => "no_lock",
            Self::PidAlive => "pid_alive",
            Self::PidNotPermitted => "pid_not_permitted",
            Self::PidGone => "pid_gone",
            Self::PidUnknown => "pid_unknown",
            Self::OtherHost => "other_host",
            Self::HostUnknown => "host_unknown",
            Self::OtherMachine => "other_machine",
            Self::OtherPidNamespace => "other_pid_namespace",
            Self::GateBusy => "gate_busy",
            Self::RemovalFailed => "removal_failed",
            Self::Malformed => "malformed",
            Self::Invalid => "invalid",
            Self::Unreadable => "unreadable",
            Self::OtherBoot => "other_boot",
            Self::PidReused => "pid_reused",
            Self::Zombie => "zombie",
            Self::NamespaceGone => "namespace_gone",
            Self::HeartbeatFresh => "heartbeat_fresh",
            Self::HeartbeatExpired => "heartbeat_expired",
            Self::HeartbeatInFuture => "heartbeat_in_future",
            Self::FlockHeld => "flock_held",
            Self::AgeFresh => "age_fresh",
            Self::AgeExceeded => "age_exceeded",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
