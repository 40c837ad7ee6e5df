//! What a daemon asks before every cycle, for ever, allocates nothing where there is no lock, and where there is one no
//! more than what it hands out.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use allocation_counter::{AllocationInfo, measure};
use beadlock_checker::{Reason, should_skip_database};
use beadlock_core::record::beads::{BeadlockKey, Record};

/// What the second check allocates: the first reads what holds for the whole life of a process.
fn of_a_check(dir: &Path, expected: Reason) -> AllocationInfo {
    assert_eq!(should_skip_database(dir).reason(), expected);
    measure(|| drop(black_box(should_skip_database(dir))))
}

#[test]
fn without_a_lock_nothing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(of_a_check(dir.path(), Reason::NoLock).count_total, 0);
    let long = dir.path().join("x".repeat(200)).join("y".repeat(200));
    fs::create_dir_all(&long).unwrap();
    assert_eq!(of_a_check(&long, Reason::NoLock).count_total, 0);
    assert!(
        measure(|| drop(black_box(vec![0_u8; 9]))).count_total > 0,
        "it counts"
    );
}

#[test]
fn with_a_live_lock_only_what_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let record = Record::new("make release", "1.2.3").unwrap();
    let write =
        |record: &Record| fs::write(dir.path().join(".exclusive-lock"), record.to_json()).unwrap();

    write(&Record {
        beadlock: None,
        ..record.clone()
    });
    let five_fields = of_a_check(dir.path(), Reason::PidAlive);
    assert_eq!(
        five_fields.count_total, 5,
        "holder, hostname, version, the box that they come in, and this host's name"
    );

    let BeadlockKey {
        version,
        machine_id,
        boot_id,
        pid_ns,
        time_ns,
        ..
    } = record.beadlock.as_ref().unwrap();
    let known = [version, machine_id, boot_id, pid_ns, time_ns]
        .into_iter()
        .flatten()
        .count() as u64;
    write(&record);
    assert_eq!(
        of_a_check(dir.path(), Reason::PidAlive).count_total,
        5 + 1 + known,
        "and what is in our own key"
    );
    assert_eq!(five_fields.count_current, 0);
}
