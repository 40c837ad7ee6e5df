//! What is for shells: its own tests pass with the real program, and shellcheck finds nothing in any script.

use std::process::Command;
use std::time::Duration;

use beadlock_tests::skip::checkout;
use beadlock_tests::{Ended, Running, binaries, run, tool};

/// `lock-manager.bats`, where no test may have been left out.
#[test]
fn the_lock_manager_is_the_documents() {
    let (Some(bats), Some(_), Some(_)) = (tool("bats"), tool("bash"), tool("jq")) else { return };
    let mut command = Command::new(bats);
    command.args(["--formatter", "tap", "integration/shell/tests"]).current_dir(checkout());
    command.env("BEADLOCK_BIN", binaries::directory());
    let ended = Ended::from(Running::start(command).finish(Duration::from_secs(120)));
    let passed = ended.out.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(ended.code == 0 && passed >= 18 && !ended.out.contains("# skip"), "{ended:?}");
}

#[test]
fn shellcheck_finds_nothing() {
    if tool("shellcheck").is_none() {
        return;
    }
    let ended = Ended::from(run(Command::new(checkout().join("scripts/shellcheck.sh"))));
    assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (0, "", ""), "{ended:?}");
}
