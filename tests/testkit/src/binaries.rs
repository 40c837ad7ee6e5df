//! Where the programs are: beside the test, built once by every test process, or already (`scripts/test.sh`).
//!
//! `cargo test -p beadlock-tests` alone would not build them, and would test whatever an earlier build left.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program `beadlock`.
pub fn beadlock() -> PathBuf {
    directory().join("beadlock")
}

/// The program `beadlock-agent`.
pub fn agent() -> PathBuf {
    directory().join("beadlock-agent")
}

/// A program of `examples/examples`.
pub fn example(name: &str) -> PathBuf {
    static EXAMPLES: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLES
        .get_or_init(|| built(&["--examples"]))
        .join("examples")
        .join(name)
}

/// The directory where all of them have been built, by `scripts/test.sh` or by the test that starts this one.
pub const BUILT: &str = "BEADLOCK_TEST_BUILT";

/// The directory of the two programs.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| built(&["--bin", "beadlock", "--bin", "beadlock-agent"]))
}

fn built(what: &[&str]) -> PathBuf {
    std::env::var_os(BUILT)
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            cargo_build(what);
            profile_directory()
        })
}

/// `target/debug`: a test is `target/debug/deps/NAME-HASH`.
fn profile_directory() -> PathBuf {
    let this = std::env::current_exe().expect("this test's own path");
    this.ancestors()
        .nth(2)
        .expect("target/PROFILE above deps")
        .to_path_buf()
}

/// cargo, without the variables in which another cargo has described the package of this test. ring's build script
/// depends on them, so it would run again, and ring be built again.
pub fn cargo() -> Command {
    let mut command =
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    let is_told =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_told)) {
        command.env_remove(name);
    }
    command
}

fn cargo_build(what: &[&str]) {
    let profile = profile_directory();
    let target = profile
        .parent()
        .expect("the target directory above the profile");
    let mut command = cargo();
    // With the whole workspace's features, as `cargo test` has built them: there is nothing to do then.
    command
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(what);
    command
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    let built = command.output().expect("cargo starts");
    let talk = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "cargo build {what:?} failed:\n{talk}"
    );
}
