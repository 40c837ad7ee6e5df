//! Tools that are killed at random moments, by the thousand: no lock stays, and no two have it at once.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use beadlock_tests::{Dice, Running};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{AT_ONCE, Bench};

/// `STRESS_ROUNDS` has more.
const ROUNDS: usize = 1000;
const WORKERS: usize = 4;

#[test]
fn a_thousand_ends_at_random_moments_leave_nothing_and_overlap_nowhere() {
    let bench = Bench::new();
    let witness = bench.file("witness").display().to_string();
    let seed = Dice::seed("STRESS_SEED");
    let rounds = std::env::var("STRESS_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ROUNDS);
    let (next, killed, in_time) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (bench, witness, next, killed, in_time) =
                (&bench, &witness, &next, &killed, &in_time);
            scope.spawn(move || {
                let mut dice = Dice::new(seed, &format!("worker {worker}"));
                while next.fetch_add(1, Ordering::Relaxed) < rounds {
                    let command = bench.command(&["--timeout", "60s", "heed", witness]);
                    let tool = Running::start(command);
                    let pid = Pid::from_raw(tool.pid());
                    thread::sleep(Duration::from_micros(dice.below(12_000)));
                    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
                    for _ in 0..=dice.below(2) {
                        // Now and then twice, the second in the middle of the end by the first.
                        kill(pid, *dice.one_of(&signals)).expect("it is not reaped");
                        thread::sleep(Duration::from_micros(dice.below(3000)));
                    }
                    if dice.below(20) == 0 {
                        kill(pid, Signal::SIGKILL).expect("it is not reaped");
                    }
                    let output = tool.finish(AT_ONCE);
                    let signal = output.status.signal();
                    assert!(signal.is_some() && output.stdout.is_empty(), "{output:?}");
                    let counter = if signal == Some(Signal::SIGKILL as i32) {
                        killed
                    } else {
                        in_time
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!(
        "{} killed, {} by another signal",
        killed.into_inner(),
        in_time.into_inner()
    );
    // A killed tool has left a stale lock, which the next takes over.
    let output = bench.run(&["return"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    bench.is_clean();
}
