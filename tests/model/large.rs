//! The same with more of them at once: minutes, so only when asked for (`make model`).

use std::time::Instant;

use crate::properties::*;
use crate::protocol::Protocol;
use crate::run::always_holds;
use crate::system::System;

const FALLBACK: System = System {
    protocol: Protocol::WITHOUT_LEASES,
    ..System::NOBODY
};

fn hold(system: System, least: usize) {
    let begun = Instant::now();
    let seen = [
        CYCLE_RUNS,
        COMMAND_RUNS,
        STALE_LOCK_REMOVED,
        LOCK_PUT_BACK,
        RECOVERY_DELETES,
        RECOVERY_EXCHANGES,
    ];
    let states = always_holds(system, &seen);
    assert!(
        states >= least,
        "only {states} states: is somebody standing still?"
    );
    println!("{system}: {states} states, {:.1?}", begun.elapsed());
}

#[test]
#[ignore = "long: make model"]
fn everybody_and_two_crashes() {
    let system = System {
        claimers: 2,
        agents: 2,
        checks: 1,
        in_place: 1,
        by_rename: 1,
        crashes: 2,
        ..System::NOBODY
    };
    hold(system, 1_500_000);
}

#[test]
#[ignore = "long: make model"]
fn everybody_and_two_writers_in_place() {
    hold(
        System {
            claimers: 2,
            agents: 2,
            checks: 1,
            in_place: 2,
            crashes: 1,
            ..System::NOBODY
        },
        1_000_000,
    );
}

#[test]
#[ignore = "long: make model"]
fn three_writers() {
    let system = System {
        claimers: 1,
        agents: 1,
        checks: 1,
        in_place: 2,
        by_rename: 1,
        crashes: 1,
        ..System::NOBODY
    };
    hold(system, 3_000_000);
}

#[test]
#[ignore = "long: make model"]
fn without_leases_everybody_and_two_crashes() {
    let system = System {
        claimers: 2,
        agents: 2,
        checks: 1,
        in_place: 1,
        by_rename: 1,
        crashes: 2,
        ..FALLBACK
    };
    hold(system, 1_000_000);
}

#[test]
#[ignore = "long: make model"]
fn without_leases_everybody_and_two_writers_by_rename() {
    hold(
        System {
            claimers: 2,
            agents: 2,
            checks: 1,
            by_rename: 2,
            crashes: 2,
            ..FALLBACK
        },
        500_000,
    );
}
