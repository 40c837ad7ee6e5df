//! When a daemon looks at the lock, and the document's five steps.

use std::fs;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Scene, wait_until};

const SKIPPING: &str = "Skipping database (locked by my-tool)";

fn count(log: &str, line: &str) -> usize {
    log.matches(line).count()
}

/// Writes a lock of this test, which lives, and knows nothing of the gate.
fn claim(scene: &Scene) {
    scene.claim("my-tool", std::process::id());
}

#[test]
fn the_lock_is_looked_at_when_a_cycle_begins_and_each_time_anew() {
    let scene = Scene::new();
    let _daemon = scene.start_agent(&["--db", ".beads", "--interval", "50ms", "--action", "none"]);
    for round in 1..4 {
        claim(&scene);
        let skips = count(&scene.log(), SKIPPING);
        scene.wait_for_log("three skips", |log| count(log, SKIPPING) >= skips + 3);
        let cycles = count(&scene.log(), "Starting sync cycle...");
        scene.wait_for_log("one skip more", |log| count(log, SKIPPING) >= skips + 4);
        assert_eq!(
            count(&scene.log(), "Starting sync cycle..."),
            cycles,
            "round {round}: none begins beside the lock"
        );
        scene.unlock();
        scene.wait_for_log("a cycle", |log| count(log, "Sync cycle complete") > cycles);
    }
}

/// By the lock file alone: `beadlock hold` would wait for the cycle.
#[test]
fn a_lock_made_in_a_cycle_lets_that_one_end_and_no_other_begin() {
    let scene = Scene::new();
    let work = "echo begun >>begun; until [ -e go ]; do sleep 0.02; done";
    let _daemon = scene.start_agent(&["--db", ".beads", "--interval", "50ms", "--exec", work]);
    let begun = || count(&scene.read("begun"), "begun\n");
    wait_until(PATIENCE, "the cycle's work", || begun() == 1);
    claim(&scene);
    scene.write("go", "");
    scene.wait_for_log("skips", |log| count(log, SKIPPING) >= 3);
    let log = scene.log();
    let (complete, skipping) = (log.find("Sync cycle complete"), log.find(SKIPPING));
    assert!(
        complete.is_some() && complete < skipping,
        "the cycle has ended before the first skip: {log}"
    );
    assert_eq!(
        (count(&log, "Sync cycle complete"), begun()),
        (1, 1),
        "{log}"
    );
    scene.unlock();
    wait_until(PATIENCE, "another cycle", || begun() >= 2);
}

/// With the document's interval of a minute: a change has the daemon look, and the end of the lock too.
#[test]
fn the_five_steps_of_the_document() {
    let scene = Scene::new();
    // 1. Start the daemon.
    let _daemon = scene.start_agent(&[
        "--db",
        ".beads",
        "--interval",
        "1m",
        "--exec",
        "echo cycle >>cycles",
    ]);
    scene.wait_for_log("the first cycle's end", |log| {
        log.contains("Sync cycle complete")
    });
    // 2. Create a lock.
    let before = count(&scene.log(), "Starting sync cycle...");
    claim(&scene);
    // 3. The daemon skips: it says so in the log, and does nothing.
    fs::write(scene.beads().join("issues.jsonl"), "{\"id\":\"bd-2\"}\n")
        .expect("change the database");
    scene.wait_for_log("the skip", |log| log.contains(SKIPPING));
    assert_eq!(count(&scene.log(), "Starting sync cycle..."), before);
    assert_eq!(scene.read("cycles"), "cycle\n".repeat(before));
    // 4. Release the lock.
    scene.unlock();
    // 5. The daemon resumes, without waiting for the minute.
    scene.wait_for_log("a cycle", |log| count(log, "Sync cycle complete") > before);
    let log = scene.log();
    assert!(
        log.rfind("Starting sync cycle...") > log.rfind(SKIPPING),
        "{log}"
    );
    assert!(log.contains("Resumed after "), "{log}");
}
