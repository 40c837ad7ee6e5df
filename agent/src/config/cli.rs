//! The command line and its environment variables (docs/design.md#settings): what is said there, and nothing of what
//! becomes of it.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use beadlock_checker::address::Address;
use beadlock_checker::database::Environment;
use beadlock_checker::duration;
use clap::builder::{BoolishValueParser, OsStringValueParser, Resettable, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};

use super::layer::{AgentLayer, PolicyLayer};
use super::policy::Action;
use crate::diagnostics::LogLevel;
use crate::log::{self, complain};

/// A sync daemon that asks before every cycle and leaves alone what is claimed.
#[derive(Debug, Parser)]
#[command(name = "beadlock-agent", version, max_term_width = 100)]
struct Cli {
    /// A database: the directory that holds `.exclusive-lock`. May be given more than once, and adds to those of
    /// --config [default: without --root and others the nearest .beads up the tree]
    #[arg(long, value_name = "DIR", env = "BEADLOCK_AGENT_DB")]
    db: Vec<PathBuf>,
    /// Every .beads below this directory is a database, for as long as it is there. May be given more than once, and
    /// adds to those of --config
    #[arg(long, value_name = "DIR", env = "BEADLOCK_AGENT_ROOT")]
    root: Vec<PathBuf>,
    /// Databases and settings, in TOML; read again on SIGHUP. What is said here and in the environment beats it
    #[arg(long, value_name = "FILE", env = "BEADLOCK_AGENT_CONFIG")]
    config: Option<PathBuf>,
    /// Print what would hold, as a file for --config, and end
    #[arg(long)]
    print_config: bool,
    /// The time between two cycles of a database [default: 5s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero, env = "BEADLOCK_AGENT_INTERVAL")]
    interval: Option<Duration>,
    /// How long nothing more must change before a change starts a cycle [default: 500ms]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, env = "BEADLOCK_AGENT_DEBOUNCE")]
    debounce: Option<Duration>,
    /// One cycle for each database, then end: 0 every cycle ran, 4 one is held, 5 one could not be checked,
    /// 1 a cycle failed, or there was no database to serve
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ONCE")]
    once: bool,
    /// How many cycles may be at work at once; no check waits for them [default: the number of processors]
    #[arg(long, value_name = "N", env = "BEADLOCK_AGENT_JOBS")]
    jobs: Option<NonZeroUsize>,
    /// What a cycle does, when it is no command [default: git]
    #[arg(long, value_name = "ACTION", value_enum, env = "BEADLOCK_AGENT_ACTION")]
    action: Option<BuiltIn>,
    /// The command of a cycle, for `sh -c`, in the directory above the database, with BEADS_DIR set
    #[arg(long, value_name = "CMD", env = "BEADLOCK_AGENT_EXEC")]
    exec: Option<OsString>,
    /// When a cycle's command is ended, with its whole process group [default: 2m]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero, env = "BEADLOCK_AGENT_CYCLE_TIMEOUT")]
    cycle_timeout: Option<Duration>,
    /// A database that is skipped for longer is warned about, once until it is synced again [default: 30m]
    #[arg(long, value_name = "DUR", value_parser = duration::parse_above_zero, env = "BEADLOCK_AGENT_SKIP_WARN")]
    skip_warn: Option<Duration>,
    /// One log for all databases, instead of a daemon.log in each
    #[arg(long, value_name = "PATH", env = "BEADLOCK_AGENT_LOG_FILE")]
    log_file: Option<PathBuf>,
    /// How the lines of the log are written [default: text]
    #[arg(long, value_name = "FORMAT", value_enum, env = "BEADLOCK_AGENT_LOG_FORMAT")]
    log_format: Option<log::Format>,
    /// A log that would grow above this is moved aside first: KiB, MiB, GiB or bytes [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = log::parse_size, env = "BEADLOCK_AGENT_LOG_SIZE")]
    log_size: Option<u64>,
    /// How many older logs are kept, daemon.log.1 the newest; with 0 a full log is emptied [default: 3]
    #[arg(long, value_name = "N", value_parser = log::parse_keep, env = "BEADLOCK_AGENT_LOG_KEEP")]
    log_keep: Option<u32>,
    /// Write the agent's own diagnostics of this level, and of those above it, to standard error. The logs of the
    /// databases stay as they are [default: warn]
    #[arg(long, value_name = "LEVEL", value_enum, env = "BEADLOCK_AGENT_LOG_LEVEL")]
    log_level: Option<LogLevel>,
    /// Append what kept cycles from running, and which stale locks were removed, to this file: one JSON object a line
    #[arg(long, value_name = "FILE", env = "BEADLOCK_AGENT_AUDIT")]
    audit: Option<PathBuf>,
    /// Answer /metrics, /healthz and /status over HTTP at this address: IP:PORT of this machine alone, or unix:PATH, which
    /// nobody but this user may ask
    #[arg(long, value_name = "ADDR", value_parser = address(), env = "BEADLOCK_AGENT_LISTEN")]
    listen: Option<Address>,
    /// Listen also at an address that other machines reach: whoever does learns which databases there are and who
    /// holds them
    #[arg(long)]
    listen_anywhere: bool,
    /// Also remove locks whose holder is proved dead in other ways than by its PID
    #[arg(long)]
    reap_proven_dead: bool,
    /// Serve databases too that other users own or could replace: the agent may run their commands
    #[arg(long)]
    allow_foreign_owner: bool,
    /// Also serve a named directory that does not look like a database: it is not called .beads, is not $BEADS_DIR, and has no
    /// *.db, *.sqlite*, *.jsonl or redirect in it
    #[arg(long)]
    any_directory: bool,
    /// Sync a linked git worktree too; what is committed goes to the branch that is checked out there
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ALLOW_WORKTREE")]
    allow_worktree: bool,
    /// Start cycles by the clock alone; for tests and for finding faults
    #[arg(long, hide = true)]
    no_watch: bool,
    /// Start the first cycles of all databases at once, however many there are; for tests and for finding faults
    #[arg(long, hide = true)]
    no_spread: bool,
}

/// An action by its name.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BuiltIn {
    /// Commit, pull and push through git what changed in the database, and nothing else
    Git,
    /// Nothing: check, log, let go
    None,
}

impl From<BuiltIn> for Action {
    fn from(named: BuiltIn) -> Self {
        match named {
            BuiltIn::Git => Self::Git,
            BuiltIn::None => Self::None,
        }
    }
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

/// What the command line and the environment say.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) databases: Vec<PathBuf>,
    pub(crate) roots: Vec<PathBuf>,
    /// The file, and whether what would hold is to be printed only.
    pub(crate) config: Option<PathBuf>,
    pub(crate) print_config: bool,
    pub(crate) mode: Mode,
    /// Whether the first cycles of many databases are spread over the interval.
    pub(crate) spreads: bool,
    pub(crate) agent: AgentLayer,
    pub(crate) policy: PolicyLayer,
    /// The audit file of the tools beside us, for where ours is named nowhere.
    pub(crate) audit_of_all: Option<PathBuf>,
    pub(crate) environment: Environment,
}

impl Typed {
    /// Reads them. What is wrong has been said when it returns the exit code.
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        let say = |error: clap::Error| {
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        };
        let matches = command().try_get_matches_from(args).map_err(say)?;
        let cli = Cli::from_arg_matches(&matches).map_err(say)?;
        typed(cli, &matches).map_err(|message| {
            complain(message);
            ExitCode::from(2)
        })
    }
}

fn typed(cli: Cli, matches: &ArgMatches) -> Result<Typed, String> {
    // A flag that is not given says nothing; one in the environment may say no.
    let flag = |id, is_set| (matches.value_source(id) != Some(ValueSource::DefaultValue)).then_some(is_set);
    let action = action(&cli, matches)?;
    let (audit_of_all, environment) = surroundings();
    Ok(Typed {
        databases: cli.db,
        roots: cli.root,
        config: cli.config,
        print_config: cli.print_config,
        mode: match (cli.once, cli.no_watch) {
            (true, _) => Mode::Once,
            (false, true) => Mode::Clock,
            (false, false) => Mode::Watch,
        },
        spreads: !(cli.once || cli.no_spread),
        agent: AgentLayer {
            jobs: cli.jobs,
            log_file: cli.log_file,
            log_format: cli.log_format,
            log_size: cli.log_size,
            log_keep: cli.log_keep,
            log_level: cli.log_level,
            audit: cli.audit,
            listen: cli.listen,
            listen_anywhere: flag("listen_anywhere", cli.listen_anywhere),
            allow_foreign_owner: flag("allow_foreign_owner", cli.allow_foreign_owner),
            any_directory: flag("any_directory", cli.any_directory),
        },
        policy: PolicyLayer {
            interval: cli.interval,
            debounce: cli.debounce,
            action,
            cycle_timeout: cli.cycle_timeout,
            skip_warn: cli.skip_warn,
            reap_proven_dead: flag("reap_proven_dead", cli.reap_proven_dead),
            allow_worktree: flag("allow_worktree", cli.allow_worktree),
        },
        audit_of_all,
        environment,
    })
}

#[expect(clippy::disallowed_methods, reason = "the environment is read where the command line is")]
fn surroundings() -> (Option<PathBuf>, Environment) {
    let audit = std::env::var_os("BEADLOCK_AUDIT").filter(|file| !file.is_empty()).map(PathBuf::from);
    let environment = Environment {
        target: std::env::var_os("BEADLOCK_TARGET"),
        beads_dir: std::env::var_os("BEADS_DIR"),
        cwd: std::env::current_dir().unwrap_or_default(),
    };
    (audit, environment)
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
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
fn action(cli: &Cli, matches: &ArgMatches) -> Result<Option<Action>, String> {
    let typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    match (&cli.exec, cli.action) {
        (Some(_), Some(_)) if typed("exec") && typed("action") => {
            Err("--exec and --action exclude each other; leave one out".to_owned())
        }
        (Some(_), Some(named)) if typed("action") => Ok(Some(named.into())),
        (Some(command), _) => {
            let action = Action::exec(command.clone());
            action.map(Some).ok_or_else(|| "--exec has no command; type --exec './sync.sh'".to_owned())
        }
        (None, named) => Ok(named.map(Action::from)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What is typed says, in an empty environment.
    pub(crate) fn typed_of(args: &[&str]) -> Result<Typed, String> {
        let args = ["beadlock-agent"].iter().chain(args);
        let command = Cli::command().mut_args(|arg| arg.env(Resettable::Reset));
        let matches = command.try_get_matches_from(args).map_err(|error| error.to_string())?;
        typed(Cli::from_arg_matches(&matches).unwrap(), &matches)
    }

    /// The names of all options, without their dashes.
    pub(crate) fn options() -> Vec<String> {
        Cli::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_not_typed_says_nothing() {
        let typed = typed_of(&[]).unwrap();
        assert_eq!((typed.policy, typed.agent), (PolicyLayer::default(), AgentLayer::default()));
        let typed = typed_of(&["--allow-worktree", "--reap-proven-dead", "--allow-foreign-owner"]).unwrap();
        assert_eq!((typed.policy.allow_worktree, typed.policy.reap_proven_dead), (Some(true), Some(true)));
        assert_eq!(typed.agent.allow_foreign_owner, Some(true));
    }

    #[test]
    fn opposites_on_the_command_line_are_a_mistake() {
        let action = |args: &[&str]| typed_of(args).map(|typed| typed.policy.action);
        assert_eq!(action(&["--exec", "true"]), Ok(Some(Action::Exec("true".into()))));
        assert_eq!(action(&["--action", "none"]), Ok(Some(Action::None)));
        assert_eq!(action(&[]), Ok(None));
        let both = action(&["--exec", "true", "--action", "none"]).unwrap_err();
        assert!(both.contains("exclude each other"), "{both}");
        assert!(action(&["--exec", ""]).unwrap_err().contains("no command"));
    }
}
