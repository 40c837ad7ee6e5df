//! Which commit a program is built from, for its code: `REVISION`, or `unknown`, and `LONG_VERSION`, the version with the
//! commit and its date where they are known. A packager sets `BEADLOCK_REVISION` to the commit, or to the commit and its
//! date; else a release asks git about the checkout. Any other build knows neither, so that a commit does not build it
//! anew; nor does a published crate, also one that lies in somebody's repository. Both programs have this file (a
//! symbolic link).

use std::env;
use std::path::Path;
use std::process::Command;

#[expect(
    clippy::disallowed_methods,
    reason = "what cargo tells a build script is in its environment"
)]
fn main() {
    println!("cargo::rerun-if-env-changed=BEADLOCK_REVISION");
    let named = env::var("BEADLOCK_REVISION").ok();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = match named.filter(|revision| !revision.is_empty()) {
        Some(named) => Some(match named.split_once(' ') {
            Some((revision, date)) => (revision.to_owned(), Some(date.to_owned())),
            None => (named, None),
        }),
        None if is_release && is_of_checkout() => of_checkout(),
        None => None,
    };
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let (revision, long) = match commit {
        Some((revision, Some(date))) => {
            let long = format!("{version} ({revision} {date})");
            (revision, long)
        }
        Some((revision, None)) => {
            let long = format!("{version} ({revision})");
            (revision, long)
        }
        None => ("unknown".to_owned(), version),
    };
    println!("cargo::rustc-env=REVISION={revision}");
    println!("cargo::rustc-env=LONG_VERSION={long}");
}

/// Whether this crate is one of beadlock's repository. The repository around a published crate is another one, even if
/// the crate was added to it: cargo writes the first file into each that it publishes.
fn is_of_checkout() -> bool {
    !Path::new(".cargo_vcs_info.json").exists()
        && git(&["ls-files", "--error-unmatch", "build.rs"]).is_some()
}

/// The commit, with `-dirty` where files differ from it, and its day in UTC.
fn of_checkout() -> Option<(String, Option<String>)> {
    for path in ["src", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // Grows with each commit and each checkout. Cargo takes a file that is missing for a changed one.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let revision = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ])?;
    let date = git(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d"]);
    Some((revision, date))
}

/// The output of a git command in the current directory; `None` if it fails or does not print exactly one line.
fn git(words: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.args(["--no-optional-locks", "-c", "log.showSignature=false"])
        .args(words)
        .env("TZ", "UTC");
    let output = git.output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let line = said.trim_end();
    (output.status.success() && !line.is_empty() && !line.contains('\n')).then(|| line.to_owned())
}
