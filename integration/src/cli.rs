//! The command line. The environment comes in later, in `settings.rs`, so that it never beats what was typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

use crate::acquire;
use crate::breaking;
use crate::claim::loss::OnLoss;
use crate::cycle;
use crate::doctor;
use crate::environment::boolean;
use crate::exit::Replaced;
use crate::file;
use crate::list;
use crate::log;
use crate::memory;
use crate::release;
use crate::talk::Color;
use crate::target::NAMED_IS_NOT_REAPED;
use crate::tower;
use crate::waiting;
use beadlock_checker::address::Address;
use beadlock_checker::database::Directories;
use beadlock_checker::duration;

pub mod patience;

/// Claim a beads database, a named lock or a file for as long as a command runs; look at the claims of others.
///
/// Without a command: the status of the database that is found from here.
#[derive(Debug, Parser)]
#[command(name = "beadlock", version, disable_help_subcommand = true, args_override_self = true)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Where `--help` puts what every command takes.
const EVERYWHERE: &str = "Everywhere";

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Answer with one JSON object on stdout [env: BEADLOCK_JSON]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "BOOL", num_args = 0..=1, require_equals = true, hide_possible_values = true,
          default_missing_value = "yes", value_parser = boolean)]
    pub json: Option<bool>,
    /// Say only what went wrong [env: BEADLOCK_QUIET]
    #[arg(short, long, global = true, help_heading = EVERYWHERE, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "yes", value_parser = boolean, overrides_with = "verbose")]
    pub quiet: Option<bool>,
    /// Say more
    #[arg(short, long, global = true, help_heading = EVERYWHERE, overrides_with = "quiet")]
    pub verbose: bool,
    /// When to use colours: auto, always, never; NO_COLOR is heeded [env: BEADLOCK_COLOR] [default: auto]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "WHEN", hide_possible_values = true)]
    pub color: Option<Color>,
    /// Where named locks (tower:NAME) lie [env: BEADLOCK_LOCK_DIR] [default: /root/tower-fleet/logs/locks]
    #[arg(long, global = true, help_heading = EVERYWHERE, value_name = "DIR", value_parser = lock_dir())]
    pub lock_dir: Option<OsString>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take the lock, run a command, release the lock
    Hold(Hold),
    /// A claim that spans several commands: ends with release, or with the process it is for
    Acquire(acquire::Typed),
    /// End a claim that acquire has made; only one's own
    Release(release::Typed),
    /// Run a command as a sync cycle: under the gate, and only when nobody claims the database
    Cycle(cycle::Typed),
    /// What a daemon does at the start of a cycle: may remove a stale lock, but never a named one. Exit 0: free; 4, 5: do not touch
    Check(Check),
    /// Who holds it, since when, valid or not and why, and what to type next. Never changes anything
    Status(Status),
    /// Return when it is free. That promises nothing about the moment after: to have it, use hold
    Wait(waiting::Typed),
    /// Make standard input the content of a file, all of it or none, under its lock and with backups
    Write(file::command::write::Typed),
    /// Run a file through a command and back, under one lock
    Update(file::command::update::Typed),
    /// Add whole lines to the end of a file, under its lock
    Append(file::command::append::Typed),
    /// Take somebody's lock away, which no check can prove dead; its record is kept beside it
    Break(breaking::Typed),
    /// Every lock below the directories ROOT. Never changes anything
    List(list::List),
    /// What a daemon's log says, summed up: does it sync, since when not, held by whom, what to type next
    Log(log::Log),
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
}

/// How a claim is made: what `hold` and `acquire` share.
#[derive(Debug, Clone, Args)]
pub struct Claim {
    /// How long to wait for who holds the lock; after that exit 4, and with --json error.retry_after_ms says when to come
    /// back [env: BEADLOCK_WAIT] [default: 10s, for tower:NAME 0s, for memory:DIR 5s, for file:PATH 30s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse, overrides_with = "no_wait")]
    pub wait: Option<Duration>,
    /// Do not wait for who holds the lock
    #[arg(long, overrides_with = "wait")]
    pub no_wait: bool,
    /// How long to wait for a sync cycle that is running [env: BEADLOCK_DRAIN] [default: 130s, with --no-wait 1s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub drain: Option<Duration>,
    /// Exit with N instead of 4, or 8 of a file, when the target is held or busy
    #[arg(long, value_name = "N")]
    pub conflict_exit_code: Option<u8>,
    /// Exit with N instead of any code that is not the command's
    #[arg(long, value_name = "N")]
    pub own_exit_code: Option<u8>,
    /// Take a lock also from a holder that is proved dead by more than its PID: of a database, or lock:PATH
    #[arg(long)]
    pub reap_proven_dead: bool,
    /// Claim DIR also when it does not look like a database: it is not called .beads, is not $BEADS_DIR, and has no *.db,
    /// *.sqlite*, *.jsonl or redirect in it
    #[arg(long)]
    pub any_directory: bool,
    /// Write what became of it to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Add a JSON line to FILE for whatever happens to the lock [env: BEADLOCK_AUDIT] [default for tower:NAME: audit.jsonl
    /// beside the lock directory]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Of a named lock that is held or stale print what its document answers, and nothing else
    #[arg(long, conflicts_with = "json", help_heading = tower::options::HEADING)]
    pub raw: bool,
    #[command(flatten)]
    pub file: file::options::Typed,
    #[command(flatten)]
    pub memory: memory::options::Typed,
    #[command(flatten)]
    pub tower: tower::options::Typed,
}

impl Claim {
    /// Which directories are taken for databases.
    pub fn directories(&self) -> Directories {
        Directories::any(self.any_directory)
    }

    /// The exit codes that are wanted in place of ours.
    pub fn replaced(&self) -> Replaced {
        Replaced { conflict: self.conflict_exit_code, own: self.own_exit_code }
    }
}

/// What was typed and means nothing to a named lock, and what does.
pub fn not_for_named(holder: Option<&String>, claim: &Claim) -> Option<(&'static str, &'static str)> {
    if holder.is_some() {
        return Some(("--holder", "it has an actor: --actor NAME"));
    }
    claim.reap_proven_dead.then_some(("--reap-proven-dead", NAMED_IS_NOT_REAPED))
}

/// `beadlock hold [TARGET] -- CMD [ARG…]`
#[derive(Debug, Args)]
pub struct Hold {
    /// The database's directory, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH [env: BEADLOCK_TARGET] [default: what --intent names, else the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// The name in the lock file and in daemons' logs [env: BEADLOCK_HOLDER] [default: the command's base name]
    #[arg(long, value_name = "NAME")]
    pub holder: Option<String>,
    #[command(flatten)]
    pub claim: Claim,
    /// What to do when the lock is lost: end the command, or only say so [env: BEADLOCK_ON_LOSS] [default: kill]
    #[arg(long, value_name = "kill|warn")]
    pub on_loss: Option<OnLoss>,
    /// How long what is left after a signal or a loss may take before it is killed [env: BEADLOCK_KILL_AFTER]
    /// [default: 10s]
    #[arg(long, value_name = "DUR", value_parser = duration::parse)]
    pub kill_after: Option<Duration>,
    /// Keep the lock until everything that the command started has ended
    #[arg(long)]
    pub wait_group: bool,
    #[command(flatten)]
    pub failure: tower::options::FailureStep,
    #[command(flatten)]
    pub rollback: tower::options::Rollback,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// `beadlock check [TARGET…]`
#[derive(Debug, Args)]
pub struct Check {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Remove nothing; say what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Name every witness, and what to type next
    #[arg(long)]
    pub explain: bool,
    /// Remove a lock also when its holder is proved dead by more than its PID: of a database, or lock:PATH
    #[arg(long)]
    pub reap_proven_dead: bool,
    #[command(flatten)]
    pub ages: memory::options::Ages,
}

/// `beadlock status [TARGET…]`
#[derive(Debug, Args)]
pub struct Status {
    /// The databases' directories, [beads:]DIR, lock:PATH, tower:NAME, memory:DIR, or file:PATH
    pub targets: Vec<OsString>,
    /// Print the lock file's own bytes, unchanged, and nothing else; of memory:DIR its document's status object
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
    /// Ask the agent that listens at ADDR how all its databases fare: IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = address(), conflicts_with_all = ["raw", "targets", "stale_after", "stale_after_remote"])]
    pub agent: Option<Address>,
    #[command(flatten)]
    pub ages: memory::options::Ages,
}

fn lock_dir() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new()
        .try_map(|dir| if dir.is_empty() { Err("the lock directory's name is empty") } else { Ok(dir) })
}

fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::parse(&text))
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
