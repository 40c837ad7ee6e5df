//! The help: `--help`, and `beadlock help [COMMAND | PROTOCOL]`.
//!
//! ```text
//! mod.rs        this page: the tree of the commands as the help shows it
//! groups.rs     the groups of the commands
//! protocols.rs  which protocols a command line is about, and the page of a protocol
//! style.rs      colours, as cargo's, and when there are any
//! ```
//!
//! None of this is built unless a command line asks for help.

mod groups;
mod protocols;
mod style;

use beadlock_claim::error::Problem;
use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser, StyledStr};
use clap::{Args, Command, CommandFactory};

pub use groups::MORE;

use crate::command_line::{Cli, printed};
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_console::Console;
use beadlock_console::program_end::ProgramEnd;

/// The help is at most this wide.
const COLUMNS: usize = 80;

/// The help of a command. The examples stand before the options, the exit codes after them.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

#[derive(Debug, Args)]
pub struct HelpArgs {
    /// A command, or a protocol: beads, lock, tower, memory or file
    #[arg(value_name = "COMMAND|PROTOCOL", hide_possible_values = true)]
    pub topics: Vec<String>,
}

/// Prints the help of a command or of a protocol. Without a topic it prints the help of the program.
pub fn run(typed: &HelpArgs, environment: &Environment, common: &Console) -> ProgramEnd {
    printed(
        page(&typed.topics).map(|page| style::text(&page, common.talk.color(), environment)),
        common,
    )
}

/// The text that `--help` among these words prints; `error` is the parser's answer to them.
pub fn text(words: &[OsString], error: &clap::Error, environment: &Environment) -> String {
    let shown = tree(words)
        .try_get_matches_from(words)
        .err()
        .filter(|again| again.kind() == error.kind());
    let page = shown.as_ref().unwrap_or(error).render();
    let color = style::typed(words).unwrap_or_default();
    style::text(&page, color, environment)
}

fn page(topics: &[String]) -> Result<StyledStr, Error> {
    if let [name] = topics
        && let Some(page) = protocols::page(name)
    {
        return Ok(page);
    }
    let mut command = tree(&[]);
    command.build();
    let mut found = &mut command;
    for topic in topics {
        found = found.find_subcommand_mut(topic).ok_or_else(|| {
            Error::usage(format!(
                "there is no help on {}; type: beadlock help",
                topics.join(" ")
            ))
        })?;
    }
    Ok(found.render_help())
}

/// The command line as the help shows it: with examples, groups and colours, and without the options of protocols that
/// `words` are not about.
pub fn tree(words: &[OsString]) -> Command {
    let shown = protocols::headings_of(words);
    let tree = Cli::command().styles(style::STYLES).max_term_width(COLUMNS);
    let tree = groups::listed(tree.mut_subcommands(|command| prepared(command, &shown)));
    tree.mut_subcommand("help", |help| {
        let topics = topics();
        help.mut_arg("topics", |arg| {
            arg.value_parser(PossibleValuesParser::new(topics))
        })
    })
}

fn prepared(command: Command, shown: &[&str]) -> Command {
    let hidden = protocols::hidden_in(&command, shown);
    let command = command.mut_args(|arg| match arg.get_help_heading() {
        Some(heading) if hidden.iter().any(|help| help.heading == heading) => arg.hide(true),
        _ => arg,
    });
    let before = command
        .get_before_help()
        .map(StyledStr::to_string)
        .unwrap_or_default();
    let after = command
        .get_after_help()
        .map(StyledStr::to_string)
        .unwrap_or_default();
    let after = [protocols::pointer(&hidden), after]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>();
    let command = match before.is_empty() {
        true => command,
        false => command.before_help(style::marked(&before)),
    };
    let command = match after.is_empty() {
        true => command,
        false => command.after_help(style::marked(&after.join("\n\n"))),
    };

    command
        .help_template(TEMPLATE)
        .mut_subcommands(|below| prepared(below, shown))
}

/// Everything that there is help on.
fn topics() -> Vec<PossibleValue> {
    let commands = Cli::command();
    let mut names = names_of(&commands);
    names.extend(protocols::names().map(str::to_owned));
    names.into_iter().map(PossibleValue::new).collect()
}

fn names_of(command: &Command) -> Vec<String> {
    let below = command.get_subcommands();
    below
        .flat_map(|below| [vec![below.get_name().to_owned()], names_of(below)].concat())
        .collect()
}
