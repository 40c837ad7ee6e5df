//! The house in figures.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::skip::checkout;

use super::face::documented;
use super::graph::{circles, pairs};
use super::rooms::HOUSES;
use super::source::{Crate, code};

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
        let mut inside: Vec<(usize, &String)> = read
            .inside
            .iter()
            .filter_map(|(room, arrows)| Some((circles(arrows).first()?.len(), room)))
            .collect();
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
}

fn row(what: &str, value: &str) {
    println!("{what:<60} {value}");
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
        [concat!("DES", "IGN "), concat!("MOD", "EL "), concat!("the s", "eed")]
            .iter()
            .any(|page| line.contains(page))
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
