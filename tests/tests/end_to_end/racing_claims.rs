//! Eight claims for one stale lock: one of them gets it, and nobody loses one.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, lock_text, this_host, wait_until};

const ROUNDS: usize = 60;
/// Rounds that run side by side, each in its own scene: they mostly sleep.
const LANES: usize = 6;

/// Runs for 1.5 s and for as long as another claim is still being tried, however slow the machine is.
const WORK: &str = "echo ran >>ran; sleep 1.5; until [ -e over ]; do sleep 0.02; done";

fn in_lanes(round: impl Fn(&Scene) + Sync) {
    std::thread::scope(|threads| {
        for _ in 0..LANES {
            threads.spawn(|| {
                for _ in 0..ROUNDS / LANES {
                    round(&Scene::new());
                }
            });
        }
    });
}

fn race(scene: &Scene, claims: usize) -> Vec<Running> {
    (0..claims).map(|_| scene.start(&["hold", "--no-wait", "--", "sh", "-c", WORK])).collect()
}

fn commands_run(scene: &Scene) -> usize {
    fs::read_to_string(scene.path().join("ran")).unwrap_or_default().lines().count()
}

/// Waits until at most one is left, ends it, and returns every exit code, sorted.
fn all_end(scene: &Scene, mut claims: Vec<Running>) -> Vec<i32> {
    wait_until(PATIENCE, "the losers end", || {
        claims.iter_mut().map(Running::is_running).filter(|runs| *runs).count() <= 1
    });
    fs::write(scene.path().join("over"), "").expect("end the winner");
    let code = |claim: Running| beadlock_tests::Ended::from(claim.finish(PATIENCE)).code;
    let mut codes: Vec<_> = claims.into_iter().map(code).collect();
    codes.sort_unstable();
    codes
}

#[test]
fn eight_claims_for_one_stale_lock_run_one_command() {
    in_lanes(|scene| {
        scene.write_stale_lock("long gone");
        let claims = race(scene, 8);
        let codes = all_end(scene, claims);
        assert_eq!(commands_run(scene), 1, "exit codes {codes:?}");
        assert_eq!(codes, [0, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(scene.names(), ["issues.jsonl"]);
    });
}

/// As `vc` and the shell recipe do: reads, finds it dead or absent, and writes in place, some moments later.
/// Returns its record if it claimed.
fn claim_in_place(scene: &Scene, first: u64, then: u64) -> Option<String> {
    std::thread::sleep(Duration::from_millis(first));
    let found = scene.lock_text();
    if !found.is_empty() && !found.contains("long gone") {
        return None;
    }
    std::thread::sleep(Duration::from_millis(then));
    let record = lock_text("in place", std::process::id().into(), &this_host());
    scene.write_lock(&record);
    Some(record)
}

#[test]
fn a_writer_in_place_among_the_eight_loses_no_claim() {
    let claimed = AtomicUsize::new(0);
    let round = AtomicUsize::new(0);
    in_lanes(|scene| {
        // The removal of the stale lock takes a tenth of a second, somewhere in the first half second.
        let round = round.fetch_add(1, Ordering::Relaxed) as u64;
        scene.write_stale_lock("long gone");
        let claims = race(scene, 7);
        let record = claim_in_place(scene, round * 7 % 240, round % 5 * 8);
        let codes = all_end(scene, claims);
        if let Some(record) = record {
            claimed.fetch_add(1, Ordering::Relaxed);
            assert_eq!(scene.lock_text(), record, "the claim in place is lost; exit codes {codes:?}");
            let others: Vec<_> = scene.names().into_iter().filter(|name| name.contains("aside")).collect();
            assert!(others.is_empty(), "left behind: {others:?}");
        }
    });
    let claimed = claimed.into_inner();
    println!("the writer claimed in {claimed} of {ROUNDS} rounds");
    assert!(claimed >= ROUNDS / 10, "the writer claimed {claimed} times of {ROUNDS}: the test shows nothing");
}
