//! `.beads`: a database, judged by the process that its lock names.

use beadlock_tests::{lock_text, this_host};

use crate::protocol::{
    Audit, Breaking, Dead, DefaultWait, Doubtful, EVENT, ForProcess, Garbage, HOLDER, Leaves,
    NEIGHBOUR, Neighbour, Orphan, Protocol, Refusal, Takeover, Unwritable,
};

pub const BEADS: Protocol = Protocol {
    target: ".beads",
    shown: "beads:.beads",
    directory: ".beads",
    lock_file: ".exclusive-lock",
    gate: ".beads",
    claim: &["--holder", HOLDER],
    short_lived: &[],
    record: RECORD,
    holder_key: Some("holder"),
    refusal: Refusal {
        exit_code: 4,
        error_code: "LOCK_HELD",
        reason: "pid_alive",
        at_once: |pid| format!(".beads/.exclusive-lock is held by {HOLDER} (PID {pid}"),
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
        lock_name: "beads:.beads",
        acquired: EVENT,
        released: EVENT,
        blocked: Some("lock_blocked"),
        lost: EVENT,
        taken: Some("lock_stale_removed"),
        unwritable: Unwritable::RefusesTheClaim,
    },
};

/// The record of a database's lock, which `lock:PATH` has too.
pub const RECORD: &[&str] = &["holder", "pid", "hostname", "started_at", "beadlock"];

pub const DEAD: &[Dead] = &[Dead {
    what: "its process is gone",
    text: |pid| lock_text(NEIGHBOUR, pid.into(), &this_host()),
    reason: "pid_gone",
    // A database's goes on: `, proceeding with sync`.
    checked: |_| format!("Removed stale lock ({NEIGHBOUR})"),
    taken: |pid| format!("removed stale lock of {NEIGHBOUR} (PID {pid}, pid_gone)"),
}];

pub const DOUBTFUL: &[Doubtful] = &[Doubtful {
    what: "its process is on another host",
    text: |pid| lock_text(NEIGHBOUR, pid.into(), "elsewhere.example"),
    reason: "other_host",
}];

stories!(BEADS);
