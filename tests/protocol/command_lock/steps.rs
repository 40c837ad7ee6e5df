//! A signal between two steps of a start, a claim or a release, every time: a system call is long in coming back.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, skip, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{AT_ONCE, Bench, died_of};

/// Starts the tool so that these calls come back late, sends it SIGTERM as soon as it is `seen`, and answers how it
/// ended. `None`, which is said, where there is no strace.
#[track_caller]
fn ended_in(
    bench: &Bench,
    calls: &str,
    words: &[&str],
    what: &str,
    seen: impl Fn(Pid) -> bool,
) -> Option<Output> {
    let strace = skip::tool("strace")?;
    let mut command: Command = bench.0.command(strace);
    command.args([
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &format!("trace={calls}"),
    ]);
    command.args([
        "-e",
        &format!("inject={calls}:delay_exit=200000"),
        crate::EMBEDDED,
    ]);
    command.arg(bench.dir()).args(words);
    let running = Running::start(command);
    let tracer = Pid::from_raw(running.pid());
    let tool = || marked_by(&bench.0).into_iter().find(|pid| *pid != tracer);
    wait_until(PATIENCE, what, || tool().is_some_and(&seen));
    kill(tool().expect("the tool"), Signal::SIGTERM).expect("it lives");
    let output = running.finish(AT_ONCE);
    if bench.dir().exists() {
        bench.is_clean();
    }
    Some(output)
}

/// It has a handler for SIGTERM.
fn has_a_handler(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let bits = caught
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .unwrap_or_default();
    bits >> (Signal::SIGTERM as u32 - 1) & 1 == 1
}

#[test]
fn a_signal_while_the_handlers_are_put_in_place_is_not_lost() {
    let bench = Bench::new();
    let ended = ended_in(
        &bench,
        "rt_sigaction",
        &["sleep"],
        "a handler",
        has_a_handler,
    );
    ended
        .iter()
        .for_each(|output| died_of(Signal::SIGTERM, output));
}

#[test]
fn a_lock_that_is_linked_and_not_yet_known_is_released() {
    let bench = Bench::new();
    let ended = ended_in(&bench, "linkat", &["sleep"], "the lock", |_| {
        bench.lock().exists()
    });
    ended
        .iter()
        .for_each(|output| died_of(Signal::SIGTERM, output));
}

#[test]
fn a_release_that_has_begun_is_finished() {
    let bench = Bench::new();
    let aside = bench.dir().join("work.lock.aside");
    let ended = ended_in(&bench, "renameat2", &["return"], "the lock aside", |_| {
        aside.exists()
    });
    ended
        .iter()
        .for_each(|output| died_of(Signal::SIGTERM, output));
}

/// Which of the two the process then dies of depends on which is faster.
#[test]
fn so_is_one_that_exit_has_begun() {
    let bench = Bench::new();
    let aside = bench.dir().join("work.lock.aside");
    let ended = ended_in(&bench, "renameat2", &["exit"], "the lock aside", |_| {
        aside.exists()
    });
    if let Some(output) = ended {
        let status = output.status;
        assert!(
            status.code() == Some(7) || status.signal() == Some(Signal::SIGTERM as i32),
            "{output:?}"
        );
    }
}
