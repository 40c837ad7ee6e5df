//! The string literals of the crates: which of them are templates of commands, and which make a command without
//! the one function.

use std::fs;
use std::path::{Path, PathBuf};

use super::recorder::PROGRAMS;

/// A literal and what stands before it.
pub struct Literal {
    pub file: PathBuf,
    pub before: String,
    pub text: String,
}

/// All in the sources, without tests and comments.
pub fn literals() -> Vec<Literal> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the repository");
    let mut found = Vec::new();
    for room in [
        "checker/base/src",
        "checker/core/src",
        "checker/supervise/src",
        "agent/src",
        "agent/git/src",
        "agent/repository/src",
        "agent/trust/src",
        "integration/src",
        "integration/claim/src",
        "integration/cli/src",
        "integration/console/src",
        "integration/explain/src",
        "integration/files/src",
        "integration/log/src",
        "integration/oncall/src",
        "integration/session/src",
        "integration/python/src",
    ] {
        let before = found.len();
        below(&top.join(room), &mut found);
        assert!(found.len() > before, "nothing was found in {room}");
    }
    found
}

fn below(dir: &Path, found: &mut Vec<Literal>) {
    for entry in fs::read_dir(dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .flatten()
    {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "tests" {
                below(&path, found);
            }
        } else if path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("a source");
            let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
            of_text(&path, &text[..end], found);
        }
    }
}

fn of_text(file: &Path, text: &str, found: &mut Vec<Literal>) {
    let text: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let text = text.join("\n");
    let mut rest = text.as_str();
    let mut before = String::new();
    while let Some(at) = rest.find('"') {
        before.push_str(&rest[..at]);
        // `'"'` and `b'"'` are characters.
        if rest[..at].ends_with('\'') && rest[at + 1..].starts_with('\'') {
            before.push('"');
            rest = &rest[at + 1..];
            continue;
        }
        let (literal, length) = read(&rest[at + 1..]);
        let from = before.char_indices().rev().nth(79).map_or(0, |(at, _)| at);
        found.push(Literal {
            file: file.to_owned(),
            before: before[from..].to_owned(),
            text: literal,
        });
        before.push_str("\"\"");
        rest = &rest[at + 1 + length..];
    }
}

/// The literal that begins here, and its length with the quote.
fn read(text: &str) -> (String, usize) {
    let mut literal = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (literal, at + 1),
            '\\' => match characters.next() {
                Some((_, '\n')) => {
                    while characters
                        .next_if(|(_, next)| next.is_whitespace())
                        .is_some()
                    {}
                }
                Some((_, next)) => literal.push(next),
                None => {}
            },
            other => literal.push(other),
        }
    }
    (literal, text.len())
}

/// It begins with a program and has a place for a name.
pub fn is_template(literal: &Literal) -> bool {
    // It may be the end of a chain, or begin with what a program prints.
    let text = literal.text.trim_start_matches(" && ");
    let text = text.strip_prefix("T=$(").unwrap_or(text);
    let first = text.split(' ').next().unwrap_or_default();
    let is_made_otherwise = ["format!(", "format_args!("]
        .iter()
        .any(|name| literal.before.trim_end().ends_with(name));
    literal.text.contains("{}") && PROGRAMS.contains(&first) && !is_made_otherwise
}

/// It has a command with a name in it, and is not a template: the name would not be quoted.
pub fn is_made_elsewhere(literal: &Literal) -> bool {
    let is_begun = |at: usize| literal.text[..at].ends_with([' ', '(', '`']) || at == 0;
    let commands = COMMANDS.iter().flat_map(|command| {
        literal
            .text
            .match_indices(command)
            .filter(|(at, _)| is_begun(*at))
            .map(|(at, _)| at)
    });
    // Up to the end of the command a name is put in.
    let mut names = commands.filter(|at| {
        let command = literal.text[*at..]
            .split([';', ',', '`', '|'])
            .next()
            .unwrap_or_default();
        command.contains('{')
    });
    !is_template(literal) && names.next().is_some()
}

/// How commands begin, and prose does not.
const COMMANDS: [&str; 44] = [
    "git -C",
    "git rm ",
    "git push ",
    "git pull ",
    "git add ",
    "git commit ",
    "git config ",
    "git checkout ",
    "git switch ",
    "git remote ",
    "beadlock hold ",
    "beadlock acquire ",
    "beadlock release ",
    "beadlock cycle ",
    "beadlock check ",
    "beadlock status ",
    "beadlock list ",
    "beadlock wait ",
    "beadlock break ",
    "beadlock doctor ",
    "beadlock log ",
    "beadlock write ",
    "beadlock append ",
    "beadlock --",
    "beadlock-agent --",
    "ssh --",
    "ssh {",
    "ps -",
    "kill -",
    "type: kill ",
    "chmod {",
    "chmod +",
    "chmod a",
    "chmod 0",
    "chmod 7",
    "chmod 2",
    "ls -",
    "sudo ",
    "mkdir -",
    "rm -",
    "lsof ",
    "namei ",
    "nsenter ",
    "tail -",
];
