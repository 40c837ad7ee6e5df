//! What was changed under a lock is synced the moment the lock goes away, not at the next interval.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Scene, run, wait_until};

/// How many cycles have begun, and the last one's first moment in nanoseconds of the wall clock.
fn cycles(scene: &Scene) -> Vec<u128> {
    let text = fs::read_to_string(scene.path().join("cycles")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
        .collect()
}

/// What a release was followed by, and how soon.
struct Round {
    /// The first line of the next cycle's command.
    cycle: Duration,
    /// The same command, started by the test at the release: what the machine itself takes just then.
    control: Duration,
}

/// A claim and a release again and again, with an agent whose interval never comes. Err names the round whose cycle
/// did not begin within `limit`.
fn measure(extra: &[&str], rounds: usize, limit: Duration) -> Result<Vec<Round>, String> {
    let scene = Scene::new();
    let mut args = vec![
        "--db",
        ".beads",
        "--interval",
        "1h",
        "--exec",
        "date +%s%N >>cycles",
    ];
    args.extend(extra);
    let _agent = scene.start_agent(&args);
    wait_until(PATIENCE, "the first cycle", || cycles(&scene).len() == 1);
    (0..rounds)
        .map(|round| {
            one_release(&scene, limit).ok_or(format!("round {round}: no cycle within {limit:?}"))
        })
        .collect()
}

/// None where no cycle has begun within `limit`.
fn one_release(scene: &Scene, limit: Duration) -> Option<Round> {
    let hold = scene.hold(&["-q", "--", "sleep", "0.3"]);
    let before = cycles(scene).len();
    while scene.lock().exists() {
        std::thread::sleep(Duration::from_micros(200));
    }
    let (released, seen) = (SystemTime::now(), Instant::now());
    let since = |moment: u128| {
        let released = released
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("a time after 1970")
            .as_nanos();
        Duration::from_nanos(
            u64::try_from(moment.saturating_sub(released)).expect("within centuries"),
        )
    };
    let mut command = scene.command("sh");
    command.args(["-c", "date +%s%N"]);
    let control = Ended::from(run(command)).out;
    let control = since(control.trim().parse().expect("nanoseconds"));
    let cycle = loop {
        if let Some(begun) = cycles(scene).get(before) {
            break since(*begun);
        }
        if seen.elapsed() > limit {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(hold.finish(PATIENCE).status.success());
    Some(Round { cycle, control })
}

/// A poll or the debounce would show in the median; a release that is not heard of has no cycle before the interval,
/// which is an hour. A round in which the machine stands still for a moment counts for neither.
#[test]
fn a_cycle_follows_a_release_at_once() {
    let rounds = measure(&[], 20, PATIENCE).expect("every release starts a cycle");
    let sorted = |of: fn(&Round) -> Duration| {
        let mut times: Vec<Duration> = rounds.iter().map(of).collect();
        times.sort();
        times
    };
    let (cycles, controls) = (sorted(|round| round.cycle), sorted(|round| round.control));
    let median = |times: &[Duration]| (times[9] + times[10]) / 2;
    let (cycle, control) = (median(&cycles), median(&controls));
    println!(
        "from release to cycle: median {cycle:?}, longest {:?}; a bare command: {control:?}, {:?}",
        cycles[19], controls[19]
    );
    let limit = Duration::from_millis(100).max(10 * control);
    assert!(
        cycle <= limit,
        "median {cycle:?} of {cycles:?}, beside {controls:?}"
    );
}

/// What the test above is worth: without the watcher the next cycle is an hour away.
#[test]
fn without_the_watcher_it_does_not() {
    let times = measure(&["--no-watch"], 1, Duration::from_secs(3)).map(|rounds| rounds[0].cycle);
    assert!(
        times.is_err(),
        "without the watcher a cycle began after {times:?}"
    );
}
