//! Each rule that is left out breaks what the rest of them keep: in which way, and in how many steps at least.

use crate::ending::ways_to_the_end;
use crate::properties::*;
use crate::protocol::{Protocol, Watch};
use crate::run::{always_holds, breaks};
use crate::system::System;

const BUILT: Protocol = Protocol::BUILT;

const CLAIMER_AND_AGENT: System = System {
    claimers: 1,
    agents: 1,
    crashes: 1,
    ..System::NOBODY
};
const AGENT_AND_WRITER_IN_PLACE: System = System {
    agents: 1,
    in_place: 1,
    ..System::NOBODY
};
const AGENT_AND_WRITER_BY_RENAME: System = System {
    agents: 1,
    by_rename: 1,
    ..System::NOBODY
};

#[test]
fn the_literal_protocol_runs_a_cycle_beside_a_command() {
    breaks(CLAIMER_AND_AGENT, Protocol::LITERAL, NO_CYCLE_BESIDE, 10);
}

#[test]
fn the_literal_protocol_runs_two_commands_at_once() {
    breaks(
        System {
            claimers: 2,
            ..System::NOBODY
        },
        Protocol::LITERAL,
        NO_OVERLAP,
        18,
    );
}

#[test]
fn the_literal_protocol_removes_the_lock_of_a_writer_and_begins_a_cycle() {
    breaks(
        AGENT_AND_WRITER_BY_RENAME,
        Protocol::LITERAL,
        CYCLE_SKIPS,
        8,
    );
    breaks(AGENT_AND_WRITER_IN_PLACE, Protocol::LITERAL, NO_LOSS, 11);
}

#[test]
fn without_the_gate_a_cycle_runs_beside_a_command() {
    breaks(
        CLAIMER_AND_AGENT,
        Protocol {
            gate: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        10,
    );
}

#[test]
fn without_the_gate_two_commands_run_at_once() {
    let system = System {
        claimers: 2,
        checks: 1,
        protocol: Protocol::WITHOUT_LEASES,
        ..System::NOBODY
    };
    breaks(
        system,
        Protocol {
            gate: false,
            ..Protocol::WITHOUT_LEASES
        },
        NO_OVERLAP,
        29,
    );
}

#[test]
fn without_the_gate_for_claims_a_cycle_runs_beside_a_command() {
    breaks(
        CLAIMER_AND_AGENT,
        Protocol {
            claim_under_gate: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        10,
    );
}

#[test]
fn when_the_work_does_not_hold_the_gate_it_runs_on_beside_a_command() {
    breaks(
        CLAIMER_AND_AGENT,
        Protocol {
            work_holds_gate: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        11,
    );
}

/// One kill for the agent, one for the runner: `pkill -9` makes both at once.
#[test]
fn when_the_work_does_not_inherit_the_gate_it_runs_on_beside_a_command() {
    let system = System {
        crashes: 2,
        ..CLAIMER_AND_AGENT
    };
    breaks(
        system,
        Protocol {
            work_inherits_gate: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        12,
    );
}

/// Nothing goes wrong, and nothing goes on: what the work has left behind keeps the gate.
#[test]
fn when_the_end_of_a_cycle_does_not_unlock_the_gate_stays_shut_for_ever() {
    let mutant = System {
        protocol: Protocol {
            end_unlocks: false,
            ..BUILT
        },
        ..CLAIMER_AND_AGENT
    };
    assert!(ways_to_the_end(&CLAIMER_AND_AGENT).stuck.is_empty());
    assert!(!ways_to_the_end(&mutant).stuck.is_empty());
}

#[test]
fn without_a_second_judgement_a_writer_in_place_loses_its_claim() {
    breaks(
        AGENT_AND_WRITER_IN_PLACE,
        Protocol {
            second_judgement: false,
            ..BUILT
        },
        NO_LOSS,
        15,
    );
}

#[test]
fn without_a_grace_a_writer_in_place_loses_its_claim() {
    breaks(
        AGENT_AND_WRITER_IN_PLACE,
        Protocol {
            grace: false,
            ..BUILT
        },
        NO_LOSS,
        15,
    );
}

/// Nobody but beadlock writes `lock:PATH`; of a database's lock this would be so.
#[test]
fn without_the_grace_of_a_release_a_writer_in_place_loses_its_claim() {
    let system = System {
        claimers: 1,
        in_place: 1,
        ..System::NOBODY
    };
    breaks(system, Protocol::LOCK_AT_PATH, NO_LOSS, 22);
}

/// A release that gives the lock up first, and waits afterwards. The writer has looked the path up. Its claim comes into
/// the file that is aside, and that cannot go back where another claim has been linked meanwhile.
#[test]
fn when_a_release_waits_without_the_gate_a_writer_claims_beside_another_claim() {
    for (built, steps) in [(BUILT, 26), (Protocol::WITHOUT_LEASES, 24)] {
        let system = System {
            claimers: 2,
            in_place: 1,
            protocol: built,
            ..System::NOBODY
        };
        let mutant = Protocol {
            release_keeps_gate: false,
            ..built
        };
        breaks(system, mutant, NO_TWO_CLAIMS, steps);
    }
}

#[test]
fn with_unlink_in_place_of_the_move_a_writer_of_either_kind_loses_its_claim() {
    breaks(
        AGENT_AND_WRITER_BY_RENAME,
        Protocol {
            move_aside: false,
            ..BUILT
        },
        NO_LOSS,
        9,
    );
    breaks(
        AGENT_AND_WRITER_IN_PLACE,
        Protocol {
            move_aside: false,
            ..BUILT
        },
        NO_LOSS,
        12,
    );
}

#[test]
fn with_unlink_in_place_of_the_move_a_release_takes_the_lock_of_a_writer() {
    let system = System {
        claimers: 1,
        by_rename: 1,
        ..System::NOBODY
    };
    breaks(
        system,
        Protocol {
            release_moves_aside: false,
            ..BUILT
        },
        NO_LOSS,
        16,
    );
}

#[test]
fn when_what_cannot_go_back_is_deleted_a_claim_is_lost() {
    let system = System {
        agents: 1,
        by_rename: 2,
        ..System::NOBODY
    };
    breaks(
        system,
        Protocol {
            stays_aside: false,
            ..BUILT
        },
        NO_LOSS,
        13,
    );
}

#[test]
fn when_nothing_is_watched_a_writer_in_place_loses_its_claim() {
    breaks(
        AGENT_AND_WRITER_IN_PLACE,
        Protocol {
            watch: Watch::Nothing,
            ..BUILT
        },
        NO_LOSS,
        15,
    );
}

/// The weakness that is admitted (docs/design.md#without-leases): where there is no lease, two writers in place at once
/// lose a claim. One of them is killed after it has written into the file that the other has truncated.
#[test]
fn without_leases_two_writers_in_place_lose_a_claim() {
    let two = System {
        agents: 1,
        in_place: 2,
        crashes: 1,
        ..System::NOBODY
    };
    breaks(two, Protocol::WITHOUT_LEASES, NO_LOSS, 19);
    let one = System {
        in_place: 1,
        crashes: 2,
        protocol: Protocol::WITHOUT_LEASES,
        ..two
    };
    always_holds(one, &[STALE_LOCK_REMOVED, LOCK_PUT_BACK]);
}

#[test]
fn when_a_removal_is_the_answer_a_cycle_begins_beside_a_claim() {
    breaks(
        AGENT_AND_WRITER_BY_RENAME,
        Protocol {
            look_again: false,
            ..BUILT
        },
        CYCLE_SKIPS,
        12,
    );
}

#[test]
fn when_a_side_file_is_deleted_unjudged_a_claim_is_lost() {
    let system = System {
        crashes: 1,
        ..AGENT_AND_WRITER_BY_RENAME
    };
    breaks(
        system,
        Protocol {
            side_file_is_judged: false,
            ..BUILT
        },
        NO_LOSS,
        13,
    );
}

#[test]
fn with_one_look_a_check_does_not_see_a_claim_that_is_aside() {
    let system = System {
        checks: 1,
        ..AGENT_AND_WRITER_BY_RENAME
    };
    breaks(
        system,
        Protocol {
            three_looks: false,
            ..BUILT
        },
        CHECK_SKIPS,
        10,
    );
}

/// The search for the end finds what is there to be found: with one look a side file stays for ever.
#[test]
fn with_one_look_a_side_file_stays_for_ever() {
    let system = System {
        claimers: 1,
        checks: 1,
        crashes: 1,
        ..System::NOBODY
    };
    let mutant = Protocol {
        three_looks: false,
        ..BUILT
    };
    breaks(system, mutant, CHECK_CLEARS, 7);
    assert!(ways_to_the_end(&system).stuck.is_empty());
    assert!(
        !ways_to_the_end(&System {
            protocol: mutant,
            ..system
        })
        .stuck
        .is_empty()
    );
}
