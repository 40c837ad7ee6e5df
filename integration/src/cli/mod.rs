//! The command line. The environment comes in later, in `settings.rs`, so that it never beats what was typed.

use clap::{Args, Parser, Subcommand};

use crate::protocol::NAMED_LOCKS;
use crate::settings::arguments::{CommonArgs, LockDirArg};
use crate::{commands, doctor, list, log, top};

pub mod dispatch;
mod hint;
mod patience;

/// Claim a beads database, a named lock or a file for as long as a command runs; look at the claims of others.
///
/// Without a command: the status of the database that is found from here.
#[derive(Debug, Parser)]
#[command(name = "beadlock", version, disable_help_subcommand = true, args_override_self = true)]
// After its options and commands, which both of these change.
#[command(mut_arg(LockDirArg::ID, |arg| arg.global(true).hide(true)), mut_subcommands(showing_lock_dir))]
pub struct Cli {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands whose target may be a named lock.
const OF_NAMED_LOCKS: [&str; 8] = ["hold", "acquire", "release", "check", "status", "wait", "break", "list"];

/// Shows in the help of such a command, among the options of named locks, what every command takes.
fn showing_lock_dir(command: clap::Command) -> clap::Command {
    if !OF_NAMED_LOCKS.contains(&command.get_name()) {
        return command;
    }
    LockDirArg::augment_args(command).mut_arg(LockDirArg::ID, |arg| arg.help_heading(NAMED_LOCKS))
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take the lock, run a command, release the lock
    Hold(commands::hold::HoldArgs),
    /// A claim that spans several commands: ends with release, or with the process it is for
    Acquire(commands::acquire::AcquireArgs),
    /// End a claim that acquire has made; only one's own
    Release(commands::release::ReleaseCommandArgs),
    /// Run a command as a sync cycle: under the gate, and only when nobody claims the database
    Cycle(commands::cycle::CycleArgs),
    /// What a daemon does at the start of a cycle: may remove a stale lock, but never a named one. Exit 0: free; 4,
    /// 5: do not touch
    Check(commands::check::CheckArgs),
    /// Who holds it, since when, valid or not and why, and what to type next. Never changes anything
    Status(commands::status::StatusArgs),
    /// Return when it is free. That promises nothing about the moment after: to have it, use hold
    Wait(commands::wait::WaitArgs),
    /// Make standard input the content of a file, all of it or none, under its lock and with backups
    Write(commands::write::WriteArgs),
    /// Run a file through a command and back, under one lock
    Update(commands::update::UpdateArgs),
    /// Add whole lines to the end of a file, under its lock
    Append(commands::append::AppendArgs),
    /// Take somebody's lock away, which no check can prove dead; its record is kept beside it
    Break(commands::break_lock::BreakArgs),
    /// Every lock below the directories ROOT. Never changes anything
    List(list::List),
    /// What a daemon's log says, summed up: does it sync, since when not, held by whom, what to type next
    Log(log::LogArgs),
    /// A live view of agents and locks: what is wrong, who holds it, what to type. q ends it
    Top(top::TopArgs),
    /// What the file system of DIR can do, and so what is promised there. Exit 0: all; 1: something is missing; 5: NO
    Doctor(doctor::Doctor),
}

impl Command {
    /// What `--own-exit-code` says; `None` also for the commands that have no such option.
    pub fn own_exit_code(&self) -> Option<u8> {
        match self {
            Self::Hold(typed) => typed.claim.own_exit_code,
            Self::Acquire(typed) => typed.claim.own_exit_code,
            Self::Cycle(typed) => typed.own_exit_code,
            Self::Update(typed) => typed.own_exit_code,
            _ => None,
        }
    }

    /// What was typed before the `--`, where the command to run is missing.
    fn lacks_its_command(&self) -> Option<&'static str> {
        match self {
            Self::Hold(typed) if typed.command.is_empty() => Some("hold"),
            Self::Cycle(typed) if typed.command.is_empty() => Some("cycle"),
            Self::Update(typed) if typed.command.is_empty() => Some("update file:PATH"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
