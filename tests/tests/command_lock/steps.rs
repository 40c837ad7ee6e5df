//! A signal between two steps of a claim or a release, every time: a system call takes half a second to come back.

use std::process::Command;

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, skip, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{AT_ONCE, Bench, died_of};

/// Starts the tool so that these calls come back late, and ends it by SIGTERM as soon as the file `name` is there.
#[track_caller]
fn ended_in(bench: &Bench, calls: &str, name: &str, words: &[&str]) {
    let Some(strace) = skip::tool("strace") else { return };
    let mut command: Command = bench.0.command(strace);
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
    command.args(["-e", &format!("inject={calls}:delay_exit=500000"), crate::EMBEDDED]);
    command.arg(bench.dir()).args(words);
    let running = Running::start(command);
    wait_until(PATIENCE, name, || bench.dir().join(name).exists());
    let tracer = Pid::from_raw(running.pid());
    let tool = marked_by(&bench.0).into_iter().find(|pid| *pid != tracer).expect("the tool");
    kill(tool, Signal::SIGTERM).expect("it lives");
    died_of(Signal::SIGTERM, &running.finish(AT_ONCE));
    bench.is_clean();
}

#[test]
fn a_lock_that_is_linked_and_not_yet_known_is_released() {
    let bench = Bench::new();
    ended_in(&bench, "linkat", "work.lock", &["sleep"]);
}

#[test]
fn a_release_that_has_begun_is_finished() {
    let bench = Bench::new();
    ended_in(&bench, "renameat2", "work.lock.aside", &["return"]);
}

#[test]
fn so_is_one_that_exit_has_begun() {
    let bench = Bench::new();
    ended_in(&bench, "renameat2", "work.lock.aside", &["exit"]);
}
