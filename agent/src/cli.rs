//! The command line and its environment variables (DESIGN 8), and what becomes of them: [`Settings`].

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use beadlock_checker::database::{Database, Environment, NoDatabase};
use clap::builder::{BoolishValueParser, Resettable};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::log::{self, complain};
use beadlock_checker::duration;

/// A sync daemon that asks before every cycle and leaves alone what is claimed.
#[derive(Debug, Parser)]
#[command(name = "beadlock-agent", version, max_term_width = 100)]
struct Cli {
    /// A database: the directory that holds `.exclusive-lock`. May be given more than once [default: the nearest
    /// .beads up the tree]
    #[arg(long, value_name = "DIR", env = "BEADLOCK_AGENT_DB")]
    db: Vec<PathBuf>,
    /// The time between two cycles of a database
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = duration::parse_above_zero, env = "BEADLOCK_AGENT_INTERVAL")]
    interval: Duration,
    /// How long nothing more must change before a change starts a cycle
    #[arg(long, value_name = "DUR", default_value = "500ms", value_parser = duration::parse, env = "BEADLOCK_AGENT_DEBOUNCE")]
    debounce: Duration,
    /// One cycle for each database, then end: 0 every cycle ran, 4 one is held, 5 one could not be checked,
    /// 1 a cycle failed
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ONCE")]
    once: bool,
    /// How many cycles may run at once [default: the number of processors]
    #[arg(long, value_name = "N", env = "BEADLOCK_AGENT_JOBS")]
    jobs: Option<NonZeroUsize>,
    /// What a cycle does, when it is no command
    #[arg(long, value_name = "ACTION", value_enum, default_value = "git", env = "BEADLOCK_AGENT_ACTION")]
    action: BuiltIn,
    /// The command of a cycle, for `sh -c`, in the directory above the database, with BEADS_DIR set
    #[arg(long, value_name = "CMD", env = "BEADLOCK_AGENT_EXEC")]
    exec: Option<OsString>,
    /// Sync a linked git worktree too; what is committed goes to the branch that is checked out there
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ALLOW_WORKTREE")]
    allow_worktree: bool,
    /// When a cycle's command is ended, with its whole process group
    #[arg(long, value_name = "DUR", default_value = "2m", value_parser = duration::parse_above_zero, env = "BEADLOCK_AGENT_CYCLE_TIMEOUT")]
    cycle_timeout: Duration,
    /// One log for all databases, instead of a daemon.log in each
    #[arg(long, value_name = "PATH", env = "BEADLOCK_AGENT_LOG_FILE")]
    log_file: Option<PathBuf>,
    /// How the lines of the log are written
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "text",
        env = "BEADLOCK_AGENT_LOG_FORMAT"
    )]
    log_format: log::Format,
    /// A log that would grow above this is moved aside first: KiB, MiB, GiB or bytes
    #[arg(long, value_name = "SIZE", default_value = "10MiB", value_parser = log::parse_size, env = "BEADLOCK_AGENT_LOG_SIZE")]
    log_size: u64,
    /// How many older logs are kept, daemon.log.1 the newest; with 0 a full log is emptied
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(..=1000), env = "BEADLOCK_AGENT_LOG_KEEP")]
    log_keep: u32,
    /// Append what kept cycles from running, and which stale locks were removed, to this file: one JSON object a line
    #[arg(long, value_name = "FILE", env = "BEADLOCK_AGENT_AUDIT")]
    audit: Option<PathBuf>,
    /// Also remove locks whose holder is proved dead in other ways than by its PID
    #[arg(long)]
    reap_proven_dead: bool,
    /// Start cycles by the clock alone; for tests and for finding faults
    #[arg(long, hide = true)]
    no_watch: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BuiltIn {
    /// Commit, pull and push through git what changed in the database, and nothing else
    Git,
    /// Nothing: check, log, let go
    None,
}

/// What a cycle does when it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sync through git.
    Git,
    /// Check, log, let go.
    None,
    /// A command for `sh -c`.
    Exec(OsString),
}

/// No duration is longer: above this some clock or timer cannot count, and nobody can tell the difference.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// What the agent was told to do.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Each once.
    pub(crate) databases: Vec<Database>,
    pub(crate) interval: Duration,
    pub(crate) debounce: Duration,
    pub(crate) mode: Mode,
    pub(crate) jobs: NonZeroUsize,
    pub(crate) action: Action,
    pub(crate) allow_worktree: bool,
    pub(crate) cycle_timeout: Duration,
    pub(crate) log: log::Settings,
    pub(crate) audit: Option<PathBuf>,
    pub(crate) check: beadlock_checker::Options,
}

/// When cycles start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One for each database, then the end.
    Once,
    /// By the clock alone.
    Clock,
    /// By the clock, by changes, and when a lock goes away.
    Watch,
}

/// Reads the command line and looks for the databases. What is wrong has been said when it returns the exit code.
pub(crate) fn settings(args: impl IntoIterator<Item = OsString>) -> Result<Settings, ExitCode> {
    let matches = command().try_get_matches_from(args).map_err(|error| {
        let _ = error.print();
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| {
        let _ = error.print();
        ExitCode::from(2)
    })?;
    let action = action(&cli, &matches).map_err(|message| {
        complain(message);
        ExitCode::from(2)
    })?;
    let databases = databases(&cli.db).map_err(|error| {
        // The library's advice is for who claims.
        let message =
            error.to_string().replace("beadlock hold path/.beads -- …", "beadlock-agent --db path/.beads");
        complain(message);
        ExitCode::from(error.exit_code())
    })?;
    let processors = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    Ok(Settings {
        databases,
        interval: cli.interval.min(LONGEST),
        debounce: cli.debounce.min(LONGEST),
        mode: match (cli.once, cli.no_watch) {
            (true, _) => Mode::Once,
            (false, true) => Mode::Clock,
            (false, false) => Mode::Watch,
        },
        jobs: cli.jobs.unwrap_or_else(processors),
        action,
        allow_worktree: cli.allow_worktree,
        cycle_timeout: cli.cycle_timeout.min(LONGEST),
        log: log::Settings {
            shared: cli.log_file,
            format: cli.log_format,
            size: cli.log_size,
            keep: cli.log_keep,
        },
        audit: cli.audit.or_else(audit_of_all),
        check: beadlock_checker::Options { reap_proven_dead: cli.reap_proven_dead, dry_run: false },
    })
}

/// The audit file of the tools beside us, where ours is not named.
#[expect(clippy::disallowed_methods, reason = "the environment is read where the command line is")]
fn audit_of_all() -> Option<PathBuf> {
    std::env::var_os("BEADLOCK_AUDIT").filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The command line's grammar, without the environment variables that are set to nothing: empty is unset.
#[expect(clippy::disallowed_methods, reason = "the environment is read where the command line is")]
fn command() -> clap::Command {
    Cli::command().mut_args(|arg| {
        let is_empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        if is_empty { arg.env(Resettable::Reset) } else { arg }
    })
}

/// `--exec` and `--action` are opposites: the command line beats the environment, and both at once are a mistake.
fn action(cli: &Cli, matches: &ArgMatches) -> Result<Action, String> {
    let typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let built_in = match cli.action {
        BuiltIn::Git => Action::Git,
        BuiltIn::None => Action::None,
    };
    match &cli.exec {
        Some(_) if typed("exec") && typed("action") => {
            Err("--exec and --action exclude each other; leave one out".to_owned())
        }
        Some(_) if typed("action") => Ok(built_in),
        Some(command) if command.is_empty() => {
            Err("--exec has no command; type --exec './sync.sh'".to_owned())
        }
        Some(command) => Ok(Action::Exec(command.clone())),
        None => Ok(built_in),
    }
}

/// The databases named, each once, or the one that is found.
#[expect(clippy::disallowed_methods, reason = "the environment is read where the command line is")]
fn databases(named: &[PathBuf]) -> Result<Vec<Database>, NoDatabase> {
    let environment = Environment {
        target: std::env::var_os("BEADLOCK_TARGET"),
        beads_dir: std::env::var_os("BEADS_DIR"),
        cwd: std::env::current_dir().unwrap_or_default(),
    };
    if named.is_empty() {
        return Ok(vec![Database::find(&environment)?]);
    }
    let mut databases: Vec<Database> = Vec::with_capacity(named.len());
    for path in named {
        let database = Database::named(path, &environment)?;
        if !databases.iter().any(|known| known.is_same(&database)) {
            databases.push(database);
        }
    }
    Ok(databases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_of_ages_are_a_year() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(".beads");
        std::fs::create_dir(&dir).unwrap();
        let ages = "9223372036854775807s";
        let args = ["x", "--interval", ages, "--debounce", ages, "--cycle-timeout", ages, "--db"];
        let args = args.into_iter().map(OsString::from).chain([dir.into()]);
        let settings = settings(args).unwrap();
        assert_eq!([settings.interval, settings.debounce, settings.cycle_timeout], [LONGEST; 3]);
    }

    #[test]
    fn opposites_on_the_command_line_are_a_mistake() {
        let matches = |args: &[&str]| {
            let matches = Cli::command().try_get_matches_from(args).unwrap();
            (Cli::from_arg_matches(&matches).unwrap(), matches)
        };
        let (cli, matched) = matches(&["x", "--exec", "true"]);
        assert_eq!(action(&cli, &matched), Ok(Action::Exec("true".into())));
        let (cli, matched) = matches(&["x", "--exec", "true", "--action", "none"]);
        assert!(action(&cli, &matched).unwrap_err().contains("exclude each other"));
        let (cli, matched) = matches(&["x", "--exec", ""]);
        assert!(action(&cli, &matched).unwrap_err().contains("no command"));
        let (cli, matched) = matches(&["x"]);
        assert_eq!(action(&cli, &matched), Ok(Action::Git));
    }
}
