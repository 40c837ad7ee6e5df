//! [`Verdict`], the result of a judgement, and [`Reason`] (docs/design.md#the-beads-rule). A verdict depends on the
//! bytes of a lock file and the facts alone. Each protocol has its own `judge` (`record_kind/*/judge.rs`).

/// Result of a judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No lock is there.
    Free,
    /// The holder lives, or its death is not proved.
    Held(Reason),
    /// The holder is proved dead, or the lock is too old by its protocol.
    Stale(Reason),
    /// The file cannot be read or understood. Callers treat it as held.
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

    /// Reason of the verdict; [`Reason::NoLock`] for [`Verdict::Free`].
    pub fn reason(self) -> Reason {
        match self {
            Self::Free => Reason::NoLock,
            Self::Held(reason) | Self::Stale(reason) | Self::Unreadable(reason) => reason,
        }
    }
}

beadlock_base::words! {
    /// Reason of a verdict or a decision. The list is closed, and scripts rely on the words (docs/design.md#commands).
    pub enum Reason {
        /// No lock file is there.
        NoLock = "no_lock",
        /// `kill(pid, 0)` succeeded.
        PidAlive = "pid_alive",
        /// `kill(pid, 0)` said EPERM: the process lives, and belongs to another user.
        PidNotPermitted = "pid_not_permitted",
        /// `kill(pid, 0)` said ESRCH.
        PidGone = "pid_gone",
        /// `kill(pid, 0)` said another errno, or no kernel can have this PID.
        PidUnknown = "pid_unknown",
        /// The record names another host.
        OtherHost = "other_host",
        /// The host name of this machine cannot be read.
        HostUnknown = "host_unknown",
        /// The record has this host's name and another machine's id.
        OtherMachine = "other_machine",
        /// The recorded PID belongs to another PID namespace of this host and boot.
        OtherPidNamespace = "other_pid_namespace",
        /// Another process holds the gate.
        GateBusy = "gate_busy",
        /// A stale lock could not be removed.
        RemovalFailed = "removal_failed",
        /// The file is not JSON, or a field has a wrong type.
        Malformed = "malformed",
        /// The file is JSON of the right types, and a needed value is missing or empty.
        Invalid = "invalid",
        /// The file is not a readable regular file of at most 64 KiB.
        Unreadable = "unreadable",
        /// Proved dead: this machine has booted since (only with `--reap-proven-dead`).
        OtherBoot = "other_boot",
        /// Proved dead: the PID is another process now (only with `--reap-proven-dead`).
        PidReused = "pid_reused",
        /// Proved dead: a zombie without living threads (only with `--reap-proven-dead`).
        Zombie = "zombie",
        /// Proved dead: nothing lives in its PID namespace any more (only with `--reap-proven-dead`).
        NamespaceGone = "namespace_gone",
        /// The last heartbeat of a named lock is within its TTL.
        HeartbeatFresh = "heartbeat_fresh",
        /// The last heartbeat of a named lock is longer ago than its TTL.
        HeartbeatExpired = "heartbeat_expired",
        /// The last heartbeat of a named lock lies in the future, so the clocks differ.
        HeartbeatInFuture = "heartbeat_in_future",
        /// A process holds the flock of a `file:` lock, which has no record.
        FlockHeld = "flock_held",
        /// A lock that is judged by its age is not too old.
        AgeFresh = "age_fresh",
        /// A lock that is judged by its age is too old.
        AgeExceeded = "age_exceeded",
        /// The database is claimed in its fleet.
        FleetHeld = "fleet_held",
        /// The fleet was made a moment ago: work under an earlier fleet of its name may not have ended yet.
        FleetNew = "fleet_new",
        /// The fleet does not answer, or does not know this database.
        FleetUnreachable = "fleet_unreachable",
        /// The database has joined a fleet, and this check has no right in it.
        FleetUseCycle = "fleet_use_cycle",
        /// The right in the fleet was lost.
        FleetLost = "fleet_lost",
    }
}
