//! The status page of an agent, and the file of its `--config`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::words::{ReasonWord, StateWord, Time};
use super::{Described, Group};

pub(super) fn all() -> Vec<Described> {
    vec![
        Described::of::<AgentStatus>("agent-status", "The page /status of an agent", Group::Page),
        Described::of::<AgentToml>(
            "agent-toml",
            "The file of beadlock-agent --config",
            Group::Page,
        ),
    ]
}

/// How an agent and its databases fare.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentStatus {
    /// The version of the agent.
    pub version: String,
    /// Its PID.
    pub pid: u32,
    /// Its host.
    pub host: Option<String>,
    /// When it began.
    pub since: Time,
    /// True if it was told to end.
    pub ending: bool,
    /// How many databases it serves.
    pub served: u64,
    /// How many it does not.
    pub not_served: u64,
    /// How many are skipped.
    pub skipping: u64,
    /// How many databases are in each state.
    pub states: BTreeMap<String, u64>,
    /// How many databases are not listed.
    pub left_out: u64,
    /// The databases, the worst first.
    pub databases: Vec<AgentDatabase>,
}

/// A database of an agent.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentDatabase {
    /// Its directory.
    pub dir: String,
    /// Its state.
    pub state: StateWord,
    /// What the agent does with it now.
    pub phase: Phase,
    /// Since when it is in that state.
    pub since: Time,
    /// How long that is.
    pub age_ms: u64,
    /// Why, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub why: Option<String>,
    /// What to type.
    pub next: Option<String>,
    /// Commits that wait to be pushed.
    pub unpushed: Option<Unpushed>,
    /// Files that are not synced because of what they are.
    pub left_out: Vec<String>,
    /// When the agent has last pushed.
    pub last_push: Option<Time>,
    /// When the remote has last told where it is.
    pub as_of: Option<Time>,
    /// How long ago that is.
    pub as_of_age_ms: Option<u64>,
    /// The last cycle that has ended.
    pub last: Option<LastCycle>,
    /// The skips since the last cycle that ran.
    pub streak: Option<Streak>,
    /// The lock that it is skipped for.
    pub lock: Option<LockSummary>,
    /// When the next cycle is due; null while one runs, or where there is none to come.
    pub next_due_ms: Option<u64>,
}

/// What an agent does with a database.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The next cycle is not due.
    Waiting,
    /// The next cycle waits for its turn.
    Ready,
    /// A cycle runs.
    Running,
    /// Nothing.
    NotServing,
}

/// Commits that wait to be pushed.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpushed {
    /// How many.
    pub commits: u64,
    /// When the oldest was made.
    pub oldest: Option<Time>,
    /// How long ago that is.
    pub oldest_age_ms: Option<u64>,
}

/// A cycle that has ended.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LastCycle {
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub at: Time,
    /// Why it was skipped, in one word.
    pub reason: Option<ReasonWord>,
    /// The line of the log about that.
    pub message: Option<String>,
}

/// How a cycle has ended.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did its work.
    Complete,
    /// Not everything is at the remote.
    Incomplete,
    /// It failed.
    Failed,
    /// It was skipped.
    Skipped,
}

/// Skips in a row.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Streak {
    /// How many.
    pub skips: u64,
    /// For how long.
    pub age_ms: u64,
}

/// A lock that a database is skipped for. Long texts are cut.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LockSummary {
    /// The holder's name.
    pub holder: String,
    /// The holder's PID.
    pub pid: i64,
    /// The holder's host.
    pub host: String,
    /// Since when; empty where the record does not say.
    pub since: String,
}

/// A type of a configuration.
macro_rules! values {
    ($($(#[$doc:meta])* $Name:ident: $schema:tt;)*) => {$(
        $(#[$doc])*
        pub struct $Name;

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

values! {
    /// A duration, such as `10s` or `1h30m`; a number is seconds.
    Duration: { "type": ["string", "number"] };
    /// A size, such as `10MiB`; a number is bytes.
    Size: { "type": ["string", "integer"] };
    /// A number, in quotes or without.
    Count: { "type": ["string", "integer"] };
    /// A text that is not empty.
    Text: { "type": "string", "minLength": 1 };
}

/// Declares the file's two tables: the options of a database stand in both.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident: $Type:ty,)* ; $($(#[$of_agent:meta])* $agent:ident: $Of:ty,)*) => {
        /// What the agent serves and how. The keys are the names of its options. Those of a database may stand at the
        /// top, for all of them, and in a `[[database]]`.
        #[derive(JsonSchema)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct AgentToml {
            $($(#[$doc])* #[serde(skip_serializing_if = "left_out")] pub $name: $Type,)*
            $($(#[$of_agent])* #[serde(skip_serializing_if = "left_out")] pub $agent: $Of,)*
            /// The databases.
            #[serde(skip_serializing_if = "left_out")]
            pub database: Vec<DatabaseTable>,
        }

        /// A database, and what differs for it.
        #[derive(JsonSchema)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct DatabaseTable {
            /// Its directory.
            pub dir: Text,
            $($(#[$doc])* #[serde(skip_serializing_if = "left_out")] pub $name: $Type,)*
        }
    };
}

/// What a cycle does without `exec`.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Commit, pull and push through git.
    Git,
    /// Check, log, let go.
    None,
}

/// How lines are written.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// As text.
    Text,
    /// One JSON object a line.
    Json,
}

/// Levels of diagnostics.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Errors.
    Error,
    /// Warnings.
    Warn,
    /// What happens.
    Info,
    /// What it does.
    Debug,
    /// Every step.
    Trace,
}

tables! {
    /// The time between two cycles of a database.
    interval: Duration,
    /// How long nothing more must change before a change starts a cycle.
    debounce: Duration,
    /// The time between two fetches of a database through git.
    fetch_interval: Duration,
    /// What a cycle does without `exec`.
    action: Action,
    /// The command of a cycle, for `sh -c`.
    exec: Text,
    /// When a cycle's command is ended, with its whole process group.
    cycle_timeout: Duration,
    /// A database that is skipped for longer is warned about.
    skip_warn: Duration,
    /// Also remove locks whose holder is proved dead in other ways than by its PID.
    reap_proven_dead: bool,
    /// Sync a linked git worktree too.
    allow_worktree: bool,
    ;
    /// How many cycles may be at work at once.
    jobs: Count,
    /// How many fetches there may be at once.
    fetch_jobs: Count,
    /// One log for all databases, instead of a daemon.log in each.
    log_file: Text,
    /// How the lines of the log are written.
    log_format: LogFormat,
    /// A log that would grow above this is moved aside first.
    log_size: Size,
    /// How many older logs are kept.
    log_keep: Count,
    /// The level of the agent's own diagnostics on standard error.
    log_level: LogLevel,
    /// The file that gets what kept cycles from running, and which stale locks were removed.
    audit: Text,
    /// The address at which the agent answers over HTTP.
    listen: Text,
    /// How long a database may be in trouble before /readyz says 503.
    stale_after: Duration,
    /// Listen also at an address that other machines reach.
    listen_anywhere: bool,
    /// Every .beads below these directories is a database.
    root: Vec<Text>,
    /// Serve databases too that other users own or could replace.
    allow_foreign_owner: bool,
    /// Also serve a named directory that does not look like a database.
    any_directory: bool,
}
