//! Async tools, on tokio with one thread and with many.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::waits::is_waiting;
use crate::{AT_ONCE, Bench, answer, died_of};

const KINDS: [&str; 2] = ["one", "many"];

#[test]
fn the_answer_is_the_same_also_from_a_task_of_its_own() {
    for kind in KINDS {
        let bench = Bench::new();
        let (json, code) = answer(&bench.run(&["--async", kind, "spawned"]));
        assert_eq!(
            (code, &json["data"]),
            (0, &json!({ "held": true })),
            "{kind}"
        );
        bench.is_clean();
        let holder = bench.start(&["sleep"]);
        let (json, code) = answer(&bench.run(&["--timeout", "200ms", "--async", kind, "spawned"]));
        assert_eq!(
            (code, &json["error"]["code"]),
            (4, &json!("LOCK_HELD")),
            "{kind}"
        );
        drop(holder);
    }
}

#[test]
fn a_signal_releases_beside_handlers_of_the_tools_own() {
    for kind in KINDS {
        // A task that comes to the end of the work then does not go on after it.
        for work in ["forever", "hear", "heed"] {
            let bench = Bench::new();
            let running = bench.start(&["--async", kind, work]);
            running.signal(Signal::SIGTERM);
            let output = running.finish(AT_ONCE);
            died_of(Signal::SIGTERM, &output);
            assert!(
                !String::from_utf8_lossy(&output.stderr).contains("went on"),
                "{kind}, {work}: {output:?}"
            );
            bench.is_clean();
        }
    }
}

/// Reads what the tool says, up to a line like this.
fn read_up_to(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
    wanted: &str,
) -> Vec<String> {
    let mut read = Vec::new();
    for line in lines {
        read.push(line.expect("a line"));
        if read.last().is_some_and(|line| line == wanted) {
            return read;
        }
    }
    panic!("it never said {wanted:?}: {read:?}");
}

fn ticks(lines: &[String]) -> usize {
    lines
        .iter()
        .filter(|line| line.starts_with("tick "))
        .count()
}

/// While it waits its executor turns; a wait that is dropped claims nothing later; a claim that is dropped is released.
#[test]
fn nobody_is_blocked_and_a_future_that_is_dropped_lets_go() {
    for kind in KINDS {
        let bench = Bench::new();
        let holder = bench.start(&["sleep"]);
        let mut command: Command = bench.command(&["--timeout", "60s", "--async", kind, "give-up"]);
        command.stderr(Stdio::piped()).stdout(Stdio::null());
        let mut tool = command.spawn().expect("it starts");
        let mut lines = BufReader::new(tool.stderr.take().expect("its stderr")).lines();
        let waited = read_up_to(&mut lines, "given up: true");
        assert!(ticks(&waited) >= 5, "{kind}: {waited:?}");
        drop(holder);
        read_up_to(&mut lines, "begun");
        let held = read_up_to(&mut lines, "let go");
        assert!(ticks(&held) >= 5, "{kind}: {held:?}");
        wait_until(PATIENCE, "it is released", || !bench.lock().exists());
        bench.is_clean();
        tool.kill().expect("it lives");
        tool.wait().expect("it ends");
    }
}

#[test]
fn a_wait_of_an_async_tool_ends_when_the_holder_does() {
    for kind in KINDS {
        let bench = Bench::new();
        let holder = bench.start(&["sleep"]);
        let waiter =
            Running::start(bench.command(&["--timeout", crate::LONG, "--async", kind, "spawned"]));
        is_waiting(&waiter);
        holder.signal(Signal::SIGTERM);
        died_of(Signal::SIGTERM, &holder.finish(AT_ONCE));
        assert_eq!(answer(&waiter.finish(AT_ONCE)).1, 0);
        bench.is_clean();
    }
}
