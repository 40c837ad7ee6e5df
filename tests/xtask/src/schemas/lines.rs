//! Lines of audit trails and of logs.

use schemars::JsonSchema;

use super::words::{Any, AuditEvent, LevelWord, LogEvent, ReasonWord, Time};
use super::{Described, Group};

pub(super) fn all() -> Vec<Described> {
    vec![
        Described::of::<AuditLine>("audit-line", "A line of an audit trail", Group::Line),
        Described::of::<TowerLine>(
            "audit-line-tower",
            "A line of the audit trail of a named lock",
            Group::Line,
        ),
        Described::of::<LogLine>(
            "log-line",
            "A line of the agent's log with --log-format json",
            Group::Line,
        ),
    ]
}

/// One event in the life of a lock. Every line has all of these keys; what is not known, or does not apply, is null.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditLine {
    /// What happened.
    pub event: AuditEvent,
    /// The request that did it: `meta.request_id` of the envelope.
    pub request_id: String,
    /// When, in whole seconds.
    pub timestamp: Time,
    /// The target with its scheme.
    pub lock_name: String,
    /// The lock file.
    pub lock_path: String,
    /// Who did it.
    pub by: Author,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub detail: Option<String>,
    /// How it was made sure that nobody was taking over a lock that was removed.
    pub watched: Option<Watched>,
    /// Whole seconds from the claim to its end.
    pub held_duration_seconds: Option<u64>,
    /// How the work that the lock was held for has ended.
    pub result: Option<WorkResult>,
    /// What went wrong, in a sentence.
    pub error: Option<String>,
    /// The record that is, or was, in the lock file: of a claim its own, of a block the one in the way.
    pub lock: Option<Any>,
    /// The record that was removed or broken.
    pub previous_lock: Option<Any>,
    /// True when anything in this line was cut or left out to keep it short.
    pub truncated: bool,
}

/// Who wrote a line.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Author {
    /// The name that the process claims under.
    pub holder: Option<String>,
    /// The program.
    pub program: String,
    /// Its version.
    pub version: String,
    /// Its PID.
    pub pid: u32,
    /// The number of its user.
    pub uid: u32,
    /// The name of its user.
    pub user: Option<String>,
    /// Its host.
    pub hostname: Option<String>,
}

/// How a removal was watched.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// By a lease of the kernel.
    Lease,
    /// By comparing the file before and after.
    Comparison,
}

/// How the work under a lock has ended.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum WorkResult {
    /// The command ended with 0, or the holder said so.
    Success,
    /// Anything else.
    Failure,
}

/// One event in the life of a named lock, in the form of its own document.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum TowerLine {
    /// The lock was claimed.
    Acquired(TowerAcquired),
    /// A stale lock was taken with `--force-lock`.
    Stolen(TowerStolen),
    /// The lock was released.
    Released(TowerReleased),
    /// The lock could not be released.
    ReleaseFailed(TowerReleaseFailed),
    /// Heartbeats could not be written.
    HeartbeatFailed(TowerHeartbeatFailed),
    /// The lock was lost.
    Lost(TowerLost),
    /// Somebody took the lock away by hand.
    Broken(TowerBroken),
}

/// A type that has the head of each line, then its own keys.
macro_rules! tower {
    ($($(#[$about:meta])* $Name:ident $Event:ident $word:literal { $($(#[$doc:meta])* $field:ident: $Type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $Name {
            /// What happened.
            pub event: $Event,
            /// The request that did it.
            pub request_id: String,
            /// When, in whole seconds.
            pub timestamp: Time,
            /// The name of the lock.
            pub lock_name: String,
            $($(#[$doc])* pub $field: $Type,)*
        }

        /// The event of this line.
        #[derive(JsonSchema)]
        #[schemars(inline)]
        pub enum $Event {
            /// This one.
            #[serde(rename = $word)]
            It,
        }
    )*};
}

tower! {
    /// The lock was claimed.
    TowerAcquired AcquiredEvent "lock_acquired" {
        /// The lock file.
        lock_path: String,
        /// The lock is stale after this time without a heartbeat.
        ttl_seconds: u64,
    }
    /// A stale lock was taken with `--force-lock`.
    TowerStolen StolenEvent "lock_stolen" {
        /// The lock that was taken.
        previous_lock: TowerPrevious,
        /// `sha256:` and the hash of its bytes.
        previous_lock_hash: String,
        /// Why, in one word.
        reason: String,
    }
    /// The lock was released.
    TowerReleased ReleasedEvent "lock_released" {
        /// Whole seconds from the claim to its end.
        held_duration_seconds: u64,
        /// How the work has ended.
        result: WorkResult,
        /// The step that failed.
        #[serde(skip_serializing_if = "left_out")]
        failure_step: String,
    }
    /// The lock could not be released.
    TowerReleaseFailed ReleaseFailedEvent "lock_release_failed" {
        /// The lock file.
        lock_path: String,
        /// What the system said.
        error: String,
        /// What is to be done.
        action: String,
    }
    /// Heartbeats could not be written.
    TowerHeartbeatFailed HeartbeatFailedEvent "heartbeat_failed" {
        /// The lock file.
        lock_path: String,
        /// How many in a row.
        consecutive_failures: u32,
        /// What the system said.
        error: String,
    }
    /// The lock was lost.
    TowerLost LostEvent "lock_lost" {
        /// The lock file.
        lock_path: String,
        /// Whole seconds from the claim to its loss.
        held_duration_seconds: Option<u64>,
        /// Why, in one word.
        reason: String,
        /// The same in a sentence.
        error: String,
    }
    /// Somebody took the lock away by hand.
    TowerBroken BrokenEvent "lock_broken" {
        /// The lock file.
        lock_path: String,
        /// Who.
        actor: Option<String>,
        /// The lock that was there; null where the file was not one.
        previous_lock: Option<TowerPrevious>,
        /// Where its record is now.
        kept: String,
        /// How it was chosen, in one word.
        reason: String,
        /// Why, in a sentence.
        detail: Option<String>,
    }
}

/// A named lock that was taken away.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TowerPrevious {
    /// The id of the execution.
    pub request_id: String,
    /// The name of the holder.
    pub actor: String,
    /// The name of the intent.
    pub intent: String,
    /// When it was acquired.
    pub created_at: Time,
    /// When its last heartbeat was.
    pub last_heartbeat_at: Time,
    /// The host of the execution.
    pub host_id: String,
    /// The PID of the execution.
    pub pid: i64,
}

/// One line of the log of the agent. Every line has all of these keys.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLine {
    /// When, in whole seconds.
    pub time: Time,
    /// How much the line matters.
    pub level: LevelWord,
    /// The directory of the database; null in a line for all of them.
    pub db: Option<String>,
    /// What happened, in one word.
    pub event: LogEvent,
    /// The line as it is in a text log.
    pub message: String,
    /// The holder of the lock that the line is about.
    pub holder: Option<String>,
    /// The PID of the holder.
    pub pid: Option<i64>,
    /// The host of the holder.
    pub host: Option<String>,
    /// Since when.
    pub since: Option<String>,
    /// Why, in one word.
    pub reason: Option<ReasonWord>,
}
