//! The rows about locks.

use schemars::JsonSchema;

use super::records::{BeadsRecord, MemoryRecord, TowerRecord};
use super::words::{
    DecisionWord, FileKindWord, LogStateWord, ModeWord, ReasonWord, StateWord, Time, VerdictWord,
};

/// What a sync daemon does about a lock now.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckRow {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// What a daemon does.
    pub decision: DecisionWord,
    /// What the lock is.
    pub verdict: Option<VerdictWord>,
    /// True if a stale lock was removed.
    pub removed: bool,
    /// The holder's name, raw; null without a record.
    pub holder: Option<String>,
    /// What `break --id` and `release --id` take.
    pub id: Option<String>,
    /// Why, in one word.
    pub reason: Option<ReasonWord>,
    /// The line of the log; empty where there is none.
    pub message: String,
    /// Everything that the verdict rests on. Only with `--explain`.
    #[serde(skip_serializing_if = "left_out")]
    pub witnesses: Witnesses,
    /// True if a stale lock was removed without a lease to watch it by. Only with `--explain`, and for locks with a record.
    #[serde(skip_serializing_if = "left_out")]
    pub lease_unavailable: bool,
    /// What to type next. Only with `--explain`.
    #[serde(skip_serializing_if = "left_out")]
    pub next: String,
}

/// A lock, as it is.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusRow {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// What the lock is.
    pub verdict: Option<VerdictWord>,
    /// The holder's name, raw; null without a record.
    pub holder: Option<String>,
    /// What `break --id` and `release --id` take.
    pub id: Option<String>,
    /// Why, in one word.
    pub reason: Option<ReasonWord>,
    /// What a daemon would log; empty where it would not.
    pub message: String,
    /// The record, as it was read; null where there is none.
    pub record: Option<AnyRecord>,
    /// How long ago the record was written; null where that is not known.
    pub age_ms: Option<i64>,
    /// Everything that the verdict rests on. Of `list --quick`, left out.
    #[serde(skip_serializing_if = "left_out")]
    pub witnesses: Witnesses,
    /// What to type next.
    #[serde(skip_serializing_if = "left_out")]
    pub next: String,
    /// How the sync of the database fares. Left out where no daemon has logged.
    #[serde(skip_serializing_if = "left_out")]
    pub sync: Sync,
    /// What the fleet of the database says. Left out where the database has joined none.
    #[serde(skip_serializing_if = "left_out")]
    pub fleet: FleetSight,
}

/// The record of a lock, as it was read: it depends on the protocol.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum AnyRecord {
    /// Of `beads:`, `dir:` and `lock:`.
    Beads(Box<BeadsRecord>),
    /// Of `tower:`.
    Tower(Box<TowerRecord>),
    /// Of `memory:`.
    Memory(Box<MemoryRecord>),
}

/// The facts, or an empty list where nothing could be looked at.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum Witnesses {
    /// The facts.
    Facts(Box<Facts>),
    /// Nothing could be looked at.
    Nothing(#[schemars(length(max = 0))] Vec<String>),
}

/// Everything that a verdict rests on. What does not apply to a protocol is left out, and what is not known is null.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// One word for what is going on.
    #[serde(skip_serializing_if = "left_out")]
    pub situation: String,
    /// The processes that have the gate.
    #[serde(skip_serializing_if = "left_out")]
    pub gate: Vec<GateProcess>,
    /// The processes that wait for the gate.
    #[serde(skip_serializing_if = "left_out")]
    pub gate_waiters: Vec<Process>,
    /// True if a side file lies beside the lock.
    #[serde(skip_serializing_if = "left_out")]
    pub side_file: bool,
    /// What lies at the path of the lock; null where nothing does.
    #[serde(skip_serializing_if = "left_out")]
    pub file: Option<File>,
    /// The address of the work that the lock is held for.
    #[serde(skip_serializing_if = "left_out")]
    pub about: String,
    /// What `kill(pid, 0)` said, for the verdict.
    #[serde(skip_serializing_if = "left_out")]
    pub kill: KillWord,
    /// What `kill(pid, 0)` said of that PID on this machine, whatever the verdict makes of it.
    #[serde(skip_serializing_if = "left_out")]
    pub kill_here: KillWord,
    /// The command of the process that has that PID now.
    #[serde(skip_serializing_if = "left_out")]
    pub command_now: Option<String>,
    /// The host in the record, and this one.
    #[serde(skip_serializing_if = "left_out")]
    pub host: Host,
    /// Whether the record is of this machine.
    #[serde(skip_serializing_if = "left_out")]
    pub machine: Option<SameWord>,
    /// Whether the record is of this boot.
    #[serde(skip_serializing_if = "left_out")]
    pub boot: Option<SameWord>,
    /// The PID namespace in the record, and this one.
    #[serde(skip_serializing_if = "left_out")]
    pub pid_namespace: PidNamespace,
    /// The time namespace in the record, and this one.
    #[serde(skip_serializing_if = "left_out")]
    pub time_namespace: TimeNamespace,
    /// When the process started: by the record, and as it runs now.
    #[serde(skip_serializing_if = "left_out")]
    pub start_ticks: StartTicks,
    /// How far the time of the record lies in the future.
    #[serde(skip_serializing_if = "left_out")]
    pub starts_in_ms: Option<i64>,
    /// True if the process is a zombie without living threads.
    #[serde(skip_serializing_if = "left_out")]
    pub zombie: Option<bool>,
    /// True if nothing lives in the PID namespace of the record.
    #[serde(skip_serializing_if = "left_out")]
    pub namespace_gone: Option<bool>,
    /// True if only this machine writes the file system.
    #[serde(skip_serializing_if = "left_out")]
    pub local_file_system: Option<bool>,
    /// The last heartbeat of a named lock.
    #[serde(skip_serializing_if = "left_out")]
    pub heartbeat: Heartbeat,
    /// The PID in the record of a named lock: nobody asks it.
    #[serde(skip_serializing_if = "left_out")]
    pub pid: i64,
    /// When a lock of a directory was acquired or last refreshed.
    #[serde(skip_serializing_if = "left_out")]
    pub acquired: Acquired,
    /// How a file is locked.
    #[serde(skip_serializing_if = "left_out")]
    pub mode: Option<ModeWord>,
    /// The processes that have the file locked.
    #[serde(skip_serializing_if = "left_out")]
    pub flock: Vec<Process>,
    /// The processes that wait for the file.
    #[serde(skip_serializing_if = "left_out")]
    pub flock_waiters: Vec<Process>,
}

/// The answers of `kill(pid, 0)`.
#[derive(JsonSchema)]
#[schemars(inline)]
pub enum KillWord {
    /// It succeeded.
    #[serde(rename = "ok")]
    Ok,
    /// The process lives, and belongs to another user.
    #[serde(rename = "EPERM")]
    NotPermitted,
    /// The process is gone.
    #[serde(rename = "ESRCH")]
    Gone,
    /// Another answer: the process counts as alive.
    #[serde(rename = "unknown")]
    Unknown,
    /// It is not a process of this place.
    #[serde(rename = "not_asked")]
    NotAsked,
}

/// The same, or another.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum SameWord {
    /// The same.
    Same,
    /// Another.
    Other,
}

/// A process.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its PID.
    pub pid: i32,
    /// Its command.
    pub command: String,
}

/// A process that has the gate.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateProcess {
    /// Its PID.
    pub pid: i32,
    /// Its command.
    pub command: String,
    /// `runner`: it has the gate for a daemon. `orphan`, `left`: for one that was killed.
    pub role: GateRole,
    /// The PID of the daemon.
    pub daemon: Option<i32>,
    /// What the killed daemon has left running.
    pub work: Option<Vec<Process>>,
}

/// Why a process has the gate.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum GateRole {
    /// It stands beside the work of a cycle.
    Runner,
    /// The same, and its daemon is gone.
    Orphan,
    /// Every process of the daemon is gone.
    Left,
    /// Any other: a claim, a cycle, a change of the lock.
    Other,
}

/// What lies at the path of a lock.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The kind of the entry.
    pub kind: FileKindWord,
    /// Its size in bytes.
    pub size: u64,
    /// When it was last written.
    pub modified: Time,
    /// How long ago that is.
    pub age_ms: i64,
    /// The number of its user.
    pub owner: u32,
}

/// Two hosts.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// The host in the record.
    pub record: Option<String>,
    /// This host.
    pub here: Option<String>,
    /// Whether they count as one. Left out where nobody asks the PID.
    #[serde(skip_serializing_if = "left_out")]
    pub same: bool,
}

/// Two PID namespaces.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PidNamespace {
    /// The namespace in the record.
    pub record: Option<String>,
    /// This namespace.
    pub here: Option<String>,
    /// The processes of the recorded namespace that can be seen from here.
    pub processes: Vec<Member>,
}

/// A process of another PID namespace.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its PID here.
    pub pid: i32,
    /// Its PID there.
    pub pid_there: Option<i32>,
}

/// Two time namespaces.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeNamespace {
    /// The namespace in the record.
    pub record: Option<String>,
    /// This namespace.
    pub here: Option<String>,
}

/// Two starts of a process, in clock ticks after boot.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartTicks {
    /// By the record.
    pub record: Option<u64>,
    /// Of the process that has that PID now.
    pub process: Option<u64>,
}

/// The last heartbeat of a named lock.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Its time.
    pub at: Time,
    /// How long ago that is.
    pub age_ms: i64,
    /// After how long without one the lock is stale.
    pub ttl_seconds: u64,
}

/// When a lock of a directory was acquired or last refreshed.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acquired {
    /// How long ago; null where the record does not say.
    pub age_ms: Option<i64>,
}

/// How the sync of a database fares.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Who says so.
    pub from: SyncSource,
    /// A state of the agent, or of `beadlock log`.
    pub state: SyncState,
    /// Whether it syncs; null where that is not known.
    pub syncing: Option<bool>,
    /// For how long it has been so.
    pub for_ms: Option<u64>,
    /// The same in one line.
    pub message: String,
    /// What to type.
    pub next: Option<String>,
}

/// Who says how a sync fares.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum SyncSource {
    /// The agent, which was asked.
    Agent,
    /// Its log.
    Log,
}

/// The states of a sync.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub enum SyncState {
    /// As the agent has it.
    OfAgent(StateWord),
    /// As its log has it.
    OfLog(LogStateWord),
}

/// What the fleet of a database says of it.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSight {
    /// The name of the database in the fleet.
    pub name: Option<String>,
    /// Where the fleet's etcd is.
    pub url: Option<String>,
    /// The claim that stands there.
    pub claim: Option<FleetClaim>,
    /// Why the fleet could not be asked.
    pub error: Option<String>,
}

/// A claim in a fleet.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetClaim {
    /// The id of the claim.
    pub id: String,
    /// The holder's name.
    pub holder: String,
    /// The holder's host.
    pub host: String,
    /// The holder's process.
    pub pid: u32,
    /// Since when, by the clock of that host.
    pub started_at: Time,
    /// `draining`: agents may still be in their cycles.
    pub phase: FleetPhase,
    /// The fencing token, once it is held.
    pub token: Option<u64>,
    /// The session that keeps it up.
    pub session: String,
}

/// How far a claim in a fleet is.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum FleetPhase {
    /// Agents may still be in their cycles.
    Draining,
    /// The command may run.
    Held,
}
