//! The options: each once, with its name, meaning, type, environment variable and built-in value.
//!
//! The command line, the environment and the file set these fields, and `--print-config` prints them. A new option is
//! one field here. The options of [`Policy`] may also stand in a `[[database]]`. The order of the fields is that of the
//! printed configuration; `display_order` is their place in `--help`.

use std::ffi::{OsStr, OsString};
use std::num::{NonZeroUsize, ParseIntError};
use std::path::PathBuf;
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::duration;
use beadlock_core::Options;
use beadlock_core::database::Directories;
use beadlock_trust::Owners;
use clap::builder::{BoolishValueParser, OsStringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};
use serde::{Deserialize, Serialize};

use super::value;
use crate::diagnostics::LogLevel;
use crate::log;

/// Longer durations are cut to this: above it some clock or timer overflows.
pub(super) const LONGEST: Duration = Duration::from_secs(365 * 86_400);

// How a database is served. (No documentation comment: clap would take it for the program's.)
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Policy {
    /// The time between two cycles of a database [default: 5s]
    #[arg(long, value_name = "DUR", value_parser = above_zero, env = "BEADLOCK_AGENT_INTERVAL")]
    #[arg(default_value = "5s", display_order = 5)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_above_zero")]
    pub(crate) interval: Duration,
    /// How long nothing more must change before a change starts a cycle [default: 100ms, and 500ms for one of many]
    #[arg(long, value_name = "DUR", value_parser = at_most_a_year, env = "BEADLOCK_AGENT_DEBOUNCE")]
    #[arg(display_order = 6)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_at_most_a_year")]
    pub(crate) debounce: Option<Duration>,
    /// The time between two fetches of a database through git [default: 10s while the remote moves, up to 5m when it is quiet]
    #[arg(long, value_name = "DUR", value_parser = above_zero, env = "BEADLOCK_AGENT_FETCH_INTERVAL")]
    #[arg(display_order = 9)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_above_zero")]
    pub(crate) fetch_interval: Option<Duration>,
    /// What a cycle does without --exec [default: git]
    #[arg(long, value_name = "ACTION", value_enum, env = "BEADLOCK_AGENT_ACTION")]
    #[arg(default_value = "git", display_order = 9)]
    #[serde(serialize_with = "value::write_name")]
    #[serde(deserialize_with = "value::read_name")]
    pub(super) action: BuiltInAction,
    /// The command of a cycle, for `sh -c`, in the directory above the database, with BEADS_DIR set
    #[arg(
        long,
        value_name = "CMD",
        env = "BEADLOCK_AGENT_EXEC",
        display_order = 10
    )]
    #[serde(serialize_with = "value::write_text")]
    #[serde(deserialize_with = "value::read_command")]
    pub(super) exec: Option<OsString>,
    /// When a cycle's command is ended, with its whole process group; in a fleet after 2m at most [default: 2m]
    #[arg(long, value_name = "DUR", value_parser = above_zero, env = "BEADLOCK_AGENT_CYCLE_TIMEOUT")]
    #[arg(default_value = "2m", display_order = 11)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_above_zero")]
    pub(crate) cycle_timeout: Duration,
    /// A database that is skipped for longer is warned about, once until it is synced again [default: 30m]
    #[arg(long, value_name = "DUR", value_parser = above_zero, env = "BEADLOCK_AGENT_SKIP_WARN")]
    #[arg(default_value = "30m", display_order = 12)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_above_zero")]
    pub(crate) skip_warn: Duration,
    /// Also remove locks whose holder is proved dead in other ways than by its PID
    #[arg(long, display_order = 21)]
    #[serde(deserialize_with = "value::read_flag")]
    pub(crate) reap_proven_dead: bool,
    /// Sync a linked git worktree too; what is committed goes to the branch that is checked out there
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ALLOW_WORKTREE")]
    #[arg(display_order = 24)]
    #[serde(deserialize_with = "value::read_flag")]
    pub(crate) allow_worktree: bool,
}

// The agent as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct AgentOptions {
    /// How many cycles may be at work at once; no check waits for them [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = jobs, env = "BEADLOCK_AGENT_JOBS")]
    #[arg(default_value_t = processors(), display_order = 8)]
    #[serde(deserialize_with = "value::read_jobs")]
    pub(crate) jobs: NonZeroUsize,
    /// How many fetches there may be at once; from one host it is always one at a time [default: 4]
    #[arg(long, value_name = "N", value_parser = jobs, env = "BEADLOCK_AGENT_FETCH_JOBS")]
    #[arg(default_value = "4", display_order = 8)]
    #[serde(deserialize_with = "value::read_fetch_jobs")]
    pub(crate) fetch_jobs: NonZeroUsize,
    /// One log for all databases, instead of a daemon.log in each
    #[arg(
        long,
        value_name = "PATH",
        env = "BEADLOCK_AGENT_LOG_FILE",
        display_order = 13
    )]
    #[serde(serialize_with = "value::write_text")]
    #[serde(deserialize_with = "value::read_path")]
    pub(super) log_file: Option<PathBuf>,
    /// How the lines of the log are written [default: text]
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        env = "BEADLOCK_AGENT_LOG_FORMAT"
    )]
    #[arg(default_value = "text", display_order = 14)]
    #[serde(serialize_with = "value::write_name")]
    #[serde(deserialize_with = "value::read_name")]
    pub(super) log_format: log::LogFormat,
    /// A log that would grow above this is moved aside first: KiB, MiB, GiB or bytes [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = log::parse_size, env = "BEADLOCK_AGENT_LOG_SIZE")]
    #[arg(default_value = "10MiB", display_order = 15)]
    #[serde(serialize_with = "value::write_size")]
    #[serde(deserialize_with = "value::read_size")]
    pub(super) log_size: u64,
    /// How many older logs are kept, daemon.log.1 the newest; with 0 a full log is emptied [default: 3]
    #[arg(long, value_name = "N", value_parser = log::parse_keep, env = "BEADLOCK_AGENT_LOG_KEEP")]
    #[arg(default_value = "3", display_order = 16)]
    #[serde(deserialize_with = "value::read_keep")]
    pub(super) log_keep: u32,
    /// Write the agent's own diagnostics of this level, and of those above it, to standard error. The logs of the
    /// databases stay as they are [default: warn]
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        env = "BEADLOCK_AGENT_LOG_LEVEL"
    )]
    #[arg(default_value = "warn", display_order = 17)]
    #[serde(serialize_with = "value::write_name")]
    #[serde(deserialize_with = "value::read_name")]
    pub(crate) log_level: LogLevel,
    /// Append what kept cycles from running, and which stale locks were removed, to this file: one JSON object a line
    #[arg(
        long,
        value_name = "FILE",
        env = "BEADLOCK_AGENT_AUDIT",
        display_order = 18
    )]
    #[serde(serialize_with = "value::write_text")]
    #[serde(deserialize_with = "value::read_path")]
    pub(crate) audit: Option<PathBuf>,
    /// Answer /metrics, /healthz, /readyz and /status over HTTP at this address: IP:PORT of this machine alone, or
    /// unix:PATH, which nobody but this user may ask
    #[arg(long, value_name = "ADDR", value_parser = address(), env = "BEADLOCK_AGENT_LISTEN")]
    #[arg(display_order = 19)]
    #[serde(serialize_with = "value::write_address")]
    #[serde(deserialize_with = "value::read_address")]
    pub(crate) listen: Option<Address>,
    /// How long a database may be local_only, behind, failed or not_serving before /readyz says 503 [default: 15m]
    #[arg(long, value_name = "DUR", value_parser = above_zero, env = "BEADLOCK_AGENT_STALE_AFTER")]
    #[arg(default_value = "15m", display_order = 19)]
    #[serde(serialize_with = "value::write_duration")]
    #[serde(deserialize_with = "value::read_above_zero")]
    pub(crate) stale_after: Duration,
    /// Listen also at an address that other machines reach: they can read there which databases and lock holders there
    /// are
    #[arg(long, display_order = 20)]
    #[serde(deserialize_with = "value::read_flag")]
    pub(crate) listen_anywhere: bool,
    /// Every .beads below this directory is a database, for as long as it is there. May be given more than once, and
    /// adds to those of --config
    #[arg(
        long,
        value_name = "DIR",
        env = "BEADLOCK_AGENT_ROOT",
        display_order = 2
    )]
    #[serde(serialize_with = "value::write_paths", skip_deserializing)]
    pub(crate) root: Vec<PathBuf>,
    /// Serve databases too that other users own or could replace: the agent may run their commands
    #[arg(long, display_order = 22)]
    #[serde(deserialize_with = "value::read_flag")]
    pub(crate) allow_foreign_owner: bool,
    /// Also serve a named directory that does not look like a database: it is not called .beads, is not $BEADS_DIR,
    /// and has no
    /// *.db, *.sqlite*, *.jsonl or redirect in it
    #[arg(long, display_order = 23)]
    #[serde(deserialize_with = "value::read_flag")]
    pub(crate) any_directory: bool,
}

/// An action by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum BuiltInAction {
    /// Commit, pull and push through git what changed in the database, and nothing else
    #[default]
    Git,
    /// Nothing: check, log, let go
    None,
}

/// The work of a cycle, done when the database is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CycleAction<'a> {
    Git,
    /// Check and log only.
    None,
    /// A command for `sh -c`.
    Exec(&'a OsStr),
}

impl CycleAction<'_> {
    /// The name of the action, for the diagnostics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::None => "none",
            Self::Exec(_) => "exec",
        }
    }
}

impl Policy {
    /// The options of the check before a cycle.
    pub(crate) fn check(&self) -> Options {
        Options {
            reap_proven_dead: self.reap_proven_dead,
            ..Options::default()
        }
    }

    /// `--exec` and `--action` are one setting.
    pub(crate) fn action(&self) -> CycleAction<'_> {
        match (&self.exec, self.action) {
            (Some(command), _) => CycleAction::Exec(command),
            (None, BuiltInAction::Git) => CycleAction::Git,
            (None, BuiltInAction::None) => CycleAction::None,
        }
    }
}

impl AgentOptions {
    /// Whose databases are served.
    pub(crate) fn owners(&self) -> Owners {
        Owners::of_this_user(self.allow_foreign_owner)
    }

    /// Which named directories are taken for databases.
    pub(super) fn directories(&self) -> Directories {
        Directories::any(self.any_directory)
    }

    pub(super) fn log(&self, may_become_several: bool) -> log::LogSettings {
        log::LogSettings {
            shared: self.log_file.clone(),
            format: self.log_format,
            size: self.log_size,
            keep: self.log_keep,
            may_become_several,
        }
    }
}

/// The options of [`Policy`] or of [`AgentOptions`], in their order.
pub(super) fn options<T: Args>() -> Vec<Arg> {
    T::augment_args(Command::new("options"))
        .get_arguments()
        .cloned()
        .collect()
}

/// The names of these options.
pub(super) fn names<T: Args>() -> Vec<String> {
    options::<T>()
        .iter()
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect()
}

pub(super) fn above_zero(text: &str) -> Result<Duration, String> {
    duration::parse_above_zero(text).map(|duration| duration.min(LONGEST))
}

pub(super) fn at_most_a_year(text: &str) -> Result<Duration, String> {
    duration::parse(text).map(|duration| duration.min(LONGEST))
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
}

/// TOML has no number above 2^63 - 1, and `--print-config` prints the jobs as a number.
pub(super) fn jobs(text: &str) -> Result<NonZeroUsize, ParseIntError> {
    let most = NonZeroUsize::new(isize::MAX.unsigned_abs()).unwrap_or(NonZeroUsize::MIN);
    text.parse().map(|jobs: NonZeroUsize| jobs.min(most))
}

fn processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
