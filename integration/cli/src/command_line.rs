//! The command line. The environment comes in later, in `settings.rs`, so that it never beats what was typed.

use beadlock_claim::error::Problem;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::settings::arguments::{ClaimArgs, CommonArgs, LockDirArg};
use crate::targets::file::{Checked, OnFile};
use crate::targets::{self, NAMED_LOCKS};
use crate::{completion, help, man, schema, status};
use beadlock_base::stdout::print;
use beadlock_claim::error::{Error, Exit};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{
    Console,
    answers::{conclude, not_written},
};
use beadlock_log as log;
use beadlock_oncall::{doctor, list, top};

/// Claim a beads database, a named lock or a file while a command runs
#[derive(Debug, Parser)]
#[command(
    name = "beadlock",
    version,
    long_version = env!("LONG_VERSION"),
    disable_help_subcommand = true,
    args_override_self = true
)]
#[command(after_help = help::MORE)]
// After its options and commands, which both of these change.
#[command(mut_arg(LockDirArg::ID, |arg| arg.global(true).hide(true)), mut_subcommands(showing_lock_dir))]
pub struct Cli {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

impl Cli {
    /// Parses the words of a command line, the program's name first. `hold` is parsed without the options of all other
    /// commands: making those is a large part of what a short `hold` takes. What is not understood so is parsed again
    /// with all of them, for the error.
    pub fn parse_words(words: &[OsString]) -> Result<Self, clap::Error> {
        if words.get(1).is_some_and(|word| word == "hold")
            && let Ok(HoldLine { common, command }) = HoldLine::try_parse_from(words)
        {
            let HoldCommand::Hold(typed) = command;
            let command = Some(CliCommand::Hold(typed));
            return Ok(Self { common, command });
        }
        Self::try_parse_from(words)
    }
}

/// [`Cli`] with `hold` as its one command.
#[derive(Debug, Parser)]
#[command(
    name = "beadlock",
    version,
    long_version = env!("LONG_VERSION"),
    disable_help_subcommand = true,
    args_override_self = true
)]
#[command(mut_arg(LockDirArg::ID, |arg| arg.global(true).hide(true)), mut_subcommands(showing_lock_dir))]
struct HoldLine {
    #[command(flatten)]
    common: CommonArgs,
    #[command(subcommand)]
    command: HoldCommand,
}

#[derive(Debug, Subcommand)]
enum HoldCommand {
    Hold(commands::hold::HoldArgs),
}

/// The commands whose target may be a named lock.
const OF_NAMED_LOCKS: [&str; 9] = [
    "hold", "acquire", "release", "renew", "check", "status", "wait", "break", "list",
];

/// Shows in the help of such a command, among the options of named locks, what every command takes.
fn showing_lock_dir(command: clap::Command) -> clap::Command {
    if !OF_NAMED_LOCKS.contains(&command.get_name()) {
        return command;
    }
    LockDirArg::augment_args(command).mut_arg(LockDirArg::ID, |arg| arg.help_heading(NAMED_LOCKS))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Take a lock, run a command, release the lock
    Hold(commands::hold::HoldArgs),
    /// Claim a target for several commands, until it is released
    Acquire(commands::acquire::AcquireArgs),
    /// Release a claim that acquire has made
    Release(commands::release::ReleaseCommandArgs),
    /// Give a claim that acquire --detach has made a new end
    Renew(commands::renew::RenewArgs),
    /// Run a command as a sync cycle, unless the database is claimed
    Cycle(commands::cycle::CycleArgs),
    /// Check whether a sync daemon may start a cycle now
    Check(commands::check::CheckArgs),
    /// Show who holds a lock, since when, and what to type next
    Status(status::StatusArgs),
    /// Wait until a target is free, without claiming it
    Wait(commands::wait::WaitArgs),
    /// Replace a file with standard input, under the file's lock
    Write(commands::write::WriteArgs),
    /// Pass a file through a command and back, under the file's lock
    Update(commands::update::UpdateArgs),
    /// Add whole lines to the end of a file, under the file's lock
    Append(commands::append::AppendArgs),
    /// Merge three versions of a record file by the ids of its records
    Merge(commands::merge::MergeArgs),
    /// Set up git to merge record files with beadlock
    Setup(commands::setup::SetupArgs),
    /// Remove a lock by force, and keep its record beside it
    Break(commands::break_lock::BreakArgs),
    /// List every lock below a directory
    List(list::List),
    /// Sum up what the log of a sync daemon says
    Log(log::LogArgs),
    /// Show a live view of agents and locks
    Top(top::TopArgs),
    /// Test what a file system can do and what beadlock promises there
    Doctor(DoctorArgs),
    /// Create, join, show or leave a fleet of several machines
    #[cfg(feature = "fleet")]
    Fleet(commands::fleet::FleetArgs),
    /// Explain a command or a protocol
    Help(help::HelpArgs),
    /// Write the manual pages into a directory, or print one
    Man(man::ManArgs),
    /// Print the completion script of a shell
    Completions(completion::CompletionsArgs),
    /// Print the JSON Schema of an answer, a line or a file
    Schema(schema::SchemaArgs),
}

/// `beadlock doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub doctor: doctor::Doctor,
    /// Examine the fleet of fleet.toml instead: its etcd, node by node, and whether claims across machines hold there
    #[cfg(feature = "fleet")]
    #[arg(long, conflicts_with = "dir")]
    pub fleet: bool,
}

/// The typed options that bound how long a file system may take to answer, and the files that have to answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandReach<'a> {
    /// The options of the wait for a holder; `None`: the command looks, and waits for no holder.
    pub wait: Option<WaitOptions>,
    /// The audit file of the command.
    pub audit: Option<&'a Path>,
    /// Other files that the command reads or writes, beside its targets: a report, an intent, a schema.
    pub files: [Option<&'a Path>; 2],
}

/// The options of a wait for a holder.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitOptions {
    /// The value of `--wait`: how long to wait for a holder.
    pub wait: Option<Duration>,
    /// Whether `--no-wait` was typed.
    pub no_wait: bool,
    /// The value of `--drain`: how long to wait for a running cycle.
    pub drain: Option<Duration>,
}

impl<'a> CommandReach<'a> {
    fn of_claim(claim: &'a ClaimArgs, protocol: &'a targets::Args) -> Self {
        Self {
            wait: Some(WaitOptions {
                wait: claim.wait,
                no_wait: claim.no_wait,
                drain: claim.drain,
            }),
            audit: claim.audit.as_deref(),
            files: [claim.report.as_deref(), protocol.files()],
        }
    }

    fn on_file(on: &'a OnFile, checked: &'a Checked) -> Self {
        Self {
            wait: Some(WaitOptions {
                wait: on.wait,
                no_wait: on.no_wait,
                drain: None,
            }),
            audit: on.audit.as_deref(),
            files: [checked.schema.as_deref(), None],
        }
    }

    fn with_audit(audit: Option<&'a Path>) -> Self {
        Self {
            audit,
            ..Self::default()
        }
    }
}

impl CliCommand {
    /// How long the command waits, and which files it uses beside its targets.
    pub fn reach(&self) -> CommandReach<'_> {
        match self {
            Self::Hold(typed) => CommandReach::of_claim(&typed.claim, &typed.protocol),
            Self::Acquire(typed) => CommandReach::of_claim(&typed.claim, &typed.protocol),
            Self::Wait(typed) => CommandReach {
                wait: Some(WaitOptions {
                    wait: typed.wait,
                    ..WaitOptions::default()
                }),
                ..CommandReach::default()
            },
            Self::Write(typed) => CommandReach::on_file(&typed.on, &typed.checked),
            Self::Update(typed) => CommandReach::on_file(&typed.on, &typed.checked),
            Self::Append(typed) => CommandReach::on_file(&typed.on, &typed.checked),
            Self::Release(typed) => CommandReach::with_audit(typed.audit.as_deref()),
            Self::Renew(typed) => CommandReach::with_audit(typed.audit.as_deref()),
            Self::Break(typed) => CommandReach::with_audit(typed.audit.as_deref()),
            Self::Cycle(_)
            | Self::Check(_)
            | Self::Status(_)
            | Self::Merge(_)
            | Self::Setup(_)
            | Self::List(_)
            | Self::Log(_)
            | Self::Top(_)
            | Self::Doctor(_)
            | Self::Help(_)
            | Self::Man(_)
            | Self::Completions(_)
            | Self::Schema(_) => CommandReach::default(),
            #[cfg(feature = "fleet")]
            Self::Fleet(_) => CommandReach::default(),
        }
    }

    /// The value of `--own-exit-code`; `None` also for the commands that have no such option.
    pub fn own_exit_code(&self) -> Option<u8> {
        match self {
            Self::Hold(typed) => typed.claim.own_exit_code,
            Self::Acquire(typed) => typed.claim.own_exit_code,
            Self::Cycle(typed) => typed.own_exit_code,
            Self::Update(typed) => typed.own_exit_code,
            _ => None,
        }
    }

    /// The name of a command that prints text for people, shells or readers, and has no envelope.
    pub fn without_json(&self) -> Option<&'static str> {
        match self {
            Self::Help(_) => Some("help"),
            Self::Man(_) => Some("man"),
            Self::Completions(_) => Some("completions"),
            Self::Schema(_) => Some("schema"),
            _ => None,
        }
    }

    /// The start of the line, up to the `--`, of a command that was typed without the command to run; else `None`.
    pub fn lacks_its_command(&self) -> Option<&'static str> {
        match self {
            Self::Hold(typed) if typed.command.is_empty() => Some("hold"),
            Self::Cycle(typed) if typed.command.is_empty() => Some("cycle"),
            Self::Update(typed) if typed.command.is_empty() => Some("update file:PATH"),
            _ => None,
        }
    }
}

/// Ends a command that prints text. No envelope is put around that.
pub fn printed(text: Result<String, Error>, common: &Console) -> ProgramEnd {
    match text.and_then(|text| print(text).map_err(|error| not_written(&error))) {
        Ok(()) => ProgramEnd::Code(Exit::Done.code()),
        Err(error) => conclude(common, Err((ProgramEnd::Code(error.exit().code()), error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
        HoldLine::command().debug_assert();
    }

    /// Whether it is understood, and as what, does not depend on the way.
    #[test]
    fn a_hold_is_parsed_as_among_all_commands() {
        for line in [
            "hold -- true",
            "hold -q lock:x --wait 2s --no-wait -- true --wait 1s",
            "hold tower:app --intent deploy --lock-dir /locks --lock-dir /other -- hold hold",
            "hold --json --holder ann --and lock:y .beads -- sh -c true",
            "hold --lock-dir=/locks .beads -- true",
            "hold",
            "hold --help",
            "hold -V",
            "hold --no-such-option -- true",
            "hold --wait",
            "hold make release",
        ] {
            let words: Vec<OsString> = ["beadlock"]
                .into_iter()
                .chain(line.split(' '))
                .map(OsString::from)
                .collect();
            let shown = |parsed: Result<Cli, clap::Error>| match parsed {
                Ok(cli) => format!("{cli:?}"),
                Err(error) => format!("{:?} {error}", error.kind()),
            };
            let among_all = shown(Cli::try_parse_from(&words));
            assert_eq!(shown(Cli::parse_words(&words)), among_all, "{line}");
        }
    }
}
