//! The protocols that a command line names, and the help page of each protocol.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use beadlock_core::target::Scheme;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{COLUMNS, style};
use crate::command_line::Cli;
use crate::targets::{self, ProtocolHelp};

const TEMPLATE: &str = "{about-with-newline}\n{before-help}{all-args}";

/// The protocols by their names on a command line.
pub fn names() -> impl Iterator<Item = &'static str> {
    Scheme::ALL.into_iter().map(name)
}

fn name(scheme: Scheme) -> &'static str {
    scheme.prefix().trim_end_matches(':')
}

/// The protocols that have options of their own, each with its page.
fn with_options() -> impl Iterator<Item = (Scheme, ProtocolHelp)> {
    let helps = Scheme::ALL
        .into_iter()
        .map(|scheme| (scheme, targets::help(scheme)));
    helps.filter(|(_, help)| !help.heading.is_empty())
}

/// The headings of the protocols that these words name by a target, or by an option of theirs.
pub fn headings_of(words: &[OsString]) -> Vec<&'static str> {
    let words = || words.iter().take_while(|word| *word != "--");
    let is_named = |scheme: Scheme| {
        let target = |word: &OsString| {
            Scheme::split(word.as_bytes()).is_some_and(|(named, _)| named == scheme)
        };
        let options = targets::options(scheme);
        let option = |word: &OsString| {
            word.to_str()
                .and_then(|word| word.split('=').next())
                .is_some_and(|word| options.contains(&word))
        };
        words().any(|word| target(word) || option(word))
    };
    with_options()
        .filter(|(scheme, _)| is_named(*scheme))
        .map(|(_, help)| help.heading)
        .collect()
}

/// The protocols whose options the help of this command leaves out, because its command line is not about them.
pub fn hidden_in(command: &Command, shown: &[&str]) -> Vec<ProtocolHelp> {
    let has_some = |help: &ProtocolHelp| {
        command
            .get_arguments()
            .any(|arg| arg.get_help_heading() == Some(help.heading))
    };
    let helps = with_options().map(|(_, help)| help);
    helps
        .filter(|help| !shown.contains(&help.heading) && has_some(help))
        .collect()
}

/// Where the options are that the help of a command leaves out.
pub fn pointer(hidden: &[ProtocolHelp]) -> String {
    let is_hidden =
        |help: &ProtocolHelp| hidden.iter().any(|hidden| hidden.heading == help.heading);
    let names: Vec<&str> = with_options()
        .filter(|(_, help)| is_hidden(help))
        .map(|(scheme, _)| name(scheme))
        .collect();
    match names.as_slice() {
        [] => String::new(),
        names => {
            let lines: Vec<String> = names
                .iter()
                .map(|name| format!("  beadlock help {name}"))
                .collect();
            format!("More options for other targets:\n{}", lines.join("\n"))
        }
    }
}

/// The page of the protocol of this name.
pub fn page(named: &str) -> Option<StyledStr> {
    let scheme = Scheme::ALL
        .into_iter()
        .find(|scheme| name(*scheme) == named)?;
    let help = targets::help(scheme);
    let examples: Vec<String> = help
        .examples
        .lines()
        .map(|line| format!("  {line}"))
        .collect();
    let page = Command::new(name(scheme))
        .styles(style::STYLES)
        .max_term_width(COLUMNS)
        .disable_help_flag(true)
        .help_template(TEMPLATE)
        .about(format!("{}\n\n{}", help.about, help.text))
        .before_help(style::marked(&format!(
            "Examples:\n{}",
            examples.join("\n")
        )));
    Some(page.args(options(help.heading)).render_help())
}

/// The options below this heading, each under the commands that take it.
fn options(heading: &str) -> Vec<Arg> {
    let tree = Cli::command();
    let mut options: Vec<(Arg, Vec<&str>)> = Vec::new();
    for command in tree.get_subcommands() {
        for arg in command
            .get_arguments()
            .filter(|arg| arg.get_help_heading() == Some(heading))
        {
            match options
                .iter_mut()
                .find(|(known, _)| known.get_id() == arg.get_id())
            {
                Some((_, commands)) => commands.push(command.get_name()),
                None => options.push((shown(arg), vec![command.get_name()])),
            }
        }
    }
    let below = |(arg, commands): (Arg, Vec<&str>)| {
        arg.help_heading(format!("Options of {}", listed(&commands)))
    };
    options.into_iter().map(below).collect()
}

fn listed(names: &[&str]) -> String {
    match names {
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    }
}

/// The same option, without its relations to others that this page does not have.
fn shown(arg: &Arg) -> Arg {
    let takes = arg.get_action().takes_values();
    let mut shown = Arg::new(arg.get_id().clone()).action(if takes {
        ArgAction::Set
    } else {
        ArgAction::SetTrue
    });
    if let Some(long) = arg.get_long() {
        shown = shown.long(long.to_owned());
    }
    if let (Some(names), true) = (arg.get_value_names(), takes) {
        shown = shown.value_names(names.to_vec());
    }
    match arg.get_help() {
        Some(help) => shown.help(help.clone()),
        None => shown,
    }
}
