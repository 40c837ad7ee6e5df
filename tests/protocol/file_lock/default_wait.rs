//! How long a lock is waited for where nobody says: 30 seconds, by the clock on the wall, in each command, in Rust and
//! in the shell. All of them wait for the same lock at the same time.

use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

use beadlock_tests::skip::{checkout, tool};
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running};

use crate::scene::{Files, TARGET};

/// Section 3.1 of the document.
const DEFAULT: Duration = Duration::from_secs(30);

/// What a wait that ran out says.
const SAID: &str = "Failed to acquire lock (timeout after 30s)";

#[test]
fn every_command_waits_for_30_seconds_and_so_do_rust_and_the_shell() {
    let files = Files::new();
    let _somebody = files.somebody("-x");
    let begun = Instant::now();
    let path = files.path("todo.json");
    let library =
        std::thread::spawn(move || (beadlock::file::atomic_write(path, "{}"), begun.elapsed()));
    let mut waiting: Vec<Running> = commands(&files).into_iter().map(Running::start).collect();
    // The control: it is the default, and nothing that holds for every wait.
    let longer = |wait: &str| {
        files
            .scene
            .start(&["hold", TARGET, "--wait", wait, "--", "touch", "ran"])
    };
    let mut said = files.scene.beadlock(&["wait", TARGET]);
    said.env("BEADLOCK_WAIT", "forever");
    let mut longer = [longer("10m"), longer("forever"), Running::start(said)];

    while begun.elapsed() < DEFAULT - Duration::from_millis(100) {
        for (number, command) in waiting.iter_mut().enumerate() {
            assert!(
                command.is_running(),
                "number {number} has given up after {:?}",
                begun.elapsed()
            );
        }
        assert!(
            !library.is_finished(),
            "the library has given up after {:?}",
            begun.elapsed()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    for command in waiting {
        let ended = Ended::from(command.finish(PATIENCE));
        assert!(ended.code == 8 && ended.err.contains(SAID), "{ended:?}");
    }
    let (written, waited) = library.join().expect("it does not panic");
    let message = written.expect_err("somebody has the lock").to_string();
    assert!(
        message.starts_with(SAID) && waited >= DEFAULT && waited < DEFAULT + PATIENCE,
        "{waited:?}: {message}"
    );
    assert!(longer.iter_mut().all(Running::is_running) && !files.path("ran").exists());
    assert_eq!(files.read("todo.json"), "{}\n");
}

/// Each command that waits for the lock of a file, without a word on how long.
fn commands(files: &Files) -> Vec<Command> {
    std::fs::write(files.path("content"), "[]\n").expect("write the content");
    let with_content = |mut command: Command| {
        command.stdin(File::open(files.path("content")).expect("the content"));
        command
    };
    let mut commands = vec![
        files
            .scene
            .beadlock(&["hold", TARGET, "--", "touch", "ran"]),
        files
            .scene
            .beadlock(&["hold", "--shared", TARGET, "--", "touch", "ran"]),
        files.scene.beadlock(&["acquire", TARGET]),
        files.scene.beadlock(&["update", TARGET, "--", "cat"]),
        with_content(files.scene.beadlock(&["write", TARGET])),
        with_content(files.scene.beadlock(&["append", TARGET])),
    ];
    if tool("bash").is_some() {
        let mut shell = files.scene.command("bash");
        shell.args([
            "-c",
            "source \"$0\"; lock_file todo.json fd || exit; touch ran",
        ]);
        shell.arg(checkout().join("integration/shell/file-ops.sh"));
        commands.push(shell);
    }
    commands
}
