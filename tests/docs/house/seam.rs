//! One seam for the protocols in the checker: only their folders and the targets name one. And `unsafe` stays in one
//! module of one crate.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::checkout;

use super::source::code;

const PROTOCOLS: [&str; 5] = ["beads", "file", "lock", "memory", "tower"];

/// The enums with a variant for each protocol.
const ENUMS: [&str; 4] = ["Dialect", "Record", "Scheme", "Target"];

/// What names a protocol in this text: a folder, a variant, the record of one, the scheme of a target.
fn names_in(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let code = code(text);
    let uncommented = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let strings: Vec<&str> = uncommented.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
    let lists = code.split("dialect::{").skip(1).filter_map(|list| list.split(';').next());
    let listed: Vec<&str> = lists.flat_map(|list| list.split(['{', '}', ',', ':', ' ', '\n'])).collect();
    let mut found = Vec::new();
    for protocol in PROTOCOLS {
        let variant = [protocol[..1].to_uppercase(), protocol[1..].to_owned()].concat();
        let mut names = vec![format!("dialect::{protocol}"), format!("as_{protocol}")];
        names.extend(ENUMS.map(|of| format!("{of}::{variant}")));
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_named = |name: &String| code.match_indices(name).any(|(at, _)| ends(&code[at + name.len()..]));
        found.extend(names.into_iter().filter(is_named));
        found.extend(
            listed.iter().filter(|name| **name == protocol).map(|name| format!("dialect::{{{name}}}")),
        );
        let is_target = |text: &&&str| {
            text.strip_prefix(protocol).is_some_and(|rest| rest.starts_with(':') && !rest.starts_with("::"))
        };
        found.extend(strings.iter().filter(is_target).map(|text| format!("\"{text}\"")));
    }
    found
}

fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let is_test = path.ends_with("tests.rs") || path.ends_with("tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !is_test {
            found.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
    }
}

#[test]
fn only_the_folders_of_the_protocols_and_the_targets_name_one() {
    let src = checkout().join("checker/src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let is_free = |path: &Path| path.starts_with(src.join("dialect")) || path == src.join("target.rs");
    let (free, bound): (Vec<_>, Vec<_>) = files.into_iter().partition(|(path, _)| is_free(path));
    let named =
        bound.iter().flat_map(|(path, text)| names_in(text).into_iter().map(move |name| (path, name)));
    assert_eq!(named.collect::<Vec<_>>(), []);
    let named_where_it_may_be: usize = free.iter().map(|(_, text)| names_in(text).len()).sum();
    assert!(named_where_it_may_be > 10, "the search finds little: {named_where_it_may_be}");
}

#[test]
fn each_way_to_name_a_protocol_is_found() {
    for (text, name) in [
        ("use crate::dialect::tower::Answer;", "dialect::tower"),
        ("match record { Record::Memory(_) => {} }", "Record::Memory"),
        ("if dialect == Dialect::Beads {}", "Dialect::Beads"),
        ("record.as_tower().is_some()", "as_tower"),
        ("use crate::dialect::{Record, memory};", "dialect::{memory}"),
        ("format!(\"lock:{path}\")", "\"lock:{path}\""),
    ] {
        assert_eq!(names_in(text), [name], "{text}");
    }
    for text in
        ["// Record::Memory", "/// `lock:PATH`", "\"lock\"", "dialect::memory_limits", "\"file::name\""]
    {
        assert_eq!(names_in(text), [""; 0], "{text}");
    }
}

#[test]
fn unsafe_code_is_in_the_module_of_the_system_calls_alone() {
    let mut files = Vec::new();
    for name in ["checker", "integration", "agent"] {
        sources(&checkout().join(name).join("src"), &mut files);
    }
    let is_unsafe = |text: &str| {
        code(text).split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    };
    let found: Vec<_> = files.iter().filter(|(_, text)| is_unsafe(text)).map(|(path, _)| path).collect();
    let module = checkout().join("checker/src/sys");
    assert!(found.len() > 3, "the search finds little: {found:?}");
    assert!(found.iter().all(|path| path.starts_with(&module)), "{found:?}");
}
