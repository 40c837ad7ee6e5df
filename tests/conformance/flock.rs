//! `flock:PATH`: an flock on the file itself, which flock(1) takes too. The rest is as in `file`.

use beadlock_tests::{Running, until};

use crate::protocol::{
    Audit, Breaking, DefaultWait, EVENT, ForProcess, Garbage, Leaves, Neighbour, Orphan, Protocol,
    Refusal, Takeover, Unwritable,
};
use crate::site::Site;

const FLOCK: Protocol = Protocol {
    target: "flock:data/build.lck",
    shown: "flock:data/build.lck",
    directory: "data",
    lock_file: "build.lck",
    gate: "data/build.lck",
    claim: &[],
    short_lived: &[],
    record: &[],
    holder_key: None,
    refusal: Refusal {
        exit_code: 8,
        error_code: "E_LOCK_FAILED",
        reason: "flock_held",
        at_once: |_| {
            "Cannot acquire lock on data/build.lck (another process may be active)".to_owned()
        },
        after_300_ms: |_| "Failed to acquire lock (timeout after 0.3s)".to_owned(),
        detail: &["lock_file", "timeout_ms", "holder_pid"],
        gate_shut: (8, "E_LOCK_FAILED"),
        lock_object: &[],
    },
    default_wait: DefaultWait::Waits,
    neighbour: Neighbour::Locks(flock),
    dead: &[],
    doubtful: &[],
    takeover: Takeover::Never,
    // Only the flock counts.
    garbage: Garbage {
        verdict: "free",
        reason: "no_lock",
        exit_code: 0,
        a_directory_is_locked: true,
    },
    orphan: Orphan::IsEnded,
    for_process: ForProcess::IsReleased,
    released: "released ",
    breaking: Breaking::Impossible,
    leaves: Leaves::AnEmptyLockFile,
    listed_below: None,
    audit: Audit {
        lock_name: "flock:data/build.lck",
        acquired: EVENT,
        released: EVENT,
        blocked: Some("lock_blocked"),
        lost: EVENT,
        taken: None,
        unwritable: Unwritable::RefusesTheClaim,
    },
};

/// flock(1), which is one process with its command.
fn flock(site: &Site) -> Running {
    let process = site.start_shell("exec flock -F data/build.lck sleep 600");
    until("flock(1) has the lock", || site.gate_is_shut());
    process
}

stories!(FLOCK);
