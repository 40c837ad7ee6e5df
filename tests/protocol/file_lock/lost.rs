//! A lock file that goes away while it is held: its document allows to delete it at any time, and then it locks nobody
//! out.

use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, binaries, fastest, wait_until};

use crate::scene::{Files, TARGET};

#[test]
fn a_lock_file_that_is_deleted_is_a_loss_within_a_second_and_ends_the_command() {
    let limit = Duration::from_secs(2);
    let took = fastest(limit, || {
        let files = Files::new();
        let holding = files.holding(&[], "exec sleep 60");
        std::fs::remove_file(files.lock()).expect("it is there");
        let begun = Instant::now();
        let ended = Ended::from(holding.finish(PATIENCE));
        assert_eq!(ended.code, 9, "{ended:?}");
        assert!(
            ended.err.contains("lost the lock of file:todo.json after "),
            "{ended:?}"
        );
        assert!(
            ended
                .err
                .contains("todo.json.lock vanished; `git clean -x`"),
            "{ended:?}"
        );
        begun.elapsed()
    });
    assert!(took < limit, "noticed in 1 s, ended at once: {took:?}");
}

#[test]
fn who_waits_for_one_that_is_deleted_gets_the_new_one() {
    let files = Files::new();
    let _somebody = files.somebody("-x");
    let mut command = files.scene.beadlock(&[
        "hold",
        TARGET,
        "--",
        "sh",
        "-c",
        "$BEADLOCK hold --no-wait file:todo.json -- echo in",
    ]);
    command.env("BEADLOCK", binaries::beadlock());
    let waiting = Running::start(command);
    wait_until(PATIENCE, "it waits", || {
        files
            .scene
            .run(&["status", TARGET])
            .out
            .contains("waiting for it: ")
    });
    std::fs::remove_file(files.lock()).expect("it is there");
    let ended = Ended::from(waiting.finish(PATIENCE));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "in\n"),
        "nested by its new lock file: {ended:?}"
    );
}
