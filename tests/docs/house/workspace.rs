//! The sources of the crates.

use std::fs;
use std::path::Path;

use beadlock_tests::skip::checkout;

use super::lexer::Source;

/// The directories of the crates.
const CRATES: [&str; 9] = [
    "checker/base",
    "checker/core",
    "checker/supervise",
    "checker/records",
    "integration",
    "integration/fleet",
    "agent",
    "agent/git",
    "agent/trust",
];

/// A source file.
pub struct File {
    /// With its crate and without `src`: `integration/hold.rs`.
    pub path: String,
    pub source: Source,
}

pub struct Workspace {
    files: Vec<File>,
}

impl Workspace {
    pub fn read() -> Self {
        let mut files = Vec::new();
        for name in CRATES {
            let src = checkout().join(name).join("src");
            let before = files.len();
            collect(name, &src, &src, &mut files);
            assert!(files.len() > before, "{} has no sources", src.display());
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self { files }
    }

    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }
}

/// All below `directory`, without files and directories of unit tests.
fn collect(name: &str, src: &Path, directory: &Path, files: &mut Vec<File>) {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for path in entries.map(|entry| entry.unwrap().path()) {
        let last = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && last != "tests" {
            collect(name, src, &path, files);
        } else if last.ends_with(".rs") && last != "tests.rs" {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let below = path.strip_prefix(src).unwrap().display();
            files.push(File {
                path: format!("{name}/{below}"),
                source: Source::read(&text),
            });
        }
    }
}
