//! The beads dialect: the record of `.exclusive-lock` (DESIGN 4).

use serde::{Deserialize, Serialize};

/// The lock file's content, as read: plain data, no I/O.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The tool that holds the lock; untrusted when it comes out of a file.
    pub holder: String,
    /// The holder's process.
    pub pid: i64,
    /// The host that the process runs on.
    pub hostname: String,
    /// When the lock was acquired.
    pub started_at: StartedAt,
    /// The holder's version; may be empty.
    pub version: String,
    /// What beadlock adds and other readers ignore.
    pub beadlock: Option<Mark>,
}

/// An instant as the record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartedAt(pub jiff::SignedDuration);

/// The key `beadlock` of a record that beadlock wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Random; names this one claim.
    pub id: String,
    /// The machine id, hashed.
    pub machine_id: Option<String>,
    /// The kernel's boot id.
    pub boot_id: Option<String>,
    /// `pid:[N]` of the holder.
    pub pid_ns: Option<String>,
    /// `time:[N]` of the holder.
    pub time_ns: Option<String>,
    /// When the holder's process started, in clock ticks after boot.
    pub start_ticks: Option<u64>,
}
