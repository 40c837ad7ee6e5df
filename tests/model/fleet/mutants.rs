//! Each rule that is left out breaks what the rest of them keep: in which way, and in how many steps at least.

use super::properties::*;
use super::rules::{RightRule, Rules};
use super::run::{always_holds, breaks, breaks_as_built, sticks};
use super::system::Fleets;
use super::world::Faults;

const BUILT: Rules = Rules::BUILT;
const NONE: Faults = Faults::NONE;

/// A claimer and an agent on two machines.
const TWO: Fleets = Fleets {
    rules: BUILT,
    claimers: &[0],
    agents: &[1],
    faults: NONE,
};
/// Two claimers on two machines.
const CLAIMERS: Fleets = Fleets {
    claimers: &[0, 1],
    agents: &[],
    ..TWO
};

const fn with(fleets: Fleets, faults: Faults) -> Fleets {
    Fleets { faults, ..fleets }
}

#[test]
fn a_look_in_place_of_the_right_runs_a_cycle_beside_a_command() {
    breaks(
        TWO,
        Rules {
            right: RightRule::Look,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        11,
    );
}

#[test]
fn a_right_that_is_put_after_a_look_runs_a_cycle_beside_a_command() {
    breaks(
        TWO,
        Rules {
            right: RightRule::LookThenPut,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        12,
    );
}

/// The old session's lease takes the right of the new one with it, which has the same name.
#[test]
fn a_right_by_the_name_of_the_host_runs_a_cycle_beside_a_command() {
    breaks(
        with(TWO, Faults { kills: 1, ..NONE }),
        Rules {
            right_names_lease: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        17,
    );
}

#[test]
fn a_right_without_a_lease_keeps_every_claim_away() {
    sticks(
        with(TWO, Faults { kills: 1, ..NONE }),
        Rules {
            right_has_lease: false,
            ..BUILT
        },
        190,
    );
}

#[test]
fn a_late_yield_that_names_no_claim_takes_a_right() {
    let rules = Rules {
        yield_names_claim: false,
        ..BUILT
    };
    breaks(
        with(
            TWO,
            Faults {
                messages: 1,
                ..NONE
            },
        ),
        rules,
        RIGHT_IS_KNOWN,
        15,
    );
}

#[test]
fn a_yield_while_a_cycle_runs_lets_a_command_start_beside_it() {
    breaks(
        TWO,
        Rules {
            yield_waits: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        14,
    );
}

#[test]
fn a_yield_only_of_what_the_agent_believes_to_have_keeps_a_claim_away() {
    let rules = Rules {
        yields_whatever: false,
        ..BUILT
    };
    sticks(
        with(
            TWO,
            Faults {
                messages: 1,
                ..NONE
            },
        ),
        rules,
        14,
    );
}

/// A restore brings back a right that the agent has given up already.
#[test]
fn a_yield_that_is_not_repeated_keeps_a_claim_away_after_a_restore() {
    let rules = Rules {
        yields_again: false,
        ..BUILT
    };
    sticks(
        with(
            TWO,
            Faults {
                restores: 1,
                ..NONE
            },
        ),
        rules,
        36,
    );
}

#[test]
fn an_answer_from_before_the_yield_makes_a_right_that_etcd_does_not_know() {
    breaks(
        TWO,
        Rules {
            right_after_yield: false,
            ..BUILT
        },
        RIGHT_IS_KNOWN,
        10,
    );
}

#[test]
fn the_end_of_a_claim_by_its_name_ends_another_claim() {
    let rules = Rules {
        end_names_lease: false,
        ..BUILT
    };
    breaks(
        with(TWO, Faults { breaks: 1, ..NONE }),
        rules,
        NO_CYCLE_BESIDE,
        17,
    );
    breaks(CLAIMERS, rules, NO_NEEDLESS_LOSS, 8);
}

#[test]
fn a_new_session_that_revokes_the_old_one_lets_a_command_start_beside_its_cycle() {
    breaks(
        with(TWO, Faults { kills: 1, ..NONE }),
        Rules {
            end_after_work: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        13,
    );
}

#[test]
fn without_a_watchdog_the_work_of_a_killed_or_stopped_program_runs_on() {
    let rules = Rules {
        watchdog: false,
        ..BUILT
    };
    breaks(
        with(TWO, Faults { kills: 1, ..NONE }),
        rules,
        NO_CYCLE_BESIDE,
        14,
    );
    breaks(
        with(TWO, Faults { stops: 1, ..NONE }),
        rules,
        NO_CYCLE_BESIDE,
        14,
    );
}

#[test]
fn without_a_look_at_the_deadline_a_stopped_program_begins_too_late() {
    breaks(
        with(TWO, Faults { stops: 1, ..NONE }),
        Rules {
            looks_at_deadline: false,
            ..BUILT
        },
        NO_CYCLE_BESIDE,
        15,
    );
}

#[test]
fn without_a_pause_a_new_fleet_begins_beside_the_work_of_the_old_one() {
    let rules = Rules {
        new_after_loss: false,
        ..BUILT
    };
    breaks(
        with(TWO, Faults { losses: 1, ..NONE }),
        rules,
        NO_CYCLE_BESIDE,
        13,
    );
    breaks(
        with(CLAIMERS, Faults { losses: 1, ..NONE }),
        rules,
        NO_OVERLAP,
        12,
    );
}

#[test]
fn a_fleet_known_by_its_revision_gives_a_token_twice() {
    let rules = Rules {
        fleet_has_nonce: false,
        ..BUILT
    };
    breaks(
        with(CLAIMERS, Faults { losses: 1, ..NONE }),
        rules,
        TOKENS_RISE,
        14,
    );
}

#[test]
fn a_break_that_revokes_lets_others_begin_beside_the_work() {
    let rules = Rules {
        break_marks: false,
        ..BUILT
    };
    breaks(
        with(TWO, Faults { breaks: 1, ..NONE }),
        rules,
        NO_CYCLE_BESIDE,
        12,
    );
    breaks(
        with(CLAIMERS, Faults { breaks: 1, ..NONE }),
        rules,
        NO_OVERLAP,
        11,
    );
}

#[test]
fn a_renewal_that_does_not_read_the_sessions_revision_keeps_a_right_that_etcd_does_not_know() {
    let rules = Rules {
        renewal_reads_revision: false,
        ..BUILT
    };
    breaks(
        with(
            TWO,
            Faults {
                restores: 1,
                ..NONE
            },
        ),
        rules,
        NO_CYCLE_BESIDE,
        15,
    );
}

#[test]
fn a_renewal_that_does_not_read_the_claim_keeps_a_command_whose_claim_is_gone() {
    let rules = Rules {
        renewal_reads_claim: false,
        ..BUILT
    };
    breaks(
        with(
            CLAIMERS,
            Faults {
                restores: 1,
                ..NONE
            },
        ),
        rules,
        NO_OVERLAP,
        13,
    );
}

#[test]
fn a_renewal_that_does_not_read_the_fleet_goes_on_in_another_one() {
    let rules = Rules {
        renewal_reads_fleet: false,
        ..BUILT
    };
    breaks(
        with(
            TWO,
            Faults {
                announced: 1,
                ..NONE
            },
        ),
        rules,
        NO_CYCLE_BESIDE,
        14,
    );
}

#[test]
fn an_answer_that_is_compared_with_what_is_known_by_now_ends_a_healthy_session() {
    breaks(
        TWO,
        Rules {
            compares_with_sent: false,
            ..BUILT
        },
        NO_NEEDLESS_LOSS,
        6,
    );
}

/// The claim of a restored snapshot is another one's, and only what `drained` compares says so in time.
#[test]
fn drained_without_the_claim_starts_a_command_beside_another_claim() {
    let rules = Rules {
        drained_compares_claim: false,
        ..BUILT
    };
    breaks(
        with(
            CLAIMERS,
            Faults {
                restores: 1,
                ..NONE
            },
        ),
        rules,
        NO_OVERLAP,
        14,
    );
}

/// The limit that is admitted (docs/fleet.md): a beadlock and its watchdog are killed together, and nobody is left to
/// end the work at the deadline.
#[test]
fn when_beadlock_and_its_watchdog_are_killed_the_work_runs_on() {
    let both = with(
        TWO,
        Faults {
            kills: 1,
            guards: 1,
            ..NONE
        },
    );
    breaks_as_built(both, NO_CYCLE_BESIDE, 15);
    always_holds(with(TWO, Faults { guards: 1, ..NONE }), &[COMMAND_RUNS]);
}
