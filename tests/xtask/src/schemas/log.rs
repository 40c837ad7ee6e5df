//! The answer of `beadlock log`.

use schemars::JsonSchema;

use super::words::{LogStateWord, StateWord, Time};

/// What one log says.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// The path; null for standard input.
    pub log: Option<String>,
    /// What was read, oldest first.
    pub files: Vec<String>,
    /// What was not read, because it is compressed.
    pub compressed: Vec<String>,
    /// The daemon that wrote it.
    pub writer: Option<LogWriter>,
    /// The zone that times without one were taken in.
    pub local_zone: Option<String>,
    /// The beginning of the window.
    pub since: Option<Time>,
    /// The end of the window.
    pub until: Option<Time>,
    /// How many lines there are.
    pub lines: LogLines,
    /// The runs of the agent.
    pub agents: LogAgents,
    /// What the log says of each database.
    pub databases: Vec<LogDatabase>,
}

/// Who wrote a log.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogWriter {
    /// beadlock-agent.
    Agent,
    /// A daemon of bd.
    Original,
}

/// Counts of lines.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogLines {
    /// All of them.
    pub all: u64,
    /// Those that no daemon wrote.
    pub other: u64,
    /// Those that were cut.
    pub cut: u64,
    /// Those outside of the window.
    pub outside: u64,
}

/// The runs of agents.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogAgents {
    /// How many began.
    pub starts: u64,
    /// How many ended in order.
    pub stops: u64,
    /// How many ended without a word.
    pub lost: u64,
    /// The last 1000 of them.
    pub runs: Vec<LogRun>,
}

/// One run of an agent.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogRun {
    /// The program.
    pub program: String,
    /// Its PID.
    pub pid: Option<i64>,
    /// Its host.
    pub host: Option<String>,
    /// The file that a daemon of bd serves.
    pub database: Option<String>,
    /// When it began.
    pub started: Option<Time>,
    /// When it wrote its last line.
    pub last: Time,
    /// How it ended.
    pub end: LogRunEnd,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// What its process does now; null where this machine cannot tell.
    pub process: Option<LogProcess>,
}

/// How a run has ended.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogRunEnd {
    /// It has not.
    Running,
    /// In order.
    Stopped,
    /// Without a word.
    Lost,
}

/// What a process does.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogProcess {
    /// It runs.
    Runs,
    /// A signal has stopped it.
    Stopped,
    /// There is none any more.
    Gone,
}

/// What a log says of one database.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogDatabase {
    /// Its directory; null where the log names none.
    pub database: Option<String>,
    /// Whether it syncs, since when not, and why.
    pub answer: LogAnswer,
    /// The time of the first line.
    pub first: Option<Time>,
    /// The time of the last line.
    pub last: Option<Time>,
    /// The cycles.
    pub cycles: LogCycles,
    /// How often it was skipped.
    pub skips: u64,
    /// For how long it did not sync.
    pub not_syncing_ms: u64,
    /// The holders that it was skipped for, the longest total first.
    pub holders: Vec<LogHolder>,
    /// When its lock could not be read: the last 100 times.
    pub unreadable: Vec<LogUnreadable>,
    /// Failures, the latest first.
    pub failures: Vec<LogMessage>,
    /// Notices, the latest first.
    pub notices: Vec<LogMessage>,
    /// Times without a line.
    pub gaps: LogGaps,
    /// How often the clock went back.
    pub clock_went_back: LogClock,
    /// Whether a daemon of bd looks only at changes.
    pub event_mode: Option<bool>,
    /// The branch that a daemon of bd commits to in a worktree of its own.
    pub sync_branch: Option<String>,
}

/// Whether a database syncs at the end of its log.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogAnswer {
    /// One word for it.
    pub state: LogStateWord,
    /// Whether it syncs; null where the log cannot say.
    pub syncing: Option<bool>,
    /// Since when it is so.
    pub since: Option<Time>,
    /// True if the log begins then: it may have been earlier.
    pub since_first_line: bool,
    /// For how long it is so.
    pub for_ms: Option<u64>,
    /// The log speaks for the time up to here.
    pub as_of: Option<Time>,
    /// The answer in one line.
    pub message: String,
    /// The holder that it is skipped for.
    pub holder: Option<String>,
    /// The PID of the holder.
    pub pid: Option<i64>,
    /// The host of the holder.
    pub host: Option<String>,
    /// Since when the holder has the lock.
    pub held_since: Option<String>,
    /// Why it is skipped, in one word.
    pub reason: Option<String>,
    /// Why, in a sentence.
    pub detail: Option<String>,
    /// The time without a line, where that is too long.
    pub silent_ms: Option<u64>,
    /// Further lines for people.
    pub more: Vec<String>,
    /// The commands to type.
    pub next: Vec<LogNext>,
    /// What the agent has reported last; null where it has not, or a later line says otherwise.
    pub reported: Option<LogReported>,
}

/// A command to type.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogNext {
    /// The command.
    pub command: String,
    /// What it is good for.
    pub why: String,
}

/// A state that the agent has reported.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogReported {
    /// The state.
    pub state: StateWord,
    /// Since when.
    pub since: Time,
    /// Why.
    pub why: Option<String>,
    /// What to type.
    pub next: Option<String>,
}

/// Counts of cycles.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogCycles {
    /// They did their work.
    pub complete: u64,
    /// Not everything is at the remote.
    pub incomplete: u64,
    /// They failed.
    pub failed: u64,
    /// They took too long.
    pub timed_out: u64,
    /// They have no end in the log.
    pub unfinished: u64,
    /// When the last one did its work.
    pub last_complete: Option<Time>,
    /// The usual time between two.
    pub usual_interval_ms: Option<u64>,
}

/// What a log says of one holder.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogHolder {
    /// The holder's name.
    pub holder: String,
    /// How often it claimed.
    pub claims: u64,
    /// How many cycles were skipped for it.
    pub skips: u64,
    /// The usual length of a claim.
    pub median_ms: Option<u64>,
    /// The longest one.
    pub longest_ms: Option<u64>,
    /// When that began.
    pub longest_since: Option<Time>,
    /// All of them together.
    pub total_ms: u64,
    /// When it was last seen.
    pub last: Option<Time>,
    /// How its claims have ended.
    pub ended: LogEnds,
}

/// How claims have ended.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogEnds {
    /// The lock went away.
    pub released: u64,
    /// The agent removed it.
    pub removed_stale: u64,
    /// Another claim took its place.
    pub taken_over: u64,
    /// The agent stopped first.
    pub agent_stopped: u64,
    /// They have not.
    pub open: u64,
}

/// A time in which a lock could not be read.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogUnreadable {
    /// Its beginning.
    pub since: Time,
    /// Its end.
    pub until: Time,
    /// Its length.
    pub for_ms: u64,
    /// How many cycles were skipped.
    pub skips: u64,
    /// What was wrong.
    pub detail: String,
    /// How it ended.
    pub end: LogEndWord,
}

/// How a streak of skips has ended.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogEndWord {
    /// The lock went away.
    Released,
    /// The agent removed it.
    RemovedStale,
    /// Another claim took its place.
    TakenOver,
    /// The agent stopped first.
    AgentStopped,
    /// It has not.
    Open,
}

/// A message that came more than once.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogMessage {
    /// The message.
    pub message: String,
    /// How often.
    pub count: u64,
    /// When it came first.
    pub first: Time,
    /// When it came last.
    pub last: Time,
}

/// Times without a line.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogGaps {
    /// From what length on they are listed.
    pub limit_ms: u64,
    /// The list.
    pub list: Vec<LogGap>,
}

/// A time without a line.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogGap {
    /// Its beginning.
    pub from: Time,
    /// Its end.
    pub to: Time,
    /// Its length.
    pub for_ms: u64,
    /// What it was.
    pub kind: LogGapKind,
}

/// The kinds of silence.
#[derive(JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "snake_case")]
pub enum LogGapKind {
    /// Nothing was said.
    Silent,
    /// A cycle was at work.
    InCycle,
    /// The agent was gone.
    Gone,
}

/// How often the clock went back.
#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogClock {
    /// How often.
    pub count: u64,
    /// By how much at most.
    pub most_ms: u64,
}
