//! Verdict: what a lock file amounts to (docs/design.md#the-beads-rule). It is about the bytes and the facts.
//! Each protocol passes it in its own `judge` (`dialect/*/judge.rs`).

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

beadlock_base::words! {
    /// Why a verdict or a decision is what it is: a closed list that scripts rely on (docs/design.md#commands).
    pub enum Reason {
        /// No lock file.
        NoLock = "no_lock",
        /// `kill(pid, 0)` succeeded.
        PidAlive = "pid_alive",
        /// `kill(pid, 0)` said EPERM: it lives, and belongs to someone else.
        PidNotPermitted = "pid_not_permitted",
        /// `kill(pid, 0)` said ESRCH.
        PidGone = "pid_gone",
        /// Another errno, or a PID that no kernel can have.
        PidUnknown = "pid_unknown",
        /// The record is from another host.
        OtherHost = "other_host",
        /// This machine's own host name cannot be read.
        HostUnknown = "host_unknown",
        /// The same host name on another machine.
        OtherMachine = "other_machine",
        /// The same host and boot, but a PID of another namespace.
        OtherPidNamespace = "other_pid_namespace",
        /// Somebody has the gate.
        GateBusy = "gate_busy",
        /// A stale lock could not be removed.
        RemovalFailed = "removal_failed",
        /// Not JSON, or of the wrong types.
        Malformed = "malformed",
        /// JSON of the right types without a needed value.
        Invalid = "invalid",
        /// Not a readable regular file of at most 64 KiB.
        Unreadable = "unreadable",
        /// Proved dead: this machine has booted since (only with `--reap-proven-dead`).
        OtherBoot = "other_boot",
        /// Proved dead: the PID is another process now (only with `--reap-proven-dead`).
        PidReused = "pid_reused",
        /// Proved dead: a zombie without living threads (only with `--reap-proven-dead`).
        Zombie = "zombie",
        /// Proved dead: nothing lives in its PID namespace any more (only with `--reap-proven-dead`).
        NamespaceGone = "namespace_gone",
        /// The last heartbeat of a named lock is not overdue.
        HeartbeatFresh = "heartbeat_fresh",
        /// The last heartbeat of a named lock is longer ago than its TTL.
        HeartbeatExpired = "heartbeat_expired",
        /// The last heartbeat of a named lock lies in the future: the clocks differ.
        HeartbeatInFuture = "heartbeat_in_future",
        /// Somebody has a file's lock: an flock says nothing else.
        FlockHeld = "flock_held",
        /// A lock that is judged by its age is not too old.
        AgeFresh = "age_fresh",
        /// A lock that is judged by its age is too old.
        AgeExceeded = "age_exceeded",
        /// Somebody claims the database in its fleet.
        FleetHeld = "fleet_held",
        /// The fleet was made a moment ago: what ran under an earlier one of its name may not have ended yet.
        FleetNew = "fleet_new",
        /// The fleet does not answer, or does not know this database.
        FleetUnreachable = "fleet_unreachable",
        /// The database has joined a fleet, and this check has no right in it.
        FleetUseCycle = "fleet_use_cycle",
        /// The right in the fleet was lost.
        FleetLost = "fleet_lost",
    }
}
