//! Fifty clients of one lock that come back when they are told to. What the rule makes of them over hours, at every
//! age and with other arrivals, is reckoned beside it (`retry_after` in `integration/claim/src/error/failure.rs`); this
//! is one round of it, on real processes.

use std::time::{Duration, Instant};
use std::{fs, thread};

use beadlock_tests::{Scene, lock_text, this_host};
use jiff::{SignedDuration, Timestamp};

#[test]
fn fifty_who_obey_are_no_crowd_at_an_old_lock() {
    let scene = Scene::new();
    let text = lock_text("deploy", std::process::id().into(), &this_host());
    let mut record: serde_json::Value = serde_json::from_str(&text).expect("a record is JSON");
    record["started_at"] = (Timestamp::now() - SignedDuration::from_secs(80))
        .to_string()
        .into();
    fs::write(scene.path().join("deploy.lock"), record.to_string()).expect("write the lock");
    let mut tries = thread::scope(|threads| {
        let clients: Vec<_> = (0..50)
            .map(|_| threads.spawn(|| come_back(&scene)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect::<Vec<_>>()
    });
    tries.sort_unstable();
    let within = |first: usize| {
        let end = tries[first] + Duration::from_millis(250);
        tries[first..].partition_point(|at| *at < end)
    };
    let busiest = (0..tries.len()).map(within).max().unwrap_or_default();
    println!("{busiest} of 50 tries within 250 ms");
    assert!(busiest <= 10, "{busiest} tries within 250 ms");
}

/// Is refused, sleeps for as long as it is told, tries again; the answer is when. That is when it was told to, because
/// on a machine that has other work many may wake up late together.
fn come_back(scene: &Scene) -> Instant {
    let refused = || {
        let words = [
            "hold",
            "lock:deploy.lock",
            "--no-wait",
            "--drain",
            "1m",
            "--",
            "true",
        ];
        let (code, envelope) = scene.json(&words);
        assert_eq!(
            (code, &envelope["error"]["code"]),
            (4, &"LOCK_HELD".into()),
            "{envelope}"
        );
        Duration::from_millis(
            envelope["error"]["retry_after_ms"]
                .as_u64()
                .expect("milliseconds"),
        )
    };
    let told = refused();
    let again = Instant::now() + told;
    thread::sleep(told);
    refused();
    again
}
