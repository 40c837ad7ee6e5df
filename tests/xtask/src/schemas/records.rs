//! Lock files.

use schemars::{JsonSchema, Schema};
use serde_json::json;

use super::words::{Any, Time};
use super::{Described, Group};

pub(super) fn all() -> Vec<Described> {
    let about_beads = "The lock file of beads:, dir: and lock:, as beadlock writes it";
    vec![
        Described::of::<BeadsRecord>("lock-beads", about_beads, Group::LockFile),
        Described::of::<TowerLockFile>(
            "lock-tower",
            "The lock file of tower:, as beadlock writes it",
            Group::LockFile,
        ),
        Described::of::<MemoryLockFile>(
            "lock-memory",
            "The lock file of memory:, as beadlock writes it",
            Group::LockFile,
        ),
    ]
}

/// The lock of a database (`.exclusive-lock`), of a directory (`dir:`) or at a path (`lock:`). Other programs may add
/// keys, which readers ignore.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeadsRecord {
    /// The name of the tool that holds the lock.
    pub holder: String,
    /// The PID of the holder.
    pub pid: i64,
    /// The host of the process.
    pub hostname: String,
    /// When the lock was acquired.
    pub started_at: Time,
    /// The version of the holder.
    #[serde(skip_serializing_if = "left_out")]
    pub version: String,
    /// What beadlock adds.
    #[serde(skip_serializing_if = "left_out")]
    pub beadlock: BeadlockKey,
}

/// What beadlock adds to a record, and other readers ignore. What is not known is left out.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeadlockKey {
    /// The id of this one claim.
    pub id: String,
    /// The version of the beadlock that wrote the record.
    #[serde(skip_serializing_if = "left_out")]
    pub version: String,
    /// When the lock was acquired, with the fraction of the second.
    #[serde(skip_serializing_if = "left_out")]
    pub started_at: Time,
    /// The same by the clock that counts from boot, in nanoseconds. Of `memory:`, the time of the last refresh.
    #[serde(skip_serializing_if = "left_out")]
    pub boottime_ns: u64,
    /// The address of the work that the lock is held for.
    #[serde(skip_serializing_if = "left_out")]
    pub about: String,
    /// True if `acquire` made the claim.
    #[serde(skip_serializing_if = "left_out")]
    pub acquired: bool,
    /// The machine id, hashed.
    #[serde(skip_serializing_if = "left_out")]
    pub machine_id: String,
    /// The boot id of the kernel.
    #[serde(skip_serializing_if = "left_out")]
    pub boot_id: String,
    /// The PID namespace of the holder.
    #[serde(skip_serializing_if = "left_out")]
    pub pid_ns: String,
    /// The time namespace of the holder.
    #[serde(skip_serializing_if = "left_out")]
    pub time_ns: String,
    /// The start of the holder's process, in clock ticks after boot.
    #[serde(skip_serializing_if = "left_out")]
    pub start_ticks: u64,
}

/// A named lock (`tower:NAME`). A heartbeat keeps the fields that others have added.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TowerLockFile {
    /// The version of the form.
    pub lock_version: TowerVersion,
    /// The name of the lock.
    pub lock_name: String,
    /// The id of this one execution.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,128}$"))]
    pub request_id: String,
    /// The name of the holder.
    pub actor: String,
    /// The name of the intent that is executed.
    pub intent: String,
    /// The version of the intent.
    pub intent_version: String,
    /// The host of the execution.
    pub host_id: String,
    /// The PID of the execution, for people: nobody asks it.
    pub pid: i64,
    /// When the lock was acquired.
    pub created_at: Time,
    /// When the last heartbeat was.
    pub last_heartbeat_at: Time,
    /// The lock is stale after this time without a heartbeat.
    pub ttl_seconds: u64,
    /// Further facts that the holder adds.
    #[serde(skip_serializing_if = "left_out")]
    pub metadata: Any,
    /// What beadlock adds.
    #[serde(skip_serializing_if = "left_out")]
    pub beadlock: TowerKey,
}

/// What beadlock adds to a named lock.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TowerKey {
    /// The address of the work that the lock is held for.
    pub about: String,
}

/// The versions of the form of a named lock.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum TowerVersion {
    /// The first.
    V1,
}

/// The record of a named lock, as it was read: the keys of its lock file, and whatever else stands in it.
#[derive(JsonSchema)]
pub struct TowerRecord {
    /// The version of the form.
    pub lock_version: TowerVersion,
    /// The name of the lock.
    pub lock_name: String,
    /// The id of the execution.
    pub request_id: String,
    /// The name of the holder.
    pub actor: String,
    /// When the last heartbeat was.
    pub last_heartbeat_at: Time,
    /// The lock is stale after this time without a heartbeat.
    pub ttl_seconds: u64,
}

/// The lock of a directory (`memory:DIR`).
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryLockFile {
    /// The PID of the holder.
    pub pid: i64,
    /// The session that holds the lock.
    pub session_id: String,
    /// When the lock was acquired, or last refreshed.
    pub acquired_at: Time,
    /// The host of the process.
    #[serde(skip_serializing_if = "left_out")]
    pub hostname: String,
    /// The operation that the lock is held for.
    pub operation: String,
    /// What beadlock adds.
    pub beadlock: BeadlockKey,
}

/// The record of a directory's lock, as it was read: any key may be missing, and others may be there.
#[derive(JsonSchema)]
#[schemars(transform = not_of_beads)]
pub struct MemoryRecord {}

/// Else a record of beads with a key too many would be one of memory.
fn not_of_beads(schema: &mut Schema) {
    schema.remove("properties");
    schema.insert(
        "not".to_owned(),
        json!({ "required": ["holder", "hostname", "started_at"] }),
    );
}
