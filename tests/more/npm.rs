//! The npm package as npm packs and installs it.

use std::process::Command;

use beadlock_tests::skip::{checkout, node};
use beadlock_tests::{Ended, Scene, binaries, run};

#[test]
fn the_package_is_packed_installed_without_a_network_and_works_there() {
    if node().is_none() {
        return;
    }
    let scene = Scene::new();
    let script = |words: &[&str]| {
        let mut command: Command = scene.command(checkout().join("scripts/npm.sh"));
        command.args(words);
        Ended::from(run(command))
    };
    script(&["pack"]).expect(2, &["usage: scripts/npm.sh pack PROGRAMS OUT | check OUT"]);
    script(&["check", "out"]).expect(1, &["out has not exactly one beadlock-*.tgz"]);
    let programs = binaries::directory().display().to_string();
    let packed = script(&["pack", &programs, "out"]).expect(0, &[]);
    let version = env!("CARGO_PKG_VERSION");
    let tarball = scene.file(&format!("out/beadlock-{version}.tgz"));
    assert_eq!(packed.out, format!("{}\n", tarball.display()));
    script(&["check", "out"]).expect(0, &[]);
}
