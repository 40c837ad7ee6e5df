//! The command line and its environment variables (docs/design.md#settings).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;

use beadlock_core::database::DatabaseVariables;
use clap::builder::{BoolishValueParser, Resettable};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser};
use clap_complete::Shell;

use super::help;
use super::options::{AgentOptions, BuiltInAction, Policy};
use super::page::ConfigFailure;
use crate::fleet::FleetVariables;
use crate::log::complain;

pub(super) const NAME: &str = "beadlock-agent";

/// A sync daemon that asks before every cycle and leaves alone what is claimed.
#[derive(Debug, Parser)]
#[command(name = NAME, version, long_version = env!("LONG_VERSION"))]
pub(crate) struct AgentCli {
    #[command(flatten)]
    pub(super) policy: Policy,
    #[command(flatten)]
    pub(super) agent: AgentOptions,
    /// A database: the directory that holds `.exclusive-lock`; any other one is dir:PATH, with --exec or --action none.
    /// May be given more than once, and adds to those of --config [default: without --root and others the nearest
    /// .beads up the tree]
    #[arg(long, value_name = "DIR", env = "BEADLOCK_AGENT_DB", display_order = 1)]
    pub(super) db: Vec<PathBuf>,
    /// Databases and settings, in TOML; read again on SIGHUP. What is said here and in the environment beats it
    #[arg(
        long,
        value_name = "FILE",
        env = "BEADLOCK_AGENT_CONFIG",
        display_order = 3
    )]
    pub(super) config: Option<PathBuf>,
    /// Print what would hold, as a file for --config, and end
    #[arg(long, display_order = 4)]
    pub(crate) print_config: bool,
    /// One cycle for each database, then end: 0 every cycle ran, 4 one is held, 5 one could not be checked,
    /// 1 a cycle failed, or there was no database to serve
    #[arg(long, value_parser = BoolishValueParser::new(), env = "BEADLOCK_AGENT_ONCE", display_order = 7)]
    once: bool,
    /// Write the manual pages beadlock-agent(8) and beadlock-agent.toml(5) into DIR, and end
    #[arg(long, value_name = "DIR", display_order = 30)]
    pub(super) man: Option<PathBuf>,
    /// Print the completion script of a shell, bash, zsh or fish, and end
    #[arg(
        long,
        value_name = "SHELL",
        hide_possible_values = true,
        display_order = 31
    )]
    pub(super) completions: Option<Shell>,
    /// Start cycles by the clock alone; for tests and for finding faults
    #[arg(long, hide = true)]
    no_watch: bool,
    /// Start the first cycles of all databases at once, however many there are; for tests and for finding faults
    #[arg(long, hide = true)]
    no_spread: bool,
}

/// When cycles start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// One cycle for each database; then the agent ends.
    Once,
    /// By the clock alone.
    Clock,
    /// By the clock, by changes, and when a lock goes away.
    Watch,
}

/// The command line and the environment.
#[derive(Debug)]
pub(crate) struct CommandLine {
    pub(crate) cli: AgentCli,
    /// The options that were typed or are in the environment, but for the roots: those of all places add up.
    given: ArgMatches,
    /// The audit file of beadlock's tools, used when the agent's own is not named anywhere.
    pub(super) audit_of_all: Option<PathBuf>,
    pub(crate) environment: DatabaseVariables,
    /// Where the fleet is.
    pub(crate) fleet: FleetVariables,
}

impl CommandLine {
    /// Reads the command line. On a mistake it prints the message and returns the exit code.
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

    /// Nothing but `--config` with this file, in an empty environment.
    pub(super) fn of_file(cwd: &Path, file: &Path) -> Result<Self, ConfigFailure> {
        let mut config = OsString::from("--config=");
        config.push(file);
        let wrong = |message| ConfigFailure::new(2, message);
        let matches = grammar().try_get_matches_from([NAME.into(), config]);
        let typed = matches.and_then(typed);
        let mut typed = typed
            .map_err(|error| wrong(error.to_string()))?
            .map_err(wrong)?;
        typed.audit_of_all = None;
        typed.environment = DatabaseVariables {
            cwd: cwd.to_owned(),
            ..DatabaseVariables::default()
        };
        Ok(typed)
    }

    pub(super) fn mode(&self) -> RunMode {
        match (self.cli.once, self.cli.no_watch) {
            (true, _) => RunMode::Once,
            (false, true) => RunMode::Clock,
            (false, false) => RunMode::Watch,
        }
    }

    /// Whether the first cycles of many databases are spread over the interval.
    pub(super) fn spreads(&self) -> bool {
        !(self.cli.once || self.cli.no_spread)
    }

    /// The policy of a database: that of the file, overridden by the command line and the environment.
    pub(super) fn policy(&self, of_file: &Policy) -> Policy {
        let mut policy = of_file.clone();
        // They are one setting: each overrides the other.
        if self.given.contains_id("exec") || self.given.contains_id("action") {
            (policy.exec, policy.action) = (None, BuiltInAction::default());
        }
        // This cannot fail: the values have been read once.
        let _ = policy.update_from_arg_matches(&self.given);
        policy
    }

    /// The options of the agent, likewise.
    pub(super) fn agent(&self, of_file: &AgentOptions) -> AgentOptions {
        let mut agent = of_file.clone();
        let _ = agent.update_from_arg_matches(&self.given);
        agent
    }
}

/// Made once: to make the grammar costs more than to read by it.
static BUILT_IN: LazyLock<AgentCli> = LazyLock::new(|| {
    let matches = grammar().try_get_matches_from([NAME]);
    #[expect(
        clippy::expect_used,
        reason = "no option is required, and a test reads them"
    )]
    let built_in = matches
        .and_then(|matches| AgentCli::from_arg_matches(&matches))
        .expect("the built-in values");
    built_in
});

impl Default for Policy {
    fn default() -> Self {
        BUILT_IN.policy.clone()
    }
}

impl Default for AgentOptions {
    fn default() -> Self {
        BUILT_IN.agent.clone()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment is read where the command line is"
)]
fn typed(mut matches: ArgMatches) -> Result<Result<CommandLine, String>, clap::Error> {
    let cli = AgentCli::from_arg_matches(&matches)?;
    if let Err(message) = choose_action(&mut matches, &cli.policy) {
        return Ok(Err(message));
    }
    let environment = DatabaseVariables {
        target: std::env::var_os("BEADLOCK_TARGET"),
        beads_dir: std::env::var_os("BEADS_DIR"),
        cwd: std::env::current_dir().unwrap_or_default(),
    };
    let audit_of_all = std::env::var_os("BEADLOCK_AUDIT")
        .filter(|file| !file.is_empty())
        .map(PathBuf::from);
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let fleet = FleetVariables {
        named: variable("BEADLOCK_FLEET_CONFIG"),
        config_home: variable("XDG_CONFIG_HOME"),
        home: variable("HOME"),
        cwd: environment.cwd.clone(),
    };
    Ok(Ok(CommandLine {
        cli,
        given: given(matches),
        audit_of_all,
        environment,
        fleet,
    }))
}

/// The matches without the built-in values and without the roots.
fn given(mut matches: ArgMatches) -> ArgMatches {
    let names: Vec<String> = matches.ids().map(|id| id.as_str().to_owned()).collect();
    for name in names {
        if name == "root" || matches.value_source(&name) == Some(ValueSource::DefaultValue) {
            let _ = matches.try_clear_id(&name);
        }
    }
    matches
}

/// The command line's grammar, without the environment variables that are set to nothing: empty is unset.
#[expect(
    clippy::disallowed_methods,
    reason = "the environment is read where the command line is"
)]
fn command() -> clap::Command {
    help::shaped(AgentCli::command()).mut_args(|arg| {
        let is_empty = arg
            .get_env()
            .and_then(std::env::var_os)
            .is_some_and(|value| value.is_empty());
        let arg = without_built_in(arg);
        if is_empty {
            arg.env(Resettable::Reset)
        } else {
            arg
        }
    })
}

/// Hides the built-in value, which the help text of each option names already.
pub(super) fn without_built_in(arg: Arg) -> Arg {
    if arg.get_action().takes_values() {
        arg.hide_default_value(true)
    } else {
        arg
    }
}

/// The grammar without environment variables.
pub(super) fn grammar() -> clap::Command {
    AgentCli::command().mut_args(|arg| without_built_in(arg).env(Resettable::Reset))
}

/// `--exec` and `--action` are opposites: the command line beats the environment, and both at once are a mistake.
fn choose_action(matches: &mut ArgMatches, policy: &Policy) -> Result<(), String> {
    let action = matches
        .value_source("action")
        .filter(|source| *source != ValueSource::DefaultValue);
    let loser = match (matches.value_source("exec"), action) {
        (Some(ValueSource::CommandLine), Some(ValueSource::CommandLine)) => {
            return Err("--exec and --action exclude each other; leave one out".to_owned());
        }
        (Some(_), Some(ValueSource::CommandLine)) => "exec",
        (Some(_), _)
            if policy
                .exec
                .as_ref()
                .is_some_and(|command| command.is_empty()) =>
        {
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
    use crate::config::options::CycleAction;

    /// Parses these arguments in an empty environment, as the command line. `Err`: the message of the mistake.
    pub(crate) fn typed_of(args: &[&str]) -> Result<CommandLine, String> {
        let args = [NAME].iter().chain(args);
        let matches = grammar()
            .try_get_matches_from(args)
            .map_err(|error| error.to_string())?;
        typed(matches).unwrap()
    }

    impl CommandLine {
        /// The options that hold when there is no configuration file.
        pub(crate) fn alone(&self) -> (Policy, AgentOptions) {
            (
                self.policy(&Policy::default()),
                self.agent(&AgentOptions::default()),
            )
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        AgentCli::command().debug_assert();
    }

    #[test]
    fn what_is_not_typed_says_nothing() {
        let typed = typed_of(&[]).unwrap();
        assert_eq!(typed.alone(), (Policy::default(), AgentOptions::default()));
        let said = typed_of(&[
            "--allow-worktree",
            "--reap-proven-dead",
            "--allow-foreign-owner",
        ])
        .unwrap();
        let (policy, agent) = said.alone();
        assert!(policy.allow_worktree && policy.reap_proven_dead && agent.allow_foreign_owner);
        let (mut below, mut whole) = (policy.clone(), agent.clone());
        (below.debounce, whole.log_keep) = (Some(std::time::Duration::ZERO), 9);
        assert_eq!((typed.policy(&below), typed.agent(&whole)), (below, whole));
    }

    #[test]
    fn opposites_on_the_command_line_are_a_mistake() {
        let policy = |args: &[&str]| typed_of(args).map(|typed| typed.alone().0);
        assert_eq!(
            policy(&["--exec", "true"]).unwrap().action(),
            CycleAction::Exec("true".as_ref())
        );
        assert_eq!(
            policy(&["--action", "none"]).unwrap().action(),
            CycleAction::None
        );
        assert_eq!(policy(&[]).unwrap().action(), CycleAction::Git);
        let both = policy(&["--exec", "true", "--action", "none"]).unwrap_err();
        assert!(both.contains("exclude each other"), "{both}");
        assert!(policy(&["--exec", ""]).unwrap_err().contains("no command"));
    }

    #[test]
    fn durations_of_ages_are_a_year() {
        let policy = typed_of(&["--interval", "30000h", "--debounce", "30000h"])
            .unwrap()
            .alone()
            .0;
        assert_eq!(
            [Some(policy.interval), policy.debounce],
            [Some(crate::config::options::LONGEST); 2]
        );
    }
}
