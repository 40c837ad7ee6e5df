//! What a machine may lack, and how a test says so.
//!
//! An absent program skips a test with one line on stderr; where `CI` is set (and neither empty, `0` nor `false`)
//! it fails the test, so that a green run there is a whole one. What no package mends is only ever skipped: a
//! kernel without namespaces for us, and the documents and vectors beside the checkout, which are not part of it.

use std::env;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why a test is skipped that reads what is not part of the checkout.
pub const NO_SHARED: &str = "no shared/ beside the checkout";

/// The directory with the documents and vectors: `$BEADLOCK_SHARED`, else `../shared` beside the checkout.
pub fn shared() -> Option<PathBuf> {
    let found = find_shared();
    if found.is_none() {
        cannot(NO_SHARED);
    }
    found
}

/// [`shared`] without a word.
pub fn find_shared() -> Option<PathBuf> {
    let named = env::var_os("BEADLOCK_SHARED")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from);
    Some(named.unwrap_or_else(|| checkout().join("../shared"))).filter(|found| found.is_dir())
}

/// The checkout's top directory.
pub fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Where a program is; where it is absent the test skips.
///
/// # Panics
///
/// When it is absent and `CI` is set.
#[track_caller]
pub fn tool(name: &str) -> Option<PathBuf> {
    let found = in_path(name);
    if found.is_none() {
        lacking(name);
    }
    found
}

/// True where a program is; where it is absent the test skips.
///
/// # Panics
///
/// When it is absent and `CI` is set.
#[track_caller]
pub fn has_program(name: &str) -> bool {
    tool(name).is_some()
}

/// Runs it as nobody; false, after a line that says so, where this is not root.
pub fn as_nobody(command: &mut Command) -> bool {
    let is_root = root();
    if is_root {
        command.uid(65534).gid(65534);
    }
    is_root
}

/// A Python that has this module: the first in PATH, or Debian's; where neither has it the test skips.
///
/// # Panics
///
/// When there is none and `CI` is set.
#[track_caller]
pub fn python(module: &str) -> Option<PathBuf> {
    let has_it = |python: &PathBuf| {
        let mut import = Command::new(python);
        import
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null());
        import.status().is_ok_and(|status| status.success())
    };
    let found = in_path("python3")
        .into_iter()
        .chain([PathBuf::from("/usr/bin/python3")])
        .find(has_it);
    if found.is_none() {
        lacking(&format!("python3 with {module}"));
    }
    found
}

/// The directory of a Node 20 or later and its npm: of PATH, or below the target directory, where pip may install it
/// (`scripts/node.sh`); where neither is, the test skips.
///
/// # Panics
///
/// When there is none and `CI` is set, and when the script fails.
#[track_caller]
pub fn node() -> Option<PathBuf> {
    let output = Command::new(checkout().join("scripts/node.sh")).output();
    let ended = crate::Ended::from(output.expect("start scripts/node.sh"));
    match ended.code {
        0 => Some(ended.out.trim_end().into()),
        3 => {
            lacking(ended.out.trim_end());
            None
        }
        _ => panic!("{ended:?}"),
    }
}

/// True for root; anybody else skips the test.
pub fn root() -> bool {
    let is_root = may_be_root();
    if !is_root {
        cannot("needs root");
    }
    is_root
}

/// True for root, whom permissions do not stop; everybody else has another way to the same test.
pub fn may_be_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Says that part of a test cannot run here for a reason that no package mends.
pub fn cannot(what: &str) {
    say(&format!("skipped: {}{what}", test()));
}

/// Says that a test needs `what`, which some package has.
///
/// # Panics
///
/// When `CI` is set.
#[track_caller]
pub fn lacking(what: &str) {
    let line = format!("skipped: {}needs {what}", test());
    assert!(!is_ci(), "{line}, and CI is set");
    say(&line);
}

/// True where a missing program is a failure.
pub fn is_ci() -> bool {
    env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// The test's name: the test runner gives each its own thread of that name.
fn test() -> String {
    std::thread::current()
        .name()
        .map(|name| format!("{name} "))
        .unwrap_or_default()
}

/// Where a program is.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Past the test runner's capture, which would keep the line of a test that passes.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
