//! What Node runs: the GitHub action and the npm package, each by its own tests.

use beadlock_tests::skip::{checkout, node};
use beadlock_tests::{Ended, Scene, binaries, run};

/// `node --test` of this file, with the two programs.
fn suite(file: &str) {
    let Some(node) = node() else {
        return;
    };
    let scene = Scene::new();
    let mut command = scene.command(node.join("node"));
    command
        .args(["--test", "--test-reporter=tap"])
        .arg(checkout().join(file));
    command.env("BEADLOCK_BIN", binaries::directory());
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 0, "{}{}", ended.out, ended.err);
    let has = |line: &str| ended.out.lines().any(|found| found == line);
    assert!(has("# fail 0") && !has("# pass 0"), "{}", ended.out);
}

#[test]
fn the_action_claims_for_a_job_and_releases_at_its_end() {
    suite("integration/ci/github/tests/action.test.js");
}

#[test]
fn the_npm_package_holds_checks_and_tells() {
    suite("integration/npm/tests/npm.test.js");
}
