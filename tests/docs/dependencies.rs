//! What a user of the faces compiles, as `cargo tree` says.

use std::collections::BTreeSet;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, binaries, run};

/// The packages that a user of this one compiles, itself among them.
fn compiled(package: &str, features: &[&str]) -> BTreeSet<String> {
    let mut tree = binaries::cargo();
    tree.args([
        "tree",
        "--locked",
        "--edges",
        "normal,build",
        "--prefix",
        "none",
    ]);
    tree.args(["--format", "{p}", "--package", package])
        .args(features)
        .current_dir(checkout());
    let ended = Ended::from(run(tree));
    assert_eq!(ended.code, 0, "{}", ended.err);
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    ended.out.lines().map(name).collect()
}

fn has_none_of(compiled: &BTreeSet<String>, unwanted: &[&str]) {
    for name in unwanted {
        assert!(
            !compiled.contains(*name),
            "{name} is compiled: {compiled:?}"
        );
    }
}

const OF_THE_PROGRAMS: [&str; 8] = [
    "clap", "ignore", "notify", "ratatui", "rustls", "tokio", "toml", "ureq",
];

#[test]
fn a_user_of_the_library_compiles_no_program() {
    let compiled = compiled("beadlock", &[]);
    has_none_of(&compiled, &OF_THE_PROGRAMS);
    assert!(
        compiled.len() <= 45,
        "{} packages: {compiled:?}",
        compiled.len()
    );
}

#[test]
fn a_daemon_that_asks_compiles_little() {
    let compiled = compiled("beadlock-checker", &[]);
    has_none_of(&compiled, &OF_THE_PROGRAMS);
    assert!(
        compiled.len() <= 40,
        "{} packages: {compiled:?}",
        compiled.len()
    );
}

#[test]
fn without_the_fleet_nobody_talks_to_etcd() {
    for package in ["beadlock-cli", "beadlock-agent"] {
        has_none_of(
            &compiled(package, &["--no-default-features"]),
            &["beadlock-fleet", "rustls", "ureq"],
        );
        assert!(
            compiled(package, &[]).contains("beadlock-fleet"),
            "{package}"
        );
    }
}
