//! `memory:DIR`: judged by its process and by its age.

use beadlock_tests::this_host;
use jiff::{SignedDuration, Timestamp};

use crate::protocol::{
    Audit, Breaking, Dead, DefaultWait, Doubtful, EVENT, ForProcess, Garbage, HOLDER, Leaves,
    NEIGHBOUR, Neighbour, Orphan, Protocol, Refusal, Takeover, Unwritable,
};

const MEMORY: Protocol = Protocol {
    target: "memory:memory",
    shown: "memory:memory",
    directory: "memory",
    lock_file: ".lock",
    gate: "memory",
    claim: &["--session-id", HOLDER],
    short_lived: &[],
    record: &[
        "pid",
        "session_id",
        "acquired_at",
        "hostname",
        "operation",
        "beadlock",
    ],
    holder_key: Some("session_id"),
    refusal: Refusal {
        exit_code: 4,
        error_code: "LOCK_HELD",
        reason: "age_fresh",
        at_once: |_| held_for("0.0"),
        after_300_ms: |_| held_for("0.3"),
        detail: &["lock_file", "holder_pid", "holder_age_ms"],
        gate_shut: (4, "DRAIN_TIMEOUT"),
        lock_object: &[],
    },
    default_wait: DefaultWait::Waits,
    neighbour: Neighbour::Writes(|pid| text(pid, 0, &this_host())),
    dead: &[
        Dead {
            what: "its process is gone",
            text: |pid| text(pid, 0, &this_host()),
            reason: "pid_gone",
            checked: |pid| format!("[LOCK] Breaking stale lock: process {pid} is dead"),
            taken: |pid| format!("[LOCK] Breaking stale lock: process {pid} is dead"),
        },
        Dead {
            what: "it is of another host and too old",
            text: |pid| text(pid, 20, "elsewhere.example"),
            reason: "age_exceeded",
            checked: |_| FOREIGN.to_owned(),
            taken: |_| FOREIGN.to_owned(),
        },
    ],
    doubtful: &[Doubtful {
        what: "its process is on another host, and it is young",
        text: |pid| text(pid, 0, "elsewhere.example"),
        reason: "age_fresh",
    }],
    takeover: Takeover::ByAnyone,
    garbage: Garbage {
        verdict: "free",
        reason: "malformed",
        exit_code: 0,
        a_directory_is_locked: false,
    },
    orphan: Orphan::IsEnded,
    for_process: ForProcess::IsReleased,
    released: "Lock released.",
    breaking: Breaking::ByIdOrUnnamed,
    leaves: Leaves::Nothing,
    listed_below: Some("."),
    audit: Audit {
        lock_name: "memory:memory",
        acquired: EVENT,
        released: EVENT,
        blocked: Some("lock_blocked"),
        lost: EVENT,
        taken: Some("lock_stale_removed"),
        unwritable: Unwritable::RefusesTheClaim,
    },
};

const FOREIGN: &str = "[LOCK] Breaking stale lock: cross-machine lock from elsewhere.example, ";

fn held_for(seconds: &str) -> String {
    format!(
        "Could not acquire lock within {seconds}s. Held by session '{HOLDER}' for operation 'cli-test'"
    )
}

/// A lock that is so many seconds old, as the document's Python program writes it.
fn text(pid: i32, age: i64, host: &str) -> String {
    let acquired = Timestamp::now() - SignedDuration::from_secs(age);
    let acquired = acquired.strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00");
    format!(
        r#"{{
  "pid": {pid},
  "session_id": "{NEIGHBOUR}",
  "acquired_at": "{acquired}",
  "hostname": "{host}",
  "operation": "write:tasks.json"
}}"#
    )
}

stories!(MEMORY);
