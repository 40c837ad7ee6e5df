//! `beadlock hold make release`: what was meant, said so that it can be pasted.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use beadlock_checker::internal::target::Scheme;
use clap::CommandFactory;

use super::Cli;
use crate::words::{Part, to_type};

/// `did you mean: beadlock hold -- make release`, when `words` (without the program's name) are a `hold`, a `cycle` or
/// an `update` whose command is not behind `--`.
pub fn missing_dashes(words: &[OsString]) -> Option<String> {
    let mut cli = Cli::command();
    cli.build();
    let (before, words) = split_options(words, &cli);
    let (name, words) = words.split_first()?;
    if name != "hold" && name != "cycle" && name != "update" {
        return None;
    }
    let running = cli.find_subcommand(name)?;
    let (options, mut command) = split_options(words, running);
    let mut ours: Vec<&OsString> = before.iter().chain([name]).chain(options).collect();
    if let Some((first, rest)) = command.split_first()
        && is_target(first)
    {
        let (options, rest) = split_options(rest, running);
        ours.push(first);
        ours.extend(options);
        command = rest;
    }
    // A word with a dash is an option that is not known, and a `--` is where the command begins: clap says it better.
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if command.first().is_none_or(is_option) || command.iter().any(|word| word == "--") {
        return None;
    }
    let parts = [
        Part::Words(ours.into_iter().cloned().collect()),
        Part::Words(command.to_vec()),
    ];
    Some(format!(
        "did you mean: {}",
        to_type("beadlock {} -- {}", &parts)
    ))
}

/// The options of `command`, which is built, at the front of `words`, with their values, and the rest.
pub fn split_options<'a>(
    words: &'a [OsString],
    command: &clap::Command,
) -> (&'a [OsString], &'a [OsString]) {
    let mut at = 0;
    while let Some(width) = words
        .get(at)
        .and_then(|word| width_of_option(word, command))
    {
        at = (at + width).min(words.len());
    }
    words.split_at(at)
}

/// 1 for an option that stands alone, 2 for one whose value is the next word; `None` for anything else.
fn width_of_option(word: &OsStr, command: &clap::Command) -> Option<usize> {
    let word = word.to_str()?;
    let (name, has_value) = word
        .split_once('=')
        .map_or((word, false), |(name, _)| (name, true));
    let is_it = |arg: &&clap::Arg| {
        name.strip_prefix("--")
            .is_some_and(|long| arg.get_long() == Some(long))
            || name
                .strip_prefix('-')
                .is_some_and(|short| arg.get_short().is_some_and(|c| short == c.to_string()))
    };
    let arg = command.get_arguments().find(is_it)?;
    let takes_next = arg.get_action().takes_values() && !has_value && !arg.is_require_equals_set();
    Some(if takes_next { 2 } else { 1 })
}

fn is_target(word: &OsStr) -> bool {
    Scheme::split(word.as_encoded_bytes()).is_some() || Path::new(word).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(line: &str) -> Option<String> {
        missing_dashes(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn says_what_was_meant() {
        let cases = [
            ("hold make release", "hold -- make release"),
            ("hold make", "hold -- make"),
            (
                "hold make -j4 release --keep-going",
                "hold -- make -j4 release --keep-going",
            ),
            (
                "hold --wait 5s make release",
                "hold --wait 5s -- make release",
            ),
            (
                "hold --wait=5s --no-wait -q make -v",
                "hold --wait=5s --no-wait -q -- make -v",
            ),
            ("hold --json make", "hold --json -- make"),
            ("-q hold make", "-q hold -- make"),
            ("hold beads:x/.beads make", "hold beads:x/.beads -- make"),
            ("hold lock:x make", "hold lock:x -- make"),
            ("hold memory:x make", "hold memory:x -- make"),
            (
                "hold --lock-dir d tower:x make",
                "hold --lock-dir d tower:x -- make",
            ),
            ("hold src make --wait 3", "hold src -- make --wait 3"),
            ("hold src --wait 3 make", "hold src --wait 3 -- make"),
            ("cycle make -j4", "cycle -- make -j4"),
            (
                "cycle --reap-proven-dead src make",
                "cycle --reap-proven-dead src -- make",
            ),
            ("update file:x jq .n", "update file:x -- jq .n"),
            ("hold echo $HOME", "hold -- echo '$HOME'"),
        ];
        for (line, meant) in cases {
            assert_eq!(
                hint(line),
                Some(format!("did you mean: beadlock {meant}")),
                "{line}"
            );
        }
    }

    #[test]
    fn knows_the_target_of_every_scheme() {
        for prefix in Scheme::ALL.map(Scheme::prefix) {
            let meant = format!("did you mean: beadlock hold {prefix}x -- make");
            assert_eq!(hint(&format!("hold {prefix}x make")), Some(meant));
        }
    }

    #[test]
    fn says_nothing_where_that_is_not_what_is_wrong() {
        for line in [
            "hold",
            "hold --wait 5s",
            "hold src",
            "hold --",
            "hold -- make",
            "hold src -- make",
            "hold --wiat 5s -- make",
            "hold --wiat 5s make",
            "hold src 5s -- make",
            "check make",
            "",
            "-q",
        ] {
            assert_eq!(hint(line), None, "{line}");
        }
    }
}
