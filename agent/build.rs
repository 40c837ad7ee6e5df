//! `REVISION`, for the code: which revision the agent is built from. A packager sets `BEADLOCK_REVISION`; else a release
//! asks git about the checkout. Any other build has `unknown`, so that a commit does not build it anew.

use std::env;
use std::process::Command;

#[expect(
    clippy::disallowed_methods,
    reason = "what cargo tells a build script is in its environment"
)]
fn main() {
    println!("cargo::rerun-if-env-changed=BEADLOCK_REVISION");
    let named = env::var("BEADLOCK_REVISION").ok();
    let asked = || env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let revision = named
        .filter(|revision| !revision.is_empty())
        .or_else(|| asked().then(of_checkout).flatten());
    println!(
        "cargo::rustc-env=REVISION={}",
        revision.as_deref().unwrap_or("unknown")
    );
}

/// The commit, with `-dirty` where files differ from it.
fn of_checkout() -> Option<String> {
    for path in ["src", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ])
}

/// The output of a git command in the current directory; `None` if it fails or does not print exactly one line.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let line = said.trim_end();
    (output.status.success() && !line.is_empty() && !line.contains('\n')).then(|| line.to_owned())
}
