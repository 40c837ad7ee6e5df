//! Every template of the sources, with every kind of part, through real shells.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use beadlock_base::shell::{Part, to_type};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

use super::recorder::{Argv, Recorder, shells};
use super::sources::{Literal, is_made_elsewhere, is_template, literals};

/// What names are made of.
const FRAGMENTS: [&[u8]; 34] = [
    b";touch${IFS}PWN",
    b"`touch PWN`",
    b"$(touch PWN)",
    b"$PATH",
    b"${PATH}",
    b"'",
    b"\"",
    b"\\",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"*",
    b"?",
    b"[a-z]",
    b"{a,b}",
    b"~",
    b"~root",
    b"=ls",
    b"!",
    b"!!",
    b"#",
    b"&",
    b"| touch PWN",
    b">PWN",
    b"<PWN",
    b"%s%n",
    b"\\033",
    b"-",
    b"--help",
    b"\x1b[2J",
    b"\xe2\x80\xae",
    b"\xff",
    b"a",
];

fn name() -> impl Strategy<Value = OsString> {
    let fragment = prop_oneof![
        8 => select(FRAGMENTS.to_vec()).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(1u8.., 1..4),
    ];
    prop::collection::vec(fragment, 1..5)
        .prop_map(|fragments| OsString::from_vec(fragments.concat()))
}

/// Which kind of part a name becomes.
#[derive(Debug, Clone, Copy)]
enum As {
    Path,
    Word,
    Value,
    Paths,
    Words,
}

/// The part, and the words that are meant by it.
fn part(name: &OsStr, kind: As) -> (Part<'_>, Argv) {
    let is_dashed = name.as_bytes().starts_with(b"-");
    let path = || {
        if is_dashed {
            Path::new(".").join(name).into()
        } else {
            name.to_owned()
        }
    };
    match kind {
        As::Path => (Part::Path(Path::new(name)), vec![path()]),
        As::Word => (Part::Word(name), vec![name.to_owned()]),
        As::Value if is_dashed => {
            let glued = [b"--id=", name.as_bytes()].concat();
            (Part::Value("--id", name), vec![OsString::from_vec(glued)])
        }
        As::Value => (
            Part::Value("--id", name),
            vec!["--id".into(), name.to_owned()],
        ),
        As::Paths => (
            Part::Paths(vec![Path::new(name), Path::new("b c")]),
            vec![path(), "b c".into()],
        ),
        As::Words => (Part::Words(vec![name.to_owned()]), vec![name.to_owned()]),
    }
}

/// The calls that a template with these words means.
fn meant(template: &str, words: &[Argv]) -> Vec<Argv> {
    let mut words = words.iter();
    let of_command = |command: &str| {
        // A program in `T=$(…)` is called first, and recorders print nothing for T.
        let command = command.trim();
        let command = command
            .strip_prefix("T=$(")
            .and_then(|command| command.strip_suffix(')'))
            .unwrap_or(command);
        let mut call = Argv::new();
        let mut pieces = command.split(' ').filter(|word| !word.is_empty());
        while let Some(piece) = pieces.next() {
            match piece.strip_prefix('\'') {
                Some(first) => call.push(unquoted(first, &mut pieces)),
                None if piece == "{}" => call.extend(words.next().expect("a part").clone()),
                None if piece == "\"$T\"" => call.push(OsString::new()),
                None => call.push(piece.into()),
            }
        }
        call
    };
    let calls = template.split(['|', ';']).map(of_command);
    // Shells have `[` built in. A template that something is appended to ends in an empty command.
    calls
        .filter(|call| call.first().is_some_and(|program| program != "["))
        .collect()
}

/// The word that begins with `first`, behind a quote, and ends in `more` before the next quote.
fn unquoted<'a>(first: &str, more: &mut impl Iterator<Item = &'a str>) -> OsString {
    let mut word = first.to_owned();
    while !word.ends_with('\'') {
        word.push(' ');
        word.push_str(more.next().expect("the end of a quoted word"));
    }
    word.pop();
    word.into()
}

/// The template so that recorders see all of it. A line that adds to a file runs `printf`, which shells have built in
/// and which quoting itself uses: here it calls `append`. Files to write or read become arguments. Each command of a
/// chain or group is called, whatever the others return.
fn recordable(template: &str) -> String {
    let mut text = template
        .trim_start_matches(" && ")
        .replace("&&", ";")
        .replace(">>", "")
        .replace("<{}", "{}")
        .replace("{ ", "")
        .replace("; }", "");
    while let Some(at) = text.find("printf '") {
        let format = at + "printf '".len();
        let end = format + text[format..].find('\'').expect("the end of a format");
        text.replace_range(at..=end, "append");
    }
    text
}

fn templates() -> Vec<&'static str> {
    let mut templates: Vec<&'static str> = literals()
        .into_iter()
        .filter(is_template)
        .map(|literal| &*Box::leak(recordable(&literal.text).into_boxed_str()))
        .collect();
    templates.sort_unstable();
    templates.dedup();
    templates
}

#[test]
fn every_template_runs_what_it_means_and_nothing_else() {
    let (templates, recorder) = (templates(), Recorder::new());
    assert!(
        templates.len() >= 30,
        "the templates are not found any more: {templates:?}"
    );
    let kinds = select(vec![As::Path, As::Word, As::Value, As::Paths, As::Words]);
    let mut runner = TestRunner::new(Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    });
    let names = prop::collection::vec((name(), kinds), templates.len() * 3);
    let (pasted, refused) = (Cell::new(0_usize), Cell::new(0_usize));
    let outcome = runner.run(&names, |names| {
        let (mut lines, mut calls, mut names) = (Vec::new(), Vec::new(), names.iter());
        for template in &templates {
            let count = template.matches("{}").count();
            let (parts, words): (Vec<_>, Vec<_>) =
                names.by_ref().take(count).map(|(name, kind)| part(name, *kind)).unzip();
            let line = to_type(template, &parts);
            if line.starts_with("# no command to paste: ") {
                let is_dashed = |part: &Part<'_>| matches!(part, Part::Word(word) if word.as_bytes().starts_with(b"-"));
                let ends_so = words.iter().flatten().any(|word| word.as_bytes().ends_with(b"\n"));
                prop_assert!(parts.iter().any(is_dashed) || ends_so, "{parts:?}");
                refused.set(refused.get() + 1);
            } else {
                calls.extend(meant(template, &words));
                pasted.set(pasted.get() + 1);
            }
            lines.push(line);
        }
        calls.sort();
        for shell in shells() {
            let mut called = recorder.paste(shell, &lines);
            called.sort();
            prop_assert_eq!(&called, &calls, "{}:\n{}", shell, lines.join("\n"));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (pasted, refused) = (pasted.get(), refused.get());
    assert!(
        pasted > 10 * refused.max(10),
        "{pasted} lines were pasted, {refused} refused"
    );
}

/// The same names as they were quoted before run `touch`: the test can fail.
#[test]
fn a_name_without_quotes_runs_something_else() {
    let recorder = Recorder::new();
    let called = recorder.paste(
        "/bin/sh",
        &["git push -u REMOTE x;touch${IFS}PWN".to_owned()],
    );
    assert_eq!(
        called,
        [
            vec!["git", "push", "-u", "REMOTE", "x"],
            vec!["touch", "PWN"]
        ]
    );
}

#[test]
fn no_command_is_made_elsewhere() {
    let literal = |before: &str, text: &str| {
        is_made_elsewhere(&Literal {
            file: "x".into(),
            before: before.to_owned(),
            text: text.to_owned(),
        })
    };
    assert!(
        literal("format!(", "no upstream; type: git push -u REMOTE {0}"),
        "as it was"
    );
    assert!(
        literal("format!(", "git -C {} pull") && literal("format!(", "ssh -- {host} ps -p {pid}")
    );
    assert!(
        !literal("to_type(", "git -C {} pull") && !literal("format!(", "{why}; type: {command}")
    );
    let literals = literals();
    assert!(literals.len() > 2000, "{} literals", literals.len());
    let wrong: Vec<_> = literals
        .iter()
        .filter(|literal| is_made_elsewhere(literal))
        .collect();
    let wrong: Vec<_> = wrong
        .iter()
        .map(|it| format!("{}: {}", it.file.display(), it.text))
        .collect();
    assert!(
        wrong.is_empty(),
        "made without shell::to_type, and so not quoted:\n{}",
        wrong.join("\n")
    );
}
