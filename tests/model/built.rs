//! What is built holds, for every few that meet.

use crate::properties::*;
use crate::protocol::Protocol;
use crate::run::holds;
use crate::system::System;

const FALLBACK: System = System {
    protocol: Protocol::WITHOUT_LEASES,
    ..System::NOBODY
};

#[test]
fn two_claimers_two_agents_and_a_check() {
    let system = System {
        claimers: 2,
        agents: 2,
        checks: 1,
        crashes: 2,
        ..System::NOBODY
    };
    let seen = [
        CYCLE_RUNS,
        COMMAND_RUNS,
        CLAIM_DRAINS,
        WORK_OUTLIVES_AGENT,
        WORK_OUTLIVES_RUNNER,
        COMMAND_OUTLIVES_CLAIMER,
        STALE_LOCK_REMOVED,
        LOCK_RELEASED,
        RECOVERY_DELETES,
    ];
    holds(system, 7_000, &seen);
}

#[test]
fn a_claimer_an_agent_and_a_writer_in_place() {
    let system = System {
        claimers: 1,
        agents: 1,
        in_place: 1,
        crashes: 2,
        ..System::NOBODY
    };
    let seen = [
        CYCLE_RUNS,
        COMMAND_RUNS,
        STALE_LOCK_REMOVED,
        LOCK_RELEASED,
        LOCK_PUT_BACK,
        RECOVERY_DELETES,
        RECOVERY_PUTS_BACK,
        LEASE_BROKEN,
        LEASE_REFUSED,
        LEASE_TAKEN,
        LINK_FINDS_LOCK,
    ];
    holds(system, 4_000, &seen);
}

#[test]
fn a_claimer_an_agent_and_a_writer_by_rename() {
    let system = System {
        claimers: 1,
        agents: 1,
        by_rename: 1,
        crashes: 2,
        ..System::NOBODY
    };
    let seen = [
        COMMAND_RUNS,
        FOREIGN_FILE_MOVED,
        LOCK_PUT_BACK,
        RECOVERY_PUTS_BACK,
        LINK_FINDS_LOCK,
    ];
    holds(system, 2_000, &seen);
}

#[test]
fn a_claimer_an_agent_and_a_writer_of_each_kind() {
    let system = System {
        claimers: 1,
        agents: 1,
        in_place: 1,
        by_rename: 1,
        crashes: 1,
        ..System::NOBODY
    };
    holds(
        system,
        20_000,
        &[
            COMMAND_RUNS,
            CYCLE_RUNS,
            WAY_BACK_TAKEN,
            RECOVERY_EXCHANGES,
            LEASE_BROKEN,
        ],
    );
}

#[test]
fn a_claimer_an_agent_and_two_writers_in_place() {
    let system = System {
        claimers: 1,
        agents: 1,
        in_place: 2,
        crashes: 1,
        ..System::NOBODY
    };
    holds(
        system,
        40_000,
        &[
            COMMAND_RUNS,
            CYCLE_RUNS,
            WAY_BACK_TAKEN,
            RECOVERY_EXCHANGES,
            LEASE_REFUSED,
        ],
    );
}

#[test]
fn two_claimers_an_agent_and_a_writer_in_place() {
    let system = System {
        claimers: 2,
        agents: 1,
        in_place: 1,
        crashes: 1,
        ..System::NOBODY
    };
    holds(
        system,
        10_000,
        &[COMMAND_RUNS, CYCLE_RUNS, LEASE_BROKEN, LINK_FINDS_LOCK],
    );
}

#[test]
fn two_claimers_an_agent_and_a_writer_by_rename() {
    let system = System {
        claimers: 2,
        agents: 1,
        by_rename: 1,
        crashes: 2,
        ..System::NOBODY
    };
    holds(
        system,
        5_000,
        &[
            COMMAND_RUNS,
            CYCLE_RUNS,
            FOREIGN_FILE_MOVED,
            LINK_FINDS_LOCK,
        ],
    );
}

#[test]
fn a_claimer_an_agent_a_check_and_a_writer_in_place() {
    let system = System {
        claimers: 1,
        agents: 1,
        checks: 1,
        in_place: 1,
        crashes: 1,
        ..System::NOBODY
    };
    holds(system, 10_000, &[COMMAND_RUNS, CYCLE_RUNS, LEASE_BROKEN]);
}

#[test]
fn two_agents_a_check_and_two_writers_by_rename() {
    let system = System {
        agents: 2,
        checks: 1,
        by_rename: 2,
        crashes: 1,
        ..System::NOBODY
    };
    holds(
        system,
        10_000,
        &[
            CYCLE_RUNS,
            WAY_BACK_TAKEN,
            RECOVERY_EXCHANGES,
            FOREIGN_FILE_MOVED,
        ],
    );
}

#[test]
fn two_agents_a_check_and_a_writer_in_place() {
    let system = System {
        agents: 2,
        checks: 1,
        in_place: 1,
        crashes: 2,
        ..System::NOBODY
    };
    holds(
        system,
        5_000,
        &[CYCLE_RUNS, LEASE_TAKEN, RECOVERY_PUTS_BACK],
    );
}

/// Nobody comes but checks without the gate: they have to find what a claimer has left aside.
#[test]
fn a_claimer_a_check_and_two_writers_by_rename() {
    let system = System {
        claimers: 1,
        checks: 1,
        by_rename: 2,
        crashes: 2,
        ..System::NOBODY
    };
    holds(
        system,
        30_000,
        &[
            COMMAND_RUNS,
            RECOVERY_DELETES,
            RECOVERY_EXCHANGES,
            STALE_LOCK_REMOVED,
        ],
    );
}

#[test]
fn everybody() {
    let system = System {
        claimers: 1,
        agents: 2,
        checks: 1,
        in_place: 1,
        by_rename: 1,
        crashes: 1,
        ..System::NOBODY
    };
    let seen = [
        CYCLE_RUNS,
        COMMAND_RUNS,
        WAY_BACK_TAKEN,
        RECOVERY_EXCHANGES,
        LEASE_BROKEN,
        LEASE_TAKEN,
    ];
    holds(system, 190_000, &seen);
}

#[test]
fn without_leases_everybody_and_a_writer_in_place() {
    let system = System {
        claimers: 2,
        agents: 1,
        checks: 1,
        in_place: 1,
        crashes: 1,
        ..FALLBACK
    };
    holds(
        system,
        40_000,
        &[
            COMMAND_RUNS,
            CYCLE_RUNS,
            LOCK_PUT_BACK,
            RECOVERY_PUTS_BACK,
            STALE_LOCK_REMOVED,
        ],
    );
}

#[test]
fn without_leases_a_writer_of_each_kind() {
    let system = System {
        claimers: 1,
        agents: 1,
        in_place: 1,
        by_rename: 1,
        crashes: 1,
        ..FALLBACK
    };
    holds(
        system,
        10_000,
        &[COMMAND_RUNS, CYCLE_RUNS, WAY_BACK_TAKEN, RECOVERY_EXCHANGES],
    );
}

#[test]
fn without_leases_two_writers_by_rename() {
    let system = System {
        claimers: 1,
        agents: 2,
        by_rename: 2,
        crashes: 1,
        ..FALLBACK
    };
    holds(
        system,
        10_000,
        &[COMMAND_RUNS, CYCLE_RUNS, WAY_BACK_TAKEN, RECOVERY_EXCHANGES],
    );
}

/// Nobody comes to `lock:PATH` but actors that take the gate, and checks.
const AT_PATH: System = System {
    protocol: Protocol::LOCK_AT_PATH,
    ..System::NOBODY
};

#[test]
fn a_lock_at_a_path_needs_no_grace_in_its_release() {
    let seen = [
        COMMAND_RUNS,
        COMMAND_OUTLIVES_CLAIMER,
        STALE_LOCK_REMOVED,
        LOCK_RELEASED,
        RECOVERY_DELETES,
    ];
    for protocol in [
        Protocol::LOCK_AT_PATH,
        Protocol::LOCK_AT_PATH_WITHOUT_LEASES,
    ] {
        let system = System {
            claimers: 3,
            checks: 2,
            crashes: 2,
            protocol,
            ..AT_PATH
        };
        holds(system, 54_000, &seen);
    }
}

/// A person who edits it or restores it: the move is compared, so a file that was renamed over it is not lost.
#[test]
fn a_lock_at_a_path_beside_a_writer_by_rename() {
    let system = System {
        claimers: 2,
        checks: 1,
        by_rename: 1,
        crashes: 2,
        ..AT_PATH
    };
    holds(
        system,
        25_000,
        &[COMMAND_RUNS, LOCK_RELEASED, FOREIGN_FILE_MOVED],
    );
}
