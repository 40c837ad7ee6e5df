//! The versions of git that a machine has.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::skip::tool;

/// The directories of PATH that have a git, each of another version. Where there is none, the test skips.
///
/// # Panics
///
/// When there is none and `CI` is set.
#[track_caller]
pub fn gits() -> Vec<PathBuf> {
    let mut versions = Vec::new();
    let mut dirs = Vec::new();
    for dir in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        let asked = Command::new(dir.join("git")).arg("--version").output();
        if let Ok(answer) = asked
            && answer.status.success()
            && !versions.contains(&answer.stdout)
        {
            versions.push(answer.stdout);
            dirs.push(dir);
        }
    }
    if dirs.is_empty() {
        tool("git");
    }
    dirs
}
