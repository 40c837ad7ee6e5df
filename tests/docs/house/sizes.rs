//! How long functions, files and lines are, and which names types have.

use std::collections::BTreeMap;

use super::lexer::{Kind, Source, end_of_item};
use super::workspace::{File, Workspace};

pub const LONGEST_FUNCTION: usize = 80;
pub const LONGEST_FILE: usize = 400;
pub const WIDEST_LINE: usize = 120;

/// Functions that are too long: `hold.rs: hold 189`.
pub fn long_functions(workspace: &Workspace) -> Vec<String> {
    let of_file = |file: &File| {
        let functions = functions(&file.source);
        let long = functions.into_iter().filter(|(_, lines)| *lines > LONGEST_FUNCTION);
        long.map(|(name, lines)| format!("{}: {name} {lines}", file.path)).collect::<Vec<_>>()
    };
    workspace.files().flat_map(of_file).collect()
}

/// Each function with a body, and its lines from `fn` to the closing brace.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let all = &source.lexemes;
    let mut found = Vec::new();
    for at in 0..all.len() {
        let name = all.get(at + 1).and_then(|lexeme| lexeme.word());
        let (Some("fn"), Some(name)) = (all[at].word(), name) else { continue };
        let end = end_of_item(all, at);
        if all[end].is('}') {
            found.push((name.to_owned(), all[end].line - all[at].line + 1));
        }
    }
    found
}

/// Files that are too long: `cycle/run.rs 420`.
pub fn long_files(workspace: &Workspace) -> Vec<String> {
    let long = workspace.files().filter(|file| file.source.lines.len() > LONGEST_FILE);
    long.map(|file| format!("{} {}", file.path, file.source.lines.len())).collect()
}

/// How many lines are too wide.
pub fn wide_lines(workspace: &Workspace) -> usize {
    let lines = workspace.files().flat_map(|file| &file.source.lines);
    lines.filter(|(_, line)| line.chars().count() > WIDEST_LINE).count()
}

/// The lines of each crate, and of all.
pub fn lines(workspace: &Workspace) -> Vec<(&'static str, usize)> {
    let of = |files: &[File]| files.iter().map(|file| file.source.lines.len()).sum();
    workspace.crates.iter().map(|(name, files)| (*name, of(files))).collect()
}

/// Each name of a type, and how many types have it.
pub fn type_names(workspace: &Workspace) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for file in workspace.files() {
        for pair in file.source.lexemes.windows(2) {
            let is_type = matches!(pair[0].word(), Some("struct" | "enum" | "trait" | "union"));
            if let (true, Kind::Word(name)) = (is_type, &pair[1].kind) {
                *names.entry(name.clone()).or_default() += 1;
            }
        }
    }
    names
}

#[test]
fn a_function_is_measured_from_its_name_to_its_last_brace() {
    let source = Source::read("trait T {\n  fn without(a: [u8; 2]);\n}\nfn one() {\n  if x {\n  }\n}\n");
    assert_eq!(functions(&source), [("one".to_owned(), 4)]);
}
