//! `beadlock hold make release`: what was meant, said so that it can be pasted.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use beadlock_base::escape::escaped;
use beadlock_core::target::Scheme;
use clap::CommandFactory;

use crate::command_line::Cli;
use beadlock_claim::words::{Part, to_type};

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
    Some(did_you_mean("beadlock {} -- {}", &parts))
}

/// Names that other tools give to these commands, each with beadlock's name.
const SYNONYMS: [(&str, &str); 5] = [
    ("run", "hold"),
    ("exec", "hold"),
    ("lock", "acquire"),
    ("unlock", "release"),
    ("extend", "renew"),
];

/// What a line means that no command line has a word for: another tool's name of a command, `--and` of `acquire`, `-c` in
/// place of a command, or a value below zero.
pub fn meant(words: &[OsString]) -> Option<String> {
    let mut cli = Cli::command();
    cli.build();
    let (before, words) = split_options(words, &cli);
    let (name, words) = words.split_first()?;
    if let Some((_, ours)) = SYNONYMS.into_iter().find(|(theirs, _)| name == theirs) {
        return Some(by_our_name(before, ours, words));
    }
    let command = cli.find_subcommand(name)?;
    let options = words.iter().position(|word| word == "--");
    let words = words.get(..options.unwrap_or(words.len()))?;
    below_zero(words, command)
        .or_else(|| several_of_acquire(name, words))
        .or_else(|| command_string(before, name, words, command))
}

fn by_our_name(before: &[OsString], ours: &'static str, words: &[OsString]) -> String {
    let line = [before, &[ours.into()], words].concat();
    if ours != "hold" {
        return did_you_mean("beadlock {}", &[Part::Words(line)]);
    }
    let has_dashes = words.iter().any(|word| word == "--");
    match missing_dashes(&line) {
        Some(hint) => hint,
        None if has_dashes => did_you_mean("beadlock {}", &[Part::Words(line)]),
        None => did_you_mean("beadlock {} -- CMD", &[Part::Words(line)]),
    }
}

/// An option with a value below zero, which looks like one more option.
fn below_zero(words: &[OsString], command: &clap::Command) -> Option<String> {
    let is_number = |word: &OsString| {
        let rest = word.as_encoded_bytes().strip_prefix(b"-");
        rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
    };
    let pairs = words.iter().zip(words.get(1..)?);
    let mut wrong = pairs
        .filter(|(option, value)| is_number(value) && width_of_option(option, command) == Some(2));
    let (option, value) = wrong.next()?;
    let forever = match option.to_str() {
        Some(wait @ ("--wait" | "--drain")) => format!("; {wait} forever has no end"),
        _ => String::new(),
    };
    Some(format!(
        "{} {}: it cannot be below zero{forever}",
        escaped(&option.to_string_lossy()),
        escaped(&value.to_string_lossy())
    ))
}

/// `acquire --and`: a claim that spans several commands is of one target.
fn several_of_acquire(name: &OsStr, words: &[OsString]) -> Option<String> {
    let is_and =
        |word: &OsString| word == "--and" || word.as_encoded_bytes().starts_with(b"--and=");
    if name != "acquire" || !words.iter().any(is_and) {
        return None;
    }
    let hold = to_type("beadlock hold {} -- CMD", &[Part::Words(words.to_vec())]);
    Some(format!(
        "acquire claims one target; acquire each of them, or claim all at once for one command: {hold}"
    ))
}

/// `hold -c 'cmd'`, as flock and sh have it.
fn command_string(
    before: &[OsString],
    name: &OsString,
    words: &[OsString],
    command: &clap::Command,
) -> Option<String> {
    let at = words.iter().position(|word| word == "-c")?;
    let (ours, string) = words.split_at_checked(at)?;
    let (options, target) = split_options(ours, command);
    let (target, more) = target.split_at_checked(target.len().min(1))?;
    let (more, rest) = split_options(more, command);
    if !["hold", "cycle", "update"]
        .iter()
        .any(|running| name == running)
        || !rest.is_empty()
    {
        return None;
    }
    let ours = [before, std::slice::from_ref(name), options, target, more].concat();
    let parts = [Part::Words(ours), Part::Words(string.to_vec())];
    Some(did_you_mean("beadlock {} -- sh {}", &parts))
}

fn did_you_mean(template: &'static str, parts: &[Part<'_>]) -> String {
    format!("did you mean: {}", to_type(template, parts))
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
    fn says_what_other_words_mean() {
        for (line, expected) in [
            ("unlock", "release"),
            ("extend", "renew"),
            ("unlock .beads --id x", "release .beads --id x"),
            ("lock", "acquire"),
            ("-q lock src", "-q acquire src"),
            ("run make -j4", "hold -- make -j4"),
            ("exec -- make", "hold -- make"),
            ("run", "hold -- CMD"),
            ("run src make", "hold src -- make"),
            ("hold -c ls", "hold -- sh -c ls"),
            ("hold file:x -c ls", "hold file:x -- sh -c ls"),
            (
                "hold --wait 3 file:x -q -c ls",
                "hold --wait 3 file:x -q -- sh -c ls",
            ),
            ("cycle -c ls", "cycle -- sh -c ls"),
        ] {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            let expected = format!("did you mean: beadlock {expected}");
            assert_eq!(meant(&words), Some(expected), "{line}");
        }
        for (line, words) in [
            (
                "hold --wait -5 -- make",
                "--wait -5: it cannot be below zero; --wait forever has no end",
            ),
            (
                "wait --wait -1s",
                "--wait -1s: it cannot be below zero; --wait forever has no end",
            ),
            (
                "acquire .beads --and file:x",
                "beadlock hold .beads --and file:x -- CMD",
            ),
        ] {
            let typed: Vec<_> = line.split(' ').map(OsString::from).collect();
            let said = meant(&typed).unwrap_or_default();
            assert!(said.ends_with(words), "{line}: {said}");
        }
        for line in [
            "hold -- sh -c x",
            "hold -x",
            "check .beads",
            "hold -- make -5",
            "hold a b -c x",
        ] {
            let typed: Vec<_> = line.split(' ').map(OsString::from).collect();
            assert_eq!(meant(&typed), None, "{line}");
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
