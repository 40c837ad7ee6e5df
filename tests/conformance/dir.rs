//! `dir:PATH`: any directory, by the lock and the rule of a database.

use beadlock_tests::{lock_text, this_host};

use crate::beads::{DEAD, DOUBTFUL, RECORD};
use crate::protocol::{
    Audit, Breaking, DefaultWait, EVENT, ForProcess, Garbage, HOLDER, Leaves, NEIGHBOUR, Neighbour,
    Orphan, Protocol, Refusal, Takeover, Unwritable,
};

const DIR: Protocol = Protocol {
    target: "dir:data",
    shown: "dir:data",
    directory: "data",
    lock_file: ".exclusive-lock",
    gate: "data",
    claim: &["--holder", HOLDER],
    short_lived: &[],
    record: RECORD,
    holder_key: Some("holder"),
    refusal: Refusal {
        exit_code: 4,
        error_code: "LOCK_HELD",
        reason: "pid_alive",
        at_once: |pid| format!("data/.exclusive-lock is held by {HOLDER} (PID {pid}"),
        after_300_ms: |_| "gave up after 300ms".to_owned(),
        detail: &["lock_file", "holder_pid", "holder_age_ms"],
        gate_shut: (4, "DRAIN_TIMEOUT"),
        lock_object: &[],
    },
    default_wait: DefaultWait::Waits,
    neighbour: Neighbour::Writes(|pid| lock_text(NEIGHBOUR, pid.into(), &this_host())),
    dead: DEAD,
    doubtful: DOUBTFUL,
    takeover: Takeover::ByAnyone,
    garbage: Garbage {
        verdict: "unreadable",
        reason: "malformed",
        exit_code: 5,
        a_directory_is_locked: false,
    },
    orphan: Orphan::KeepsTheLock,
    for_process: ForProcess::LeavesAStaleLock,
    released: "released ",
    breaking: Breaking::ById,
    leaves: Leaves::Nothing,
    listed_below: Some("."),
    audit: Audit {
        lock_name: "dir:data",
        acquired: EVENT,
        released: EVENT,
        blocked: Some("lock_blocked"),
        lost: EVENT,
        taken: Some("lock_stale_removed"),
        unwritable: Unwritable::RefusesTheClaim,
    },
};

stories!(DIR);
