//! `beadlock merge`, before any other command: as git's merge driver it ends with 0, 1 or 129, whatever happens.
//!
//! Git takes every code from 1 to 128 for a conflict whose markers are in OURS. Without markers there it would commit
//! ours as the result, and theirs would be lost. So nothing of this command passes through the exit codes of the others:
//! neither a usage error (2), nor a failure (1), nor a panic (101).

use beadlock_claim::error::Problem;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use beadlock_base::sys;
use clap::{CommandFactory, Parser, error::ErrorKind};

use super::{help, hint};
use crate::command_line::{Cli, CliCommand};
use crate::commands::merge::{MergeArgs, merge_files};
use crate::settings::{common, common_unresolved};
use beadlock_base::stdout::print;
use beadlock_claim::envelope::Request;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Error, Exit};
use beadlock_console::program_end::ProgramEnd;
use beadlock_console::{
    Console,
    answers::{not_written, print_envelope},
};

const NAME: &str = "merge";

/// Whether these words, with the program's name, are a merge: also where an option before the command is wrong.
pub fn is_typed(words: &[OsString]) -> bool {
    let words = words.get(1..).unwrap_or_default();
    if !words.iter().any(|word| word == NAME) {
        return false;
    }
    let mut cli = Cli::command();
    cli.build();
    files_and_options(words, &cli)
        .first()
        .is_some_and(|word| *word == NAME)
}

/// The words from the first one on that is not an option of `command`, known or not, and not the value of a known one.
fn files_and_options<'a>(mut words: &'a [OsString], command: &clap::Command) -> &'a [OsString] {
    loop {
        words = hint::split_options(words, command).1;
        match words.split_first() {
            Some((word, rest)) if word != "--" && word.as_encoded_bytes().starts_with(b"-") => {
                words = rest;
            }
            _ => return words,
        }
    }
}

/// The end of `merge`; a panic in it ends with 129.
pub fn guarded(merge: impl FnOnce() -> ProgramEnd) -> ProgramEnd {
    // It looks at nothing that a panic could have left half done.
    let ended = catch_unwind(AssertUnwindSafe(merge));
    ended.unwrap_or(ProgramEnd::Code(Exit::NotMerged.code()))
}

/// Reads the words, merges, and answers.
pub fn run(words: &[OsString]) -> ProgramEnd {
    let request = Request::begin();
    sys::ignore_size_limit();
    let environment = Environment::read();
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return not_understood(&error, words, &environment, request),
    };
    let json = cli.common.json;
    let common = match common(&cli.common, &environment, request.clone()) {
        // Git's own stdout is the driver's: only what was typed puts something there, and no variable.
        Ok(common) => Console {
            json: json.unwrap_or(false),
            ..common
        },
        Err(error) => {
            let json = json.unwrap_or(false);
            return not_merged(error, &common_unresolved(json, &environment, request));
        }
    };
    match cli.command {
        Some(CliCommand::Merge(typed)) => merge(&typed, &common),
        _ => not_merged(Error::usage("this is not a merge"), &common),
    }
}

/// Merges the files that were typed, and answers.
pub fn merge(typed: &MergeArgs, common: &Console) -> ProgramEnd {
    match merge_files(typed, &common.talk) {
        Ok((exit, data)) => {
            // The file is written. An answer that cannot be printed does not undo that.
            print_envelope(common, data, None);
            ProgramEnd::Code(exit.code())
        }
        Err(error) => not_merged(error, common),
    }
}

fn not_merged(error: Error, common: &Console) -> ProgramEnd {
    let error = error.ending(Exit::NotMerged);
    common.talk.error(&error.to_string());
    print_envelope(common, serde_json::Value::Null, Some(&error));
    ProgramEnd::Code(error.exit().code())
}

/// Help is an answer where no file is named. Beside files it would be taken for a merge.
fn not_understood(
    error: &clap::Error,
    words: &[OsString],
    environment: &Environment,
    request: Request,
) -> ProgramEnd {
    let typed = words.get(1..).unwrap_or_default();
    let json = typed.iter().any(|word| word == "--json");
    let common = common_unresolved(json, environment, request);
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    if !is_help {
        let rendered = error.render().to_string();
        let message = rendered.trim_start_matches("error: ").trim_end();
        return not_merged(Error::usage(message), &common);
    }
    if has_files(typed) {
        let message = "--help and --version are answered without files; nothing was merged";
        return not_merged(Error::usage(message), &common);
    }
    match print(help::text(words, error, environment)) {
        Ok(()) => ProgramEnd::Code(Exit::Done.code()),
        Err(why) => not_merged(not_written(&why), &common),
    }
}

/// Whether there is any word behind `merge` that is not an option.
fn has_files(words: &[OsString]) -> bool {
    let mut cli = Cli::command();
    cli.build();
    let behind = files_and_options(words, &cli).get(1..).unwrap_or_default();
    cli.find_subcommand(NAME)
        .is_some_and(|merge| !files_and_options(behind, merge).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_merge_is_known_whatever_stands_before_it() {
        for line in [
            "beadlock merge",
            "beadlock merge a b c",
            "beadlock -q --color never merge a b c",
            "beadlock --quiett merge a b c",
            "beadlock --help merge a b c",
            "beadlock --lock-dir d merge",
        ] {
            assert!(is_typed(&words(line)), "{line}");
        }
        for line in [
            "beadlock",
            "beadlock hold merge",
            "beadlock help merge",
            "beadlock hold -- merge",
            "beadlock --lock-dir merge status",
            "beadlock -- beadlock merge",
            "merge status",
        ] {
            assert!(!is_typed(&words(line)), "{line}");
        }
    }

    #[test]
    fn files_are_known_among_options() {
        for line in ["merge --help", "--help merge", "merge -q --ours x --help"] {
            assert!(!has_files(&words(line)), "{line}");
        }
        for line in [
            "merge a --help",
            "merge --help a",
            "--help merge a b c",
            "merge --bogus a",
            "merge -- a",
        ] {
            assert!(has_files(&words(line)), "{line}");
        }
    }

    #[test]
    fn a_panic_ends_with_129() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let end = guarded(|| panic!("within itself"));
        std::panic::set_hook(hook);
        assert_eq!(end, ProgramEnd::Code(129));
        assert_eq!(guarded(|| ProgramEnd::Code(1)), ProgramEnd::Code(1));
    }
}
