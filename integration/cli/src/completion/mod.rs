//! Completion of the command line: `beadlock completions SHELL`, and the answers to the scripts that it prints
//! (docs/configuration.md#completion).
//!
//! ```text
//! mod.rs        this page: the scripts, and one answer
//! candidates.rs the targets and ids that an answer offers
//! below.rs      the short search for locks below the working directory
//! ```
//!
//! An answer never waits and never changes anything. It looks at no file system that may hang, and after [`PATIENCE`]
//! it is empty.

mod below;
mod candidates;

use std::ffi::OsString;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::helper::Helpers;
use clap::{Arg, Args, Command, ValueEnum, ValueHint};
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter};
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use super::help;
use crate::command_line::printed;
use beadlock_base::stdout::print;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Exit;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;
use candidates::Candidates;

/// The scripts set it to the name of their shell.
const VARIABLE: &str = "BEADLOCK_COMPLETE";

/// An answer that takes longer is empty.
const PATIENCE: Duration = Duration::from_millis(90);

/// How long the search for locks may take.
const SEARCH: Duration = Duration::from_millis(40);

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("beadlock.bash"),
            Self::Zsh => include_str!("beadlock.zsh"),
            Self::Fish => include_str!("beadlock.fish"),
        }
    }

    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
        }
    }
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell: bash, zsh or fish
    #[arg(hide_possible_values = true)]
    shell: Shell,
}

/// Prints the script that a shell sources.
pub fn run(typed: &CompletionsArgs, common: &Console) -> ProgramEnd {
    printed(Ok(typed.shell.script().to_owned()), common)
}

/// Answers a script of [`run`]; `None` where none asks. The words of the command line stand after a `--`.
pub fn answer(
    helpers: Helpers,
    words: &[OsString],
    environment: &Environment,
) -> Option<ProgramEnd> {
    let begun = Instant::now();
    let shell = Shell::from_str(environment.get(VARIABLE)?.to_str()?, false).ok()?;
    let typed: Vec<OsString> = words
        .iter()
        .skip_while(|word| *word != "--")
        .skip(1)
        .cloned()
        .collect();
    // Behind the next `--` stands another command, which the shell completes.
    if typed.is_empty() || typed.iter().rev().skip(1).any(|word| word == "--") {
        return Some(ProgramEnd::Code(Exit::Done.code()));
    }
    let environment = environment.clone();
    let (sender, receiver) = mpsc::channel();
    let completing = move || {
        let candidates = Candidates::new(helpers, &typed, environment, begun + SEARCH);
        let mut answer = Vec::new();
        let done = shell.completer().write_complete(
            &mut tree(&typed, candidates),
            typed,
            None,
            &mut answer,
        );
        let _ = sender.send(done.map(|()| answer).unwrap_or_default());
    };
    // The thread is left alone when its time is over.
    let is_started = thread::Builder::new()
        .name("completion".to_owned())
        .spawn(completing)
        .is_ok();
    let answer = is_started.then(|| {
        receiver
            .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
            .ok()
    });
    let _ = print(answer.flatten().unwrap_or_default());
    Some(ProgramEnd::Code(Exit::Done.code()))
}

/// The command line, with what is offered for each value.
fn tree(typed: &[OsString], candidates: Candidates) -> Command {
    let candidates = Arc::new(candidates);
    let is_option = typed
        .last()
        .is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
    let tree = help::tree(typed).mut_subcommands(|command| completed(command, &candidates));
    if is_option {
        tree
    } else {
        without_options(tree)
    }
}

/// Options are offered where a dash is typed, or where there is nothing else.
fn without_options(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        if arg.is_positional() {
            arg
        } else {
            arg.hide(true)
        }
    });
    command
        .disable_help_flag(true)
        .disable_version_flag(true)
        .mut_subcommands(without_options)
}

fn completed(command: Command, candidates: &Arc<Candidates>) -> Command {
    let has_ids = ["break", "release", "renew", "status"].contains(&command.get_name());
    command.mut_args(|arg| match arg.get_id().as_str() {
        "target" | "targets" | "and" => {
            let candidates = Arc::clone(candidates);
            arg.add(ArgValueCompleter::new(move |typed: &std::ffi::OsStr| {
                candidates.targets(typed)
            }))
        }
        "id" if has_ids => {
            let candidates = Arc::clone(candidates);
            arg.add(ArgValueCompleter::new(move |typed: &std::ffi::OsStr| {
                candidates.ids(typed)
            }))
        }
        "wait" | "drain" => arg.add(ArgValueCandidates::new(|| {
            vec![CompletionCandidate::new("forever")]
        })),
        _ if !arg.get_action().takes_values() => arg,
        name => {
            let hint = hint(name, &arg);
            arg.value_hint(if candidates.may_read_paths() {
                hint
            } else {
                ValueHint::Other
            })
        }
    })
}

fn hint(name: &str, arg: &Arg) -> ValueHint {
    match name {
        "dir" | "roots" | "lock_dir" => ValueHint::DirPath,
        "files" | "base" | "ours" | "theirs" | "path" | "command" | "report" | "audit"
        | "intent" | "schema" => ValueHint::AnyPath,
        _ if arg.is_positional() => ValueHint::Other,
        _ => arg.get_value_hint(),
    }
}
