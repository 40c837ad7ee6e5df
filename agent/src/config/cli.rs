//! The command line and its environment variables (docs/design.md#settings): what is said there, and nothing of what
//! becomes of it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use beadlock_checker::internal::database::Environment;
use clap::builder::{BoolishValueParser, Resettable};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser};

use super::given::GivenOptions;
use super::options::{Agent, Policy};
use crate::log::complain;

const NAME: &str = "beadlock-agent";

/// A sync daemon that asks before every cycle and leaves alone what is claimed.
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    agent: Agent,
    /// A database: the directory that holds `.exclusive-lock`. May be given more than once, and adds to those of
    /// --config [default: without --root and others the nearest .beads up the tree]
    #[arg(long, value_name = "DIR", env = "BEADLOCK_AGENT_DB", display_order = 1)]
    db: Vec<PathBuf>,
    /// Databases and settings, in TOML; read again on SIGHUP. What is said here and in the environment beats it
    #[arg(long, value_name = "FILE", env = "BEADLOCK_AGENT_CONFIG", display_order = 3)]
    config: Option<PathBuf>,
    /// Print what would hold, as a file for --config, and end
    #[arg(long, display_order = 4)]
    print_config: bool,
    /// One cycle for each database, then end: 0 every cycle ran, 4 one is held, 5 one could not be checked,
    /// 1 a cycle failed, or there was no database to serve
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ONCE", display_order = 7)]
    once: bool,
    /// Start cycles by the clock alone; for tests and for finding faults
    #[arg(long, hide = true)]
    no_watch: bool,
    /// Start the first cycles of all databases at once, however many there are; for tests and for finding faults
    #[arg(long, hide = true)]
    no_spread: bool,
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
pub(crate) struct CommandLine {
    pub(crate) databases: Vec<PathBuf>,
    pub(crate) roots: Vec<PathBuf>,
    /// The file, and whether what would hold is to be printed only.
    pub(crate) config: Option<PathBuf>,
    pub(crate) print_config: bool,
    pub(crate) mode: Mode,
    /// Whether the first cycles of many databases are spread over the interval.
    pub(crate) spreads: bool,
    /// What is built in.
    pub(super) agent: Agent,
    pub(super) policy: Policy,
    /// What was given.
    pub(super) said: GivenOptions,
    /// The audit file of the tools beside us, for where ours is named nowhere.
    pub(crate) audit_of_all: Option<PathBuf>,
    pub(crate) environment: Environment,
}

impl CommandLine {
    /// Reads them. What is wrong has been said when it returns the exit code.
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, ExitCode> {
        let say = |error: clap::Error| {
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        };
        let matches = command().try_get_matches_from(args).map_err(say)?;
        typed(matches).map_err(say)?.map_err(|message| {
            complain(message);
            ExitCode::from(2)
        })
    }
}

fn typed(mut matches: ArgMatches) -> Result<Result<CommandLine, String>, clap::Error> {
    let Cli { policy, agent, .. } = Cli::from_arg_matches(&grammar().try_get_matches_from([NAME])?)?;
    let cli = Cli::from_arg_matches(&matches)?;
    if let Err(message) = choose_action(&mut matches, &cli.policy) {
        return Ok(Err(message));
    }
    let (audit_of_all, environment) = surroundings();
    Ok(Ok(CommandLine {
        databases: cli.db,
        roots: cli.agent.root,
        config: cli.config,
        print_config: cli.print_config,
        mode: match (cli.once, cli.no_watch) {
            (true, _) => Mode::Once,
            (false, true) => Mode::Clock,
            (false, false) => Mode::Watch,
        },
        spreads: !(cli.once || cli.no_spread),
        agent,
        policy,
        said: GivenOptions::of(matches),
        audit_of_all,
        environment,
    }))
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

/// The command line's grammar, without the environment variables that are set to nothing: empty is unset.
#[expect(clippy::disallowed_methods, reason = "the environment is read where the command line is")]
fn command() -> clap::Command {
    Cli::command().mut_args(|arg| {
        let is_empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
        let arg = without_built_in(arg);
        if is_empty { arg.env(Resettable::Reset) } else { arg }
    })
}

/// Its words say already what is built in.
fn without_built_in(arg: Arg) -> Arg {
    let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
    if is_flag { arg } else { arg.hide_default_value(true) }
}

/// The grammar alone: no environment variables. Built-in values are told in the words of each option.
pub(super) fn grammar() -> clap::Command {
    Cli::command().mut_args(|arg| without_built_in(arg).env(Resettable::Reset))
}

/// `--exec` and `--action` are opposites: the command line beats the environment, and both at once are a mistake.
fn choose_action(matches: &mut ArgMatches, policy: &Policy) -> Result<(), String> {
    let action = matches.value_source("action").filter(|source| *source != ValueSource::DefaultValue);
    let loser = match (matches.value_source("exec"), action) {
        (Some(ValueSource::CommandLine), Some(ValueSource::CommandLine)) => {
            return Err("--exec and --action exclude each other; leave one out".to_owned());
        }
        (Some(_), Some(ValueSource::CommandLine)) => "exec",
        (Some(_), _) if policy.exec.as_ref().is_some_and(|command| command.is_empty()) => {
            return Err("--exec has no command; type --exec './sync.sh'".to_owned());
        }
        (Some(_), _) => "action",
        (None, _) => return Ok(()),
    };
    let _ = matches.try_clear_id(loser);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::options::Action;

    /// What is typed says, in an empty environment.
    pub(crate) fn typed_of(args: &[&str]) -> Result<CommandLine, String> {
        let args = [NAME].iter().chain(args);
        let matches = grammar().try_get_matches_from(args).map_err(|error| error.to_string())?;
        typed(matches).unwrap()
    }

    impl CommandLine {
        /// What holds without a file.
        pub(crate) fn alone(&self) -> (Policy, Agent) {
            (self.policy.clone().of([&self.said]), self.agent.clone().of([&self.said]))
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_not_typed_says_nothing() {
        let typed = typed_of(&[]).unwrap();
        assert_eq!(typed.alone(), (typed.policy.clone(), typed.agent.clone()));
        let said = typed_of(&["--allow-worktree", "--reap-proven-dead", "--allow-foreign-owner"]).unwrap();
        let (policy, agent) = said.alone();
        assert!(policy.allow_worktree && policy.reap_proven_dead && agent.allow_foreign_owner);
        let (mut below, mut whole) = (policy.clone(), agent.clone());
        (below.debounce, whole.log_keep) = (std::time::Duration::ZERO, 9);
        assert_eq!((below.clone().of([&typed.said]), whole.clone().of([&typed.said])), (below, whole));
    }

    #[test]
    fn opposites_on_the_command_line_are_a_mistake() {
        let policy = |args: &[&str]| typed_of(args).map(|typed| typed.alone().0);
        assert_eq!(policy(&["--exec", "true"]).unwrap().action(), Action::Exec("true".as_ref()));
        assert_eq!(policy(&["--action", "none"]).unwrap().action(), Action::None);
        assert_eq!(policy(&[]).unwrap().action(), Action::Git);
        let both = policy(&["--exec", "true", "--action", "none"]).unwrap_err();
        assert!(both.contains("exclude each other"), "{both}");
        assert!(policy(&["--exec", ""]).unwrap_err().contains("no command"));
    }

    #[test]
    fn durations_of_ages_are_a_year() {
        let policy = typed_of(&["--interval", "30000h", "--debounce", "30000h"]).unwrap().alone().0;
        assert_eq!([policy.interval, policy.debounce], [crate::config::options::LONGEST; 2]);
    }
}
