//! `unsafe` stays in one module of one crate.

use std::fs;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::checkout;

use super::source::code;

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
fn unsafe_code_is_in_the_module_of_the_system_calls_alone() {
    let mut files = Vec::new();
    for name in ["checker", "integration", "integration/fleet", "agent"] {
        sources(&checkout().join(name).join("src"), &mut files);
    }
    let is_unsafe =
        |text: &str| code(text).split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe");
    let found: Vec<_> = files.iter().filter(|(_, text)| is_unsafe(text)).map(|(path, _)| path).collect();
    let module = checkout().join("checker/src/sys");
    assert!(found.len() > 3, "the search finds little: {found:?}");
    assert!(found.iter().all(|path| path.starts_with(&module)), "{found:?}");
}
