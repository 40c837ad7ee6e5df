//! The house in figures.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::skip::checkout;

use super::face::documented;
use super::graph::{circles, pairs};
use super::rooms::HOUSES;
use super::source::{Crate, code};
use super::workspace::Workspace;
use super::{seam, sizes};

/// Prints the table.
pub fn print() {
    for house in HOUSES {
        let read = Crate::read(&checkout().join(house.name).join("src"));
        let around = circles(&read.arrows);
        row(
            &format!("import circle in {}/src", house.name),
            &match around.first() {
                None => "none".to_owned(),
                Some(largest) => {
                    format!("{} of {} rooms: {}", largest.len(), read.rooms.len(), largest.join(", "))
                }
            },
        );
        row(
            "  rooms, floors, pairs that import each other, exceptions",
            &format!(
                "{}, {}, {}, {}",
                read.rooms.len(),
                house.order.len(),
                pairs(&read.arrows),
                house.exceptions.len()
            ),
        );
        let mut inside: Vec<(usize, &String)> =
            read.inside.iter().filter_map(|(room, arrows)| Some((circles(arrows).first()?.len(), room))).collect();
        inside.sort_by_key(|(files, _)| Reverse(*files));
        let inside: Vec<String> = inside.iter().map(|(files, room)| format!("{room} {files}")).collect();
        row("  files of a room that import each other in a circle", &inside.join(", "));
    }
    let files = committed();
    let page = documented();
    row("documented names of the checker, on one page", &format!("{}: {}", page.len(), page.join(", ")));
    row("comments that cite pages outside the repository", &citations(&files).to_string());
    row("test harnesses with their own Scene", &list(&scenes(&files)));
    row("places that know all log lines", &list(&places_with_log_lines(&files)));
    print_sizes(&Workspace::read());
}

/// What the layering test holds against `debts.rs`.
fn print_sizes(workspace: &Workspace) {
    let enums: Vec<String> =
        seam::enums(workspace).into_iter().map(|found| format!("{} in {}", found.name, found.file)).collect();
    row("enums of the protocols (to reach: 2)", &counted(&enums));
    for (protocol, files) in seam::places(workspace) {
        let places: usize = files.values().map(BTreeSet::len).sum();
        row(
            &format!("places that name {protocol} outside its folders (to reach: 0)"),
            &format!("{places} in {} files", files.len()),
        );
    }
    row(
        &format!("functions above {} lines (to reach: 0)", sizes::LONGEST_FUNCTION),
        &counted(&sizes::long_functions(workspace)),
    );
    row(&format!("files above {} lines (to reach: 0)", sizes::LONGEST_FILE), &counted(&sizes::long_files(workspace)));
    row(
        &format!("lines above {} columns (to reach: 0)", sizes::WIDEST_LINE),
        &sizes::wide_lines(workspace).to_string(),
    );
    let lines = sizes::lines(workspace);
    let each: Vec<String> = lines.iter().map(|(name, lines)| format!("{name} {lines}")).collect();
    let all: usize = lines.iter().map(|(_, lines)| lines).sum();
    row("lines in src without unit tests (to reach: 41000, checker 8700)", &format!("{all}: {}", each.join(", ")));
    row("types", &type_names(workspace));
}

/// How many types share how many names, and the names that occur most.
fn type_names(workspace: &Workspace) -> String {
    let names = sizes::type_names(workspace);
    let types: usize = names.values().sum();
    let mut shared: Vec<(&String, &usize)> = names.iter().filter(|(_, types)| **types > 1).collect();
    shared.sort_by_key(|(_, types)| Reverse(**types));
    let sharing: usize = shared.iter().map(|(_, types)| **types).sum();
    let most: Vec<String> = shared.iter().take(5).map(|(name, types)| format!("{name} {types}")).collect();
    format!("{types} with {} names; {sharing} share {} of these: {}", names.len(), shared.len(), most.join(", "))
}

fn counted(all: &[String]) -> String {
    if all.is_empty() { "0".to_owned() } else { format!("{}: {}", all.len(), all.join(", ")) }
}

fn row(what: &str, value: &str) {
    println!("{what:<66} {value}");
}

fn list(files: &[&PathBuf]) -> String {
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    format!("{}: {}", names.len(), names.join(", "))
}

/// What git tracks of the sources and documents, below the checkout.
fn committed() -> Vec<(PathBuf, String)> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(checkout()).output().unwrap();
    assert!(listed.status.success(), "git ls-files failed");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let is_text = |name: &&str| Path::new(name).extension().is_some_and(|kind| kind == "rs" || kind == "md");
    let read = |name: &str| Some((PathBuf::from(name), fs::read_to_string(checkout().join(name)).ok()?));
    names.split('\0').filter(is_text).filter_map(read).collect()
}

/// Lines that send the reader to a page that the repository does not have.
fn citations(files: &[(PathBuf, String)]) -> usize {
    let cites = |line: &&str| {
        [concat!("DES", "IGN "), concat!("MOD", "EL "), concat!("the s", "eed")].iter().any(|page| line.contains(page))
    };
    let is_source = |path: &&(PathBuf, String)| path.0.extension().is_some_and(|kind| kind == "rs");
    let comments = files.iter().filter(is_source).flat_map(|(_, text)| text.lines());
    comments.filter(|line| line.contains("//")).filter(cites).count()
}

/// Files of tests that make a scene of their own.
fn scenes(files: &[(PathBuf, String)]) -> Vec<&PathBuf> {
    let makes_one = |(path, text): &&(PathBuf, String)| {
        let head = "pub struct Scene {";
        path.extension().is_some_and(|kind| kind == "rs") && text.contains(head) && code(text).contains(head)
    };
    files.iter().filter(makes_one).map(|(path, _)| path).collect()
}

/// Sources with the words of a skip: a file that knows these knows the other lines.
fn places_with_log_lines(files: &[(PathBuf, String)]) -> Vec<&PathBuf> {
    let line = "\"Skipping database (";
    let is_source = |path: &Path| {
        let path = path.to_string_lossy();
        path.contains("/src/") && !path.starts_with("tests/") && !path.contains("tests.rs")
    };
    let knows = |text: &str| {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        text.lines().any(|at| at.contains(line) && !at.trim_start().starts_with("//"))
    };
    files.iter().filter(|(path, text)| is_source(path) && knows(text)).map(|(path, _)| path).collect()
}
