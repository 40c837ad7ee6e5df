//! What the stories ask about a protocol. Each protocol answers in one value, in a file of its own; a story never asks
//! for a protocol by name.

use beadlock_tests::Running;

use crate::site::Site;

/// A protocol, as far as a user of its locks can tell it from another.
pub struct Protocol {
    /// The target that the tests type, relative to the scene's directory.
    pub target: &'static str,
    /// The same target in JSON.
    pub shown: &'static str,
    /// The directory of the lock file. It is also the directory whose flock serialises changes, where there are such
    /// changes.
    pub directory: &'static str,
    /// The lock file's name in that directory.
    pub lock_file: &'static str,
    /// What is in the way of a claim before the claim exists, relative to the scene: the path that beadlock locks by
    /// flock.
    pub gate: &'static str,
    /// The options that every claim of the tests has. They make [`HOLDER`] the holder where the protocol has a name
    /// for it.
    pub claim: &'static [&'static str],
    /// The options that shorten a claim's life after a kill, for tests that kill.
    pub short_lived: &'static [&'static str],
    /// The keys of the lock file in their order; none where the lock file is empty.
    pub record: &'static [&'static str],
    /// The key of the holder's name in the lock file.
    pub holder_key: Option<&'static str>,
    pub refusal: Refusal,
    pub default_wait: DefaultWait,
    /// Another tool's live lock.
    pub neighbour: Neighbour,
    /// The ways in which another tool's lock can be dead; none where the kernel ends a lock with its process.
    pub dead: &'static [Dead],
    /// Locks that look dead, and may not be taken.
    pub doubtful: &'static [Doubtful],
    pub takeover: Takeover,
    /// What a check says about a lock file with [`GARBAGE`] in it.
    pub garbage: Garbage,
    pub orphan: Orphan,
    pub for_process: ForProcess,
    /// What `release` says when it has released the lock.
    pub released: &'static str,
    pub breaking: Breaking,
    pub leaves: Leaves,
    /// The ROOT for which `beadlock list` shows the lock; none where a lock file cannot be told from other files.
    pub listed_below: Option<&'static str>,
    pub audit: Audit,
}

/// The holder's name in every claim of the tests.
pub const HOLDER: &str = "release-991";

/// The holder's name in every lock that another tool has made.
pub const NEIGHBOUR: &str = "vc-executor";

/// The content of a lock file that no protocol can read.
pub const GARBAGE: &str = "this is not a lock";

/// How a claim on a held lock is refused.
pub struct Refusal {
    pub exit_code: i32,
    pub error_code: &'static str,
    /// Why `check` and `status` call the lock held.
    pub reason: &'static str,
    /// Words of the message for a holder of this PID, without a wait.
    pub at_once: fn(i32) -> String,
    /// Words of the message for a holder of this PID, after a wait of 300 ms.
    pub after_300_ms: fn(i32) -> String,
    /// The keys of `error.detail`, in order.
    pub detail: &'static [&'static str],
    /// The exit code and the error code of a claim that finds the gate shut.
    pub gate_shut: (i32, &'static str),
    /// The keys of the object `error.lock`; none where there is no such object.
    pub lock_object: &'static [&'static str],
}

/// What a claim does that names no time.
#[derive(PartialEq, Eq)]
pub enum DefaultWait {
    Waits,
    RefusesAtOnce,
}

/// How another tool makes a lock.
pub enum Neighbour {
    /// It writes this lock file, which names a living process of this PID.
    Writes(fn(i32) -> String),
    /// It is a process that has the lock by itself.
    Locks(fn(&Site) -> Running),
}

/// A lock whose holder is gone.
pub struct Dead {
    pub what: &'static str,
    /// The lock file that names this PID, which is gone.
    pub text: fn(i32) -> String,
    pub reason: &'static str,
    /// What `check` says when it finds the lock.
    pub checked: fn(i32) -> String,
    /// What a claim says that takes the lock.
    pub taken: fn(i32) -> String,
}

/// A lock that names a process which is gone here, and that is held all the same.
pub struct Doubtful {
    pub what: &'static str,
    /// The lock file that names this PID, which is gone.
    pub text: fn(i32) -> String,
    pub reason: &'static str,
}

/// How a stale lock is taken.
#[derive(PartialEq, Eq)]
pub enum Takeover {
    /// A check removes it, and a claim takes it.
    ByAnyone,
    /// Nothing touches it but a claim with this option.
    OnlyWith(&'static str),
    /// A lock is never stale.
    Never,
}

impl Takeover {
    /// What a claim needs to take a stale lock.
    pub fn options(&self) -> Vec<&'static str> {
        match self {
            Self::OnlyWith(option) => vec![option],
            Self::ByAnyone | Self::Never => Vec::new(),
        }
    }
}

/// What a check makes of a lock file that it cannot read.
pub struct Garbage {
    pub verdict: &'static str,
    pub reason: &'static str,
    pub exit_code: i32,
    /// A directory in the lock's place is no garbage: it is locked as a file is.
    pub a_directory_is_locked: bool,
}

/// What becomes of the command when its beadlock is killed.
#[derive(PartialEq, Eq)]
pub enum Orphan {
    /// The lock names the command, which works on under it.
    KeepsTheLock,
    /// The lock is kept up by beadlock, so the command is ended.
    IsEnded,
}

/// What becomes of `acquire --for PID` when that process ends.
#[derive(PartialEq, Eq)]
pub enum ForProcess {
    /// The lock names the process, and is stale from then on.
    LeavesAStaleLock,
    /// A keeper releases the lock.
    IsReleased,
}

/// Whether an operator can take a lock away.
#[derive(PartialEq, Eq)]
pub enum Breaking {
    /// By its id; a live lock with `--even-if-live` alone.
    ById,
    /// By its id, or without any name, for there can be only one.
    ByIdOrUnnamed,
    /// An flock cannot be taken from its process.
    Impossible,
}

/// What is left of a lock that was released.
#[derive(PartialEq, Eq)]
pub enum Leaves {
    Nothing,
    AnEmptyLockFile,
}

/// The events of `--audit`.
pub struct Audit {
    /// What `lock_name` is.
    pub lock_name: &'static str,
    pub acquired: &'static [&'static str],
    pub released: &'static [&'static str],
    /// The event of a claim that is refused, where there is one.
    pub blocked: Option<&'static str>,
    /// The fields of `lock_lost`, the event of a lock that vanishes.
    pub lost: &'static [&'static str],
    /// The event of a stale lock that is taken; none where a lock is never stale.
    pub taken: Option<&'static str>,
    pub unwritable: Unwritable,
}

/// What becomes of a claim whose audit file cannot be opened.
#[derive(PartialEq, Eq)]
pub enum Unwritable {
    /// The claim is refused: an audit that was asked for is not left out.
    RefusesTheClaim,
    /// The claim is granted, with a warning.
    IsAWarning,
}

/// The keys of an event of beadlock's own.
pub const EVENT: &[&str] = &[
    "event",
    "request_id",
    "timestamp",
    "lock_name",
    "lock_path",
    "by",
    "reason",
    "detail",
    "watched",
    "held_duration_seconds",
    "result",
    "error",
    "lock",
    "previous_lock",
    "truncated",
];
