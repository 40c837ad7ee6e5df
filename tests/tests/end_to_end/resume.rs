//! What was changed under a lock is synced the moment the lock goes away, not at the next interval.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Scene, wait_until};

/// How many cycles have begun, and the last one's first moment in nanoseconds of the wall clock.
fn cycles(scene: &Scene) -> Vec<u128> {
    let text = fs::read_to_string(scene.path().join("cycles")).unwrap_or_default();
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok()).collect()
}

/// Claims `rounds` times and measures from each release to the first line of the next cycle's command, with an
/// agent whose interval never comes. Err names the round whose cycle did not begin within 500 ms.
fn measure(extra: &[&str], rounds: usize) -> Result<Vec<Duration>, String> {
    let scene = Scene::new();
    let mut args = vec!["--db", ".beads", "--interval", "60s", "--exec", "date +%s%N >>cycles"];
    args.extend(extra);
    let _agent = scene.start_agent(&args);
    wait_until(PATIENCE, "the first cycle", || cycles(&scene).len() == 1);
    (0..rounds)
        .map(|round| one_release(&scene).ok_or(format!("round {round}: no cycle within 500 ms")))
        .collect()
}

fn one_release(scene: &Scene) -> Option<Duration> {
    let hold = scene.hold(&["-q", "--", "sleep", "0.3"]);
    let before = cycles(scene).len();
    while scene.lock().exists() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let released = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos();
    let seen = Instant::now();
    let begun = loop {
        if let Some(begun) = cycles(scene).get(before) {
            break *begun;
        }
        if seen.elapsed() > Duration::from_millis(500) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(hold.finish(PATIENCE).status.success());
    Some(Duration::from_nanos(u64::try_from(begun.saturating_sub(released)).ok()?))
}

#[test]
fn a_cycle_follows_a_release_at_once() {
    let mut times = measure(&[], 20).expect("every release starts a cycle");
    times.sort();
    let median = (times[9] + times[10]) / 2;
    println!("from release to cycle: median {median:?}, longest {:?}", times[19]);
    assert!(median <= Duration::from_millis(100), "median {median:?} of {times:?}");
    assert!(times[19] <= Duration::from_millis(500), "{times:?}");
}

/// What the test above is worth: without the watcher the next cycle is a minute away.
#[test]
fn without_the_watcher_it_does_not() {
    let times = measure(&["--no-watch"], 1);
    assert!(times.is_err(), "without the watcher a cycle began after {times:?}");
}
