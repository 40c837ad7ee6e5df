//! A daemon's loop: it asks before every cycle, and leaves a claimed database alone.
//!
//! `cargo run -p beadlock-examples --example daemon_loop -- path/.beads 3` runs three cycles.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use beadlock_checker::{Cycle, Entered, should_skip_database};

fn main() {
    let mut args = std::env::args_os().skip(1);
    let dir = args
        .next()
        .map_or_else(|| PathBuf::from(".beads"), PathBuf::from);
    let cycles = args
        .next()
        .and_then(|text| text.to_str()?.parse().ok())
        .unwrap_or(u32::MAX);
    for _ in 0..cycles {
        cycle(&dir);
        sleep(Duration::from_millis(200));
    }
    glance(&dir);
}

/// One cycle. No claim begins before `leave`: a claim meanwhile waits for it.
fn cycle(dir: &Path) {
    match Cycle::enter(dir) {
        Entered::Cycle(cycle) => {
            // The line about a stale lock that was removed on the way in, if there was one.
            let line = cycle.decision().to_string();
            if !line.is_empty() {
                println!("{line}");
            }
            println!("synced {} issues", issues(dir));
            cycle.leave();
        }
        Entered::Skipped(decision) => println!("{decision}"),
    }
}

/// For a daemon that has no cycle to guard and only wants to know: the answer is of this moment.
fn glance(dir: &Path) {
    let decision = should_skip_database(dir);
    println!(
        "{}",
        if decision.is_skip() {
            "claimed now"
        } else {
            "free now"
        }
    );
}

/// What a daemon would sync.
fn issues(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("issues.jsonl"))
        .unwrap_or_default()
        .lines()
        .count()
}
