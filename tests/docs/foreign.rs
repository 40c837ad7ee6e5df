//! The documents type commands of programs that are not beadlock's. docs/platforms.md says for each with which version
//! it was tried, or that it was not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use beadlock_tests::skip::checkout;

use super::document;

/// What POSIX has, and what a shell has itself.
const STANDARD: &[&str] = &[
    "cat", "chmod", "cp", "date", "df", "echo", "env", "eval", "exec", "exit", "export", "false", "for", "grep", "if",
    "install", "kill", "ls", "mkdir", "mv", "printf", "ps", "rm", "set", "sh", "sleep", "source", "test", "timeout",
    "touch", "true", "ulimit", "wait", "while", "xargs",
];

/// Programs that are known to be somebody else's, wherever they stand in a command.
const FOREIGN: &[&str] = &[
    "bats",
    "bd",
    "cargo",
    "curl",
    "docker",
    "etcd",
    "etcdctl",
    "fuser",
    "gh",
    "git",
    "glab",
    "go",
    "jq",
    "journalctl",
    "kubectl",
    "loginctl",
    "lsof",
    "make",
    "node",
    "npm",
    "npx",
    "pip",
    "podman",
    "pytest",
    "python3",
    "rustup",
    "ssh",
    "strace",
    "sudo",
    "sysctl",
    "systemctl",
    "umount",
    "yarn",
];

/// README, every page of docs, and what lies beside the sources for others to copy.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![checkout().join("README.md")];
    let mut folders: Vec<PathBuf> = ["docs", "integration"].map(|name| checkout().join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("list the documents").flatten() {
            let path = entry.path();
            if path.is_dir() {
                if !["src", "tests", "target", "python"].iter().any(|name| path.ends_with(name)) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|ending| ["md", "sh", "yml", "service"].iter().any(|e| ending == *e))
            {
                pages.push(path);
            }
        }
    }
    pages
}

/// The commands of a page with their lines: the lines of its code blocks, and the text between backticks. Of a script
/// or a unit it is every line.
fn commands(path: &Path, text: &str) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    let mut in_code = false;
    let is_page = path.extension().is_some_and(|ending| ending == "md");
    for line in text.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if in_code || !is_page {
            commands.push((line.to_owned(), line.to_owned()));
        } else {
            commands.extend(line.split('`').skip(1).step_by(2).map(|piece| (piece.to_owned(), line.to_owned())));
        }
    }
    commands
}

/// The programs that a command starts: its first word, and the first after what ends another command.
fn programs(command: &str) -> impl Iterator<Item = (&str, &str)> {
    let command = command.trim_start_matches(['#', ' ', '-', '$']).trim_start_matches("run: ");
    let parts = [" -- ", "| ", "&& ", "; ", "$(", "sudo "]
        .iter()
        .fold(vec![command], |parts, end| parts.into_iter().flat_map(|part| part.split(*end)).collect());
    parts.into_iter().filter_map(|part| {
        let part = part.trim();
        let (first, rest) = part.split_once(' ').unwrap_or((part, ""));
        (!rest.is_empty()).then_some((first, rest))
    })
}

/// What the table of docs/platforms.md says of each program.
fn listed() -> BTreeMap<String, String> {
    let text = document("docs/platforms.md");
    let (_, table) = text.split_once("| program | tried with |\n|---|---|\n").expect("the table of programs");
    let mut listed = BTreeMap::new();
    for line in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').splitn(2, " | ").map(str::trim).collect();
        for name in cells[0].split(", ") {
            listed.insert(name.trim_matches('`').to_owned(), cells[1].to_owned());
        }
    }
    listed
}

#[test]
fn the_table_lists_every_program_of_others_that_a_document_types() {
    let listed = listed();
    let mut typed = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read a page");
        for (command, _) in commands(&page, &text) {
            let found = programs(&command).map(|(name, _)| name).filter(|name| FOREIGN.contains(name));
            typed.extend(found.map(str::to_owned));
            // What is typed at a prompt is a command, whatever its name.
            if let Some(command) = command.strip_prefix("$ ") {
                let first = command.split(' ').find(|word| !word.contains('=')).unwrap_or_default();
                let is_name = first.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
                if is_name && first != "beadlock" && !STANDARD.contains(&first) && !first.is_empty() {
                    typed.insert(first.to_owned());
                }
            }
        }
    }
    let missing: Vec<_> = typed.iter().filter(|name| !listed.contains_key(*name)).collect();
    assert!(missing.is_empty(), "the table of programs in docs/platforms.md does not have {missing:?}");
    assert!(["bd", "jq", "ssh", "docker", "systemctl"].iter().all(|name| typed.contains(*name)), "{typed:?}");
    for (name, tried) in listed {
        let says =
            tried.contains("not tried") || tried.contains(|c: char| c.is_ascii_digit()) || tried.contains("in a shell");
        assert!(says, "{name}: {tried:?} says neither a version nor that it was not tried");
    }
}

/// bd changes its options from version to version, so each line says for which one it is right.
#[test]
fn each_line_that_types_bd_says_for_which_version() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("read a page");
        for (command, line) in commands(&page, &text) {
            if programs(&command).any(|(name, _)| name == "bd") {
                let says = line.contains("bd 0.27.2") || line.contains("not tried");
                assert!(says, "{}: {line}", page.display());
                count += 1;
            }
        }
    }
    assert!(count >= 4, "few lines, or the scan sees few: {count}");
}
