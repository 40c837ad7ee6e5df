//! `tower:NAME`: judged by its heartbeat alone, and taken only by a claim that says so.

use jiff::{SignedDuration, Timestamp};

use crate::protocol::{
    Audit, Breaking, Dead, DefaultWait, Doubtful, ForProcess, Garbage, HOLDER, Leaves, NEIGHBOUR,
    Neighbour, Orphan, Protocol, Refusal, Takeover, Unwritable,
};

const TOWER: Protocol = Protocol {
    target: "tower:app-prod",
    shown: "tower:app-prod",
    directory: "locks",
    lock_file: "app-prod.lock",
    gate: "locks",
    claim: &[
        "--actor",
        HOLDER,
        "--intent-name",
        "deploy-app",
        "--intent-version",
        "1.2.0",
    ],
    short_lived: &["--ttl", "1"],
    record: &[
        "lock_version",
        "lock_name",
        "request_id",
        "actor",
        "intent",
        "intent_version",
        "host_id",
        "pid",
        "created_at",
        "last_heartbeat_at",
        "ttl_seconds",
        "metadata",
    ],
    holder_key: Some("actor"),
    refusal: Refusal {
        exit_code: 4,
        error_code: "LOCK_HELD",
        reason: "heartbeat_fresh",
        at_once: |pid| format!("locks/app-prod.lock is held by {HOLDER} (PID {pid}"),
        after_300_ms: |_| "gave up after 300ms".to_owned(),
        detail: &["lock_file", "holder_pid", "holder_age_ms"],
        gate_shut: (4, "DRAIN_TIMEOUT"),
        lock_object: &["error", "lock_name", "held_by", "suggestion"],
    },
    default_wait: DefaultWait::RefusesAtOnce,
    neighbour: Neighbour::Writes(|pid| text(pid, 0)),
    dead: &[Dead {
        what: "its last heartbeat is older than its TTL",
        text: |pid| text(pid, 1000),
        reason: "heartbeat_expired",
        checked: |_| format!("Skipping (stale lock of {NEIGHBOUR}, no heartbeat for "),
        taken: |pid| format!("removed stale lock of {NEIGHBOUR} (PID {pid}, heartbeat_expired)"),
    }],
    doubtful: &[Doubtful {
        what: "its process is gone, and its heartbeat is fresh",
        text: |pid| text(pid, 0),
        reason: "heartbeat_fresh",
    }],
    takeover: Takeover::OnlyWith("--force-lock"),
    garbage: Garbage {
        verdict: "unreadable",
        reason: "malformed",
        exit_code: 5,
        a_directory_is_locked: false,
    },
    orphan: Orphan::IsEnded,
    for_process: ForProcess::IsReleased,
    released: "released ",
    breaking: Breaking::ById,
    leaves: Leaves::Nothing,
    listed_below: Some("tower:"),
    audit: Audit {
        lock_name: "app-prod",
        acquired: &[
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "lock_path",
            "ttl_seconds",
        ],
        released: &[
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "held_duration_seconds",
            "result",
        ],
        // Its document has no such event.
        blocked: None,
        lost: &[
            "event",
            "request_id",
            "timestamp",
            "lock_name",
            "lock_path",
            "held_duration_seconds",
            "reason",
            "error",
        ],
        taken: Some("lock_stolen"),
        unwritable: Unwritable::IsAWarning,
    },
};

/// A lock whose last heartbeat is so many seconds ago, as the document's script writes it.
fn text(pid: i32, silent: i64) -> String {
    let ago = |seconds| {
        let then = Timestamp::now() - SignedDuration::from_secs(seconds);
        then.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    };
    let (created, beat) = (ago(silent + 60), ago(silent));
    format!(
        r#"{{
  "lock_version": "v1",
  "lock_name": "app-prod",
  "request_id": "req_abc",
  "actor": "{NEIGHBOUR}",
  "intent": "deploy-app",
  "intent_version": "1.2.0",
  "host_id": "tower-01",
  "pid": {pid},
  "created_at": "{created}",
  "last_heartbeat_at": "{beat}",
  "ttl_seconds": 900,
  "metadata": {{}}
}}
"#
    )
}

stories!(TOWER);
