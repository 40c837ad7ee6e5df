//! The envelope, and the data of each command in it.

use schemars::JsonSchema;

use super::agent::AgentStatus;
use super::log::Log;
use super::looks::{AnyRecord, CheckRow, FleetClaim, FleetPhase, StatusRow};
use super::words::{ErrorCode, FileKindWord, ReasonWord, Time, VerdictWord, Version};
use super::{Described, Group};

pub(super) fn all() -> Vec<Described> {
    let mut all = Vec::new();
    macro_rules! answers {
        ($($name:literal $title:literal $Data:ty;)*) => {
            $(all.push(Described::of::<Answer<$Data>>($name, $title, Group::Answer));)*
        };
    }
    answers! {
        "hold" "The answer and the report of hold" Claim;
        "acquire" "The answer and the report of acquire" Claim;
        "release" "The answer of release" Release;
        "renew" "The answer of renew" Renew;
        "wait" "The answer of wait" Wait;
        "cycle" "The answer of cycle, when it has skipped" CheckRow;
        "check" "The answer of check" Vec<CheckRow>;
        "status" "The answer of status" Vec<StatusRow>;
        "status-agent" "The answer of status --agent" AgentStatus;
        "list" "The answer of list" Vec<StatusRow>;
        "log" "The answer of log" Vec<Log>;
        "doctor" "The answer of doctor" Doctor;
        "doctor-fleet" "The answer of doctor --fleet" DoctorFleet;
        "break" "The answer of break" AnyBreak;
        "write" "The answer of write" Write;
        "update" "The answer of update" Write;
        "append" "The answer of append" Append;
        "merge" "The answer of merge" Merge;
        "setup-git" "The answer of setup git" SetupGit;
        "fleet-create" "The answer of fleet create" FleetCreate;
        "fleet-join" "The answer of fleet join" FleetJoin;
        "fleet-leave" "The answer of fleet leave" FleetLeave;
        "fleet-status" "The answer of fleet status" FleetStatus;
        "fleet-evict" "The answer of fleet evict" FleetEvict;
        "fleet-destroy" "The answer of fleet destroy" FleetDestroy;
        "error" "The answer of any command that could not answer" Nothing;
    }
    all
}

/// With `--json` every command prints one envelope, in one line.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer<T> {
    /// True if the command could answer, whatever the answer is.
    pub ok: bool,
    /// The answer; null where there is none.
    pub data: Option<T>,
    /// Why the command could not answer; null where it could.
    pub error: Option<Failure>,
    /// What a person was warned of, a line each.
    pub warnings: Vec<String>,
    /// About this answer.
    pub meta: Meta,
}

/// No data: always null.
pub struct Nothing;

impl JsonSchema for Nothing {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Nothing".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "null" })
    }
}

/// Why a command could not answer.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// A word of a closed list.
    pub code: ErrorCode,
    /// What happened, to which file, who holds it, and what to type.
    pub message: String,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Not before this time has passed.
    pub retry_after_ms: Option<u64>,
    /// Facts as `name=value`, for programs.
    pub detail: Option<String>,
    /// The answer that the document of named locks has. Of `tower:` alone.
    #[serde(skip_serializing_if = "left_out")]
    pub lock: TowerAnswer,
}

/// The document's answers to a claim of a named lock.
#[derive(JsonSchema)]
#[serde(tag = "error", rename_all = "snake_case", deny_unknown_fields)]
pub enum TowerAnswer {
    /// The holder sends heartbeats.
    LockBlocked {
        /// The name of the lock.
        lock_name: String,
        /// Who holds it.
        held_by: TowerHolder,
        /// What to do.
        suggestion: String,
    },
    /// The holder sends none any more.
    LockStale {
        /// The name of the lock.
        lock_name: String,
        /// When the last heartbeat was.
        stale_since: Time,
        /// How long ago that is.
        age_seconds: u64,
        /// After how long without one the lock is stale.
        ttl_seconds: u64,
        /// Who held it.
        held_by: TowerSilentHolder,
        /// What to do.
        suggestion: String,
    },
}

/// The holder of a named lock.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TowerHolder {
    /// The id of the execution.
    pub request_id: String,
    /// The name of the holder.
    pub actor: String,
    /// The name of the intent.
    pub intent: String,
    /// When the lock was acquired.
    pub created_at: Time,
    /// When the last heartbeat was.
    pub last_heartbeat_at: Time,
}

/// The holder of a stale named lock.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TowerSilentHolder {
    /// The id of the execution.
    pub request_id: String,
    /// The name of the holder.
    pub actor: String,
    /// The host of the execution.
    pub host_id: String,
    /// The PID of the execution.
    pub pid: i64,
}

/// About an answer.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// How long the command has taken.
    pub duration_ms: u64,
    /// The id of this answer, which the audit trail has, too.
    pub request_id: String,
    /// The version of this contract.
    pub schema: Version,
}

/// A claim of `hold` or `acquire`.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The holder's name.
    pub holder: Option<String>,
    /// The id of the claim.
    pub id: Option<String>,
    /// True if it stands under an outer claim.
    pub nested: bool,
    /// The command's process; of `acquire`, the process that the claim is for.
    pub pid: Option<i32>,
    /// The command's exit code; null where a signal ended it, or it has not ended.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// How long the claim took.
    pub waited_ms: Option<u64>,
    /// How long the lock was held.
    pub held_ms: Option<u64>,
    /// True if this command released it.
    pub released: bool,
    /// The PIDs that the command has left behind.
    pub left_behind: Vec<i32>,
    /// A row for each claim, where there are several.
    #[serde(skip_serializing_if = "left_out")]
    pub claims: Vec<OneClaim>,
}

/// One of several claims.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OneClaim {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The holder's name.
    pub holder: Option<String>,
    /// The id of the claim.
    pub id: Option<String>,
    /// True if it stands under an outer claim.
    pub nested: bool,
    /// How long the lock was held.
    pub held_ms: Option<u64>,
    /// True if this command released it.
    pub released: bool,
}

/// The end of a claim.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The id of the claim.
    pub id: Option<String>,
    /// True if this command released it.
    pub released: bool,
    /// How long the lock was held; null where that is not known.
    pub held_ms: Option<u64>,
}

/// A new end of a claim.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Renew {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The holder's name.
    pub holder: Option<String>,
    /// The id of the claim.
    pub id: Option<String>,
    /// The process that keeps the claim.
    pub pid: Option<i32>,
    /// When the claim ends by itself.
    pub until: Option<Time>,
}

/// The end of a wait.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// How long it took.
    pub waited_ms: Option<u64>,
    /// True if a stale lock was removed.
    pub removed: bool,
}

/// What `break` has done: to a lock here, or to a claim in the fleet.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(untagged)]
pub enum AnyBreak {
    /// A lock of this machine.
    Here(Break),
    /// A claim in the fleet.
    InFleet(BreakInFleet),
}

/// A lock that was broken.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Break {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The holder's name.
    pub holder: Option<String>,
    /// The id of the claim.
    pub id: Option<String>,
    /// The record, as it was read.
    pub record: Option<AnyRecord>,
    /// Where the record is now.
    pub kept: Option<String>,
    /// Why, in the words of who broke it.
    pub reason_given: Option<String>,
    /// What it was.
    pub was: Was,
}

/// What a lock was before it was broken.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Was {
    /// What the lock was.
    pub verdict: Option<VerdictWord>,
    /// Why, in one word.
    pub reason: Option<ReasonWord>,
    /// What lay there.
    pub kind: Option<FileKindWord>,
}

/// A claim in the fleet that was broken.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BreakInFleet {
    /// The target with its scheme.
    pub target: String,
    /// The lock file.
    pub path: String,
    /// The holder's name.
    pub holder: Option<String>,
    /// The id of the claim.
    pub id: Option<String>,
    /// Why, in the words of who broke it.
    pub reason_given: Option<String>,
    /// The claim.
    pub fleet: FleetClaim,
}

/// A file that was written.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The target with its scheme.
    pub target: String,
    /// The file.
    pub path: String,
    /// How long the lock took.
    pub waited_ms: Option<u64>,
    /// How long it was held.
    pub held_ms: Option<u64>,
    /// How long the file is now, in bytes.
    pub bytes: u64,
    /// True if there was no such file.
    pub created: bool,
    /// Where the old content is.
    pub backup: Option<String>,
}

/// A file that lines were added to.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The target with its scheme.
    pub target: String,
    /// The file.
    pub path: String,
    /// How long the lock took.
    pub waited_ms: Option<u64>,
    /// How long it was held.
    pub held_ms: Option<u64>,
    /// How many lines were added.
    pub lines: u64,
    /// How many bytes were added.
    pub bytes: u64,
    /// Where they begin.
    pub offset: u64,
    /// True if there was no such file.
    pub created: bool,
    /// A line without an end that was there before.
    pub torn: Option<Torn>,
}

/// A line without an end.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Torn {
    /// Where it begins.
    pub offset: u64,
    /// How long it is, in bytes.
    pub length: u64,
}

/// A merge of a record file.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// The file.
    pub path: String,
    /// How many records were merged.
    pub merged: u64,
    /// What nobody but a person can decide.
    pub conflicts: Vec<MergeMessage>,
    /// What a person may want to know.
    pub notes: Vec<MergeMessage>,
}

/// A message about one record.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergeMessage {
    /// The id of the record; null where the message is about the whole file.
    pub id: Option<String>,
    /// The message.
    pub message: String,
}

/// What a file system can do.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Doctor {
    /// The directory.
    pub path: String,
    /// True if locks hold there.
    pub can_lock: bool,
    /// The answer in one line.
    pub message: String,
    /// What was tried.
    pub trials: Vec<Trial>,
    /// What is promised.
    pub guarantees: Vec<Guarantee>,
}

/// One trial.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// Whether it is there; null where that is not known.
    pub ok: Option<bool>,
    /// What was seen.
    pub detail: String,
    /// What that means for locks.
    pub means: String,
    /// What to type where it is missing.
    pub next: Option<String>,
}

/// One promise.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guarantee {
    /// Its name.
    pub name: String,
    /// Whether it holds.
    pub holds: Holds,
    /// What is promised.
    pub promise: String,
    /// How it is kept, how far, or why it is not.
    pub how: String,
}

/// Whether a promise holds.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// It holds.
    Yes,
    /// It holds in part.
    Limited,
    /// That is not known.
    Unknown,
    /// It does not hold.
    No,
}

/// What the etcd of a fleet is like.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DoctorFleet {
    /// Where it is.
    pub url: String,
    /// The fleet.toml that says so.
    pub config: String,
    /// What was tried.
    pub rows: Vec<FleetRow>,
}

/// One fact about an etcd.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetRow {
    /// What it is about.
    pub what: String,
    /// Whether it is well; null: with limits.
    pub ok: Option<bool>,
    /// What was seen.
    pub detail: String,
}

/// How git was set up.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupGit {
    /// True if something was changed.
    pub changed: bool,
    /// The version of git.
    pub git: String,
    /// The configuration of git that has it.
    pub file: String,
    /// What git calls the driver.
    pub name: String,
    /// The command that git runs.
    pub driver: String,
    /// The line for .gitattributes.
    pub attribute: String,
    /// What to type to undo it.
    pub undo: String,
}

/// A fleet that was created.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetCreate {
    /// Where its etcd is.
    pub url: String,
    /// The random name of this fleet.
    pub fleet: String,
    /// True if this command created it.
    pub created: bool,
    /// The fleet.toml that says where it is.
    pub config: String,
    /// How long that took.
    pub waited_ms: u64,
}

/// A clone that has joined a fleet.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetJoin {
    /// The target with its scheme.
    pub target: String,
    /// The directory of the database.
    pub path: String,
    /// The name of the database in the fleet.
    pub name: String,
    /// The id of this clone.
    pub clone: String,
    /// The random name of the fleet.
    pub fleet: String,
    /// Where its etcd is.
    pub url: String,
    /// The other clones of the database.
    pub others: Vec<FleetClone>,
}

/// A clone of a database in a fleet.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetClone {
    /// The name of the database.
    pub name: String,
    /// The id of the clone.
    pub clone: String,
    /// Its host.
    pub host: String,
    /// Its directory there.
    pub path: String,
    /// The version of the beadlock that joined it.
    pub version: String,
    /// When it joined, by the clock of that host.
    pub since: Time,
    /// True if something of the fleet runs on that host now.
    pub seen: bool,
}

/// A clone that has left a fleet.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetLeave {
    /// The target with its scheme.
    pub target: String,
    /// The directory of the database.
    pub path: String,
    /// The name of the database in the fleet.
    pub name: Option<String>,
    /// True: it has.
    pub left: bool,
    /// True if the fleet was told.
    pub fleet_told: bool,
}

/// A fleet, as it is.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetStatus {
    /// Where its etcd is.
    pub url: String,
    /// The random name of this fleet.
    pub fleet: String,
    /// True if it was made a moment ago, and nobody begins anything yet.
    pub new: bool,
    /// Its databases.
    pub databases: Vec<FleetDatabase>,
    /// Its sessions.
    pub sessions: Vec<FleetSession>,
    /// True if there is more than was read.
    pub more: bool,
}

/// A database of a fleet.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetDatabase {
    /// Its name.
    pub name: String,
    /// The claim that stands on it.
    pub claim: Option<WatchedClaim>,
    /// The sessions of the agents that serve it.
    pub agents: Vec<String>,
    /// Its clones.
    pub clones: Vec<FleetClone>,
}

/// A claim in a fleet, and whether it is kept up.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedClaim {
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
    /// Whether the session was renewed while this command watched; null: it was not watched.
    pub renewed: Option<bool>,
}

/// A session of a fleet. What cannot be read is null.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetSession {
    /// Its id.
    pub session: String,
    /// Its host.
    pub host: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// The version of its beadlock.
    pub version: Option<String>,
    /// Since when, by the clock of that host.
    pub since: Option<Time>,
    /// Who has told it to end.
    pub broken: Option<FleetBroken>,
    /// The databases that it may sync.
    pub rights: Vec<String>,
}

/// Who has told a session to end.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetBroken {
    /// The user.
    pub by: String,
    /// The host of the user.
    pub host: String,
    /// Why, in the words of the user.
    pub why: String,
    /// When, by the clock of that host.
    pub at: Time,
}

/// A session that was told to end.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetEvict {
    /// Its id.
    pub session: String,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// True: it was told.
    pub marked: bool,
}

/// A fleet that was destroyed.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FleetDestroy {
    /// Where its etcd is.
    pub url: String,
    /// The random name that it had.
    pub fleet: String,
    /// True: it is gone.
    pub destroyed: bool,
}
