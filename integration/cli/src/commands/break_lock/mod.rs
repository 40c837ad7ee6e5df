//! `beadlock break [TARGET]`: a lock goes out of the way because somebody says so, and its record is kept
//! (docs/design.md#looking).
//!
//! ```text
//! mod.rs      this page, the command line, and what is printed
//! choice.rs   which lock is meant, and the words when another is there
//! ask.rs      the questions, on a terminal
//! steps.rs    look, choose, gate, break
//! fleet.rs    the claim in the fleet of a database
//! ```

mod ask;
mod choice;
#[cfg(feature = "fleet")]
mod fleet;
mod steps;

use std::{ffi::OsString, path::PathBuf};

use beadlock_base::escape::is_harmless;
use clap::Args;

use beadlock_claim::environment::Environment;
use beadlock_console::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_console::{
    Console,
    answers::{conclude, end_of},
};

const HELP: &str = "\
For a lock that is left over and that no check can prove dead. It is moved to LOCK.broken-TIME.json beside it. Which \
one is meant is said by one of --id, --holder and --malformed; without any, on a terminal, the lock is shown and its \
id asked for. memory:DIR has one lock, and needs none of them. A lock file of --malformed is shown on a terminal, too, \
and asked about. Without a terminal a file at lock:PATH goes only if it is empty or a lock record, also one that is \
cut off: anything else may be somebody's data, and needs --yes.

A claim in the fleet of a database is never taken away: its holder is told, with the reason, ends its work, and then \
the claim.

Exit 0: broken, or there was none. 1: another, stale lock is there, or it failed. 4: held (see --even-if-live), or the \
gate is busy. 5: another lock is there, and it cannot be understood. The lock of a file (file:PATH, \
flock:PATH) cannot be taken from its process: it is said which one that is.";

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct BreakArgs {
    /// The database's directory, [beads:]DIR, dir:PATH, lock:PATH, memory:DIR, tower:NAME, file:PATH or flock:PATH
    /// [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// Break the lock with this id, as beadlock status shows it
    #[arg(long, value_name = "ID", conflicts_with_all = ["holder", "malformed"])]
    pub id: Option<String>,
    /// Break the lock of this holder
    #[arg(long, value_name = "NAME", conflicts_with_all = ["id", "malformed"])]
    pub holder: Option<String>,
    /// Break a lock that cannot be understood, whatever it is
    #[arg(long, conflicts_with_all = ["id", "holder"])]
    pub malformed: bool,
    /// With --malformed: ask nothing, and break it also where it is not a lock file
    #[arg(long, requires = "malformed", conflicts_with_all = ["id", "holder"])]
    pub yes: bool,
    /// Why, for the audit trail: 1 to 500 printable characters
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    /// Break it although its holder may be at work: that goes on, and nothing is told of it
    #[arg(long)]
    pub even_if_live: bool,
    /// Add a JSON line to FILE for what happens to the lock [env: BEADLOCK_AUDIT] [default for tower:NAME: audit.jsonl
    /// beside the lock directory]
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
}

fn reason(text: &str) -> Result<String, String> {
    let count = text.chars().count();
    if (1..=500).contains(&count) && text.chars().all(is_harmless) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a reason is 1 to 500 printable characters in one line; this one has {count}"
    ))
}

pub fn run(typed: &BreakArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    let broken = steps::run(typed, environment, common).map_err(|stopped| {
        end_of(
            stopped,
            " before anything was changed",
            ExitCodeOverrides::default(),
        )
    });
    conclude(common, broken)
}

impl BreakArgs {
    /// The options that say which lock is meant, and that it may go.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            ("--id", self.id.is_some()),
            ("--holder", self.holder.is_some()),
            ("--malformed", self.malformed),
            ("--yes", self.yes),
            ("--even-if-live", self.even_if_live),
        ];
        all.into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(option, _)| option)
            .collect()
    }
}
