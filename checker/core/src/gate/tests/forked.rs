//! Gates in a forked process. A program that uses this library may fork during a cycle, and dropping the child's copy
//! of the gate must not release it.

use std::{path::Path, process::Command, thread};

use crate::{Cycle, Entered, gate::Gate};
use beadlock_base::sys::in_a_fork;

/// True if flock(1), another process, finds the gate shut.
fn is_shut(dir: &Path) -> bool {
    !Command::new("flock")
        .arg("-n")
        .arg(dir)
        .arg("true")
        .status()
        .unwrap()
        .success()
}

fn enter(dir: &Path) -> Cycle {
    match Cycle::enter(dir) {
        Entered::Cycle(cycle) => cycle,
        Entered::Skipped(decision) => panic!("{decision}"),
    }
}

#[test]
fn a_child_that_drops_its_copy_of_a_cycle_leaves_the_gate_shut() {
    let dir = tempfile::tempdir().unwrap();
    let cycle = enter(dir.path());
    let user = thread::scope(|threads| {
        let forks = move || {
            // `take` runs in the child alone, so the parent's value is not dropped here.
            let mut cycle = Some(cycle);
            let has_left = in_a_fork(|| cycle.take().unwrap().leave()).unwrap();
            (has_left, cycle)
        };
        threads.spawn(forks).join().unwrap()
    });
    let (true, Some(cycle)) = user else {
        panic!("{user:?}")
    };
    assert!(is_shut(dir.path()), "the cycle goes on here");
    cycle.leave();
    assert!(!is_shut(dir.path()), "it was this process's to open");
}

#[test]
fn the_copy_of_each_gate_opens_nothing_however_it_was_taken() {
    let dir = tempfile::tempdir().unwrap();
    let opened = || std::fs::File::open(dir.path()).unwrap().into();
    let ways: [&dyn Fn() -> Gate; 3] = [
        &|| Gate::try_take(dir.path()).unwrap().unwrap(),
        &|| {
            Gate::try_take_opened(opened(), dir.path().to_owned())
                .unwrap()
                .unwrap()
        },
        &|| Gate::take_blocking(dir.path()).unwrap(),
    ];
    for (way, take) in ways.iter().enumerate() {
        let mut gate = Some(take());
        assert!(in_a_fork(|| drop(gate.take())).unwrap());
        assert!(is_shut(dir.path()), "way {way}");
        drop(gate);
        assert!(!is_shut(dir.path()), "way {way}");
    }
}

/// A forked process holds the gate that it has taken itself.
#[test]
fn a_gate_that_was_taken_in_a_fork_is_opened_there() {
    let dir = tempfile::tempdir().unwrap();
    let goes = || {
        let gate = Gate::try_take(dir.path()).unwrap().unwrap();
        let kept = gate.share().unwrap();
        assert!(is_shut(dir.path()));
        drop(gate);
        assert!(!is_shut(dir.path()), "opened for all who share it");
        drop(kept);
    };
    assert!(in_a_fork(goes).unwrap());
}
