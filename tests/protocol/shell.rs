//! What is for shells: its own tests pass with the real program. `make test-more` has shellcheck and shfmt look at each script.

use std::process::Command;
use std::time::Duration;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Running, binaries, skip, tool};

/// `lock-manager.bats`, where no test may have been left out.
#[test]
fn the_lock_manager_is_the_documents() {
    every_test_passes("integration/shell/tests", 20);
}

/// `file-ops.sh`: of each function by itself.
#[test]
fn the_file_functions_are_the_documents() {
    every_test_passes("tests/unit", 79);
}

/// `file-ops.sh`: of many at once.
#[test]
fn files_stay_whole_whoever_writes_them_at_once() {
    every_test_passes("tests/integration", 9);
}

/// Those of a folder, with the real program; `at_least` so many, and none skipped but for want of root.
fn every_test_passes(folder: &str, at_least: usize) {
    if ["bats", "bash", "flock", "jq", "setsid"]
        .into_iter()
        .any(|program| tool(program).is_none())
    {
        return;
    }
    let mut command = Command::new("bats");
    command
        .args(["--formatter", "tap", folder])
        .current_dir(checkout());
    command.env("BEADLOCK_BIN", binaries::directory());
    let ended = Ended::from(Running::start(command).finish(Duration::from_secs(1080)));
    let is_root_only =
        |line: &str| line.ends_with("# skip needs root") || line.ends_with("# skip needs mount");
    let passed = ended.out.lines().filter(|line| line.starts_with("ok "));
    let (root_only, passed): (Vec<_>, Vec<_>) = passed.partition(|line| is_root_only(line));
    for line in root_only {
        skip::cannot(&format!("in {folder}: {line}"));
    }
    let (skipped, passed): (Vec<_>, Vec<_>) =
        passed.into_iter().partition(|line| line.contains("# skip"));
    assert!(
        ended.code == 0 && passed.len() >= at_least && skipped.is_empty(),
        "{ended:?}"
    );
}
