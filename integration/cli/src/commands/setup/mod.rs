//! `beadlock setup`: makes another program use beadlock.
//!
//! ```text
//! git.rs   beadlock as git's merge driver
//! ```

mod git;

use clap::{Args, Subcommand};

use beadlock_claim::environment::Environment;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;

const EXAMPLES: &str = "\
Examples:
  beadlock setup git          # for every repository of this user
  beadlock setup git --local  # for this repository";

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES)]
pub struct SetupArgs {
    #[command(subcommand)]
    pub program: SetupProgram,
}

/// The program that is set up.
#[derive(Debug, Subcommand)]
pub enum SetupProgram {
    /// Have git merge record files by the ids of their records
    Git(git::SetupGitArgs),
}

pub fn run(typed: &SetupArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    match &typed.program {
        SetupProgram::Git(typed) => git::run(typed, environment, common),
    }
}
