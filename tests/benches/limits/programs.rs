//! The programs beside what one would use instead.

use std::path::Path;
use std::process::{Command, Stdio};

use beadlock_tests::binaries;

use super::table::Table;

/// Runs a program to its end from an empty environment; its exit code must be this.
fn run(dir: &Path, program: &Path, words: &[&str], expected: i32) {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(dir).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(command.status().expect("a program").code(), Some(expected), "{program:?} {words:?}");
}

pub fn measure(table: &mut Table) {
    let root = tempfile::tempdir().expect("a temporary directory");
    let dir = root.path();
    std::fs::create_dir(dir.join(".beads")).expect("a database");
    let (beadlock, flock) = (binaries::beadlock(), Path::new("/usr/bin/flock"));
    if !flock.exists() {
        table.not_here("beadlock check and hold", "no flock(1) here");
        return;
    }
    table.ratio(
        "beadlock check DIR",
        "flock -n FILE true",
        Some(1.5),
        || run(dir, &beadlock, &["check", ".beads"], 0),
        || run(dir, flock, &["-n", "file", "true"], 0),
    );
}
