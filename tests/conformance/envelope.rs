//! The envelope of `--json`, and the two closed lists in it.

use beadlock_tests::is_request_id;
use serde_json::Value;

const ERROR_CODES: &[&str] = &[
    "LOCK_HELD",
    "LOCK_UNREADABLE",
    "LOCK_LOST",
    "LOCK_STALE",
    "DRAIN_TIMEOUT",
    "E_LOCK_FAILED",
    "NO_TARGET",
    "USAGE",
    "IO",
    "NOT_PERMITTED",
    "FLEET_UNREACHABLE",
];

const REASONS: &[&str] = &[
    "no_lock",
    "pid_alive",
    "pid_not_permitted",
    "pid_gone",
    "gate_busy",
    "removal_failed",
    "pid_unknown",
    "other_host",
    "host_unknown",
    "other_machine",
    "other_pid_namespace",
    "malformed",
    "invalid",
    "unreadable",
    "other_boot",
    "pid_reused",
    "zombie",
    "heartbeat_fresh",
    "heartbeat_expired",
    "heartbeat_in_future",
    "age_fresh",
    "age_exceeded",
    "flock_held",
    "foreign_owner",
    "namespace_gone",
    "fleet_held",
    "fleet_new",
    "fleet_unreachable",
    "fleet_use_cycle",
    "fleet_lost",
];

const VERDICTS: &[&str] = &["free", "held", "stale", "unreadable"];

pub const CHECKED: &[&str] = &[
    "target", "path", "decision", "verdict", "removed", "holder", "id", "reason", "message",
];

pub const SHOWN: &[&str] = &[
    "target",
    "path",
    "verdict",
    "holder",
    "id",
    "reason",
    "message",
    "record",
    "age_ms",
    "witnesses",
    "next",
];

/// The keys of an object, in order.
#[track_caller]
pub fn keys(object: &Value) -> Vec<&str> {
    object
        .as_object()
        .unwrap_or_else(|| panic!("no object: {object}"))
        .keys()
        .map(String::as_str)
        .collect()
}

#[track_caller]
fn is_one_of(word: &Value, known: &[&str]) {
    assert!(
        word.as_str().is_some_and(|word| known.contains(&word)),
        "{word} is not in {known:?}"
    );
}

fn is_text_or_null(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

/// The envelope has its fields in their order, each of its type.
#[track_caller]
pub fn is_whole(envelope: &Value) {
    assert_eq!(
        keys(envelope),
        ["ok", "data", "error", "warnings", "meta"],
        "{envelope}"
    );
    assert_eq!(
        envelope["ok"],
        Value::from(envelope["error"].is_null()),
        "{envelope}"
    );
    let warnings = envelope["warnings"].as_array().expect("a list of warnings");
    assert!(warnings.iter().all(Value::is_string), "{envelope}");
    assert_eq!(
        keys(&envelope["meta"]),
        ["duration_ms", "request_id", "schema"]
    );
    assert!(envelope["meta"]["duration_ms"].is_u64(), "{envelope}");
    assert!(is_request_id(&envelope["meta"]["request_id"]), "{envelope}");
}

/// It is an answer without an error.
#[track_caller]
pub fn is_answer(envelope: &Value) {
    is_whole(envelope);
    assert_eq!(envelope["ok"], true, "{envelope}");
}

/// It is an error of this code; `more` are keys that follow those of every error.
#[track_caller]
pub fn is_error<'e>(envelope: &'e Value, code: &str, more: &[&str]) -> &'e Value {
    is_whole(envelope);
    let error = &envelope["error"];
    assert_eq!(error["code"], code, "{envelope}");
    is_one_of(&error["code"], ERROR_CODES);
    let expected = [
        &["code", "message", "retryable", "retry_after_ms", "detail"],
        more,
    ]
    .concat();
    assert_eq!(keys(error), expected, "{envelope}");
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty()),
        "{envelope}"
    );
    let retryable = error["retryable"].as_bool().expect("a boolean");
    assert_eq!(error["retry_after_ms"].is_u64(), retryable, "{envelope}");
    assert!(retryable || error["retry_after_ms"].is_null(), "{envelope}");
    assert!(is_text_or_null(&error["detail"]), "{envelope}");
    error
}

/// The one answer in the list of a check.
#[track_caller]
pub fn checked(envelope: &Value) -> &Value {
    is_answer(envelope);
    let data = one(envelope);
    assert_eq!(keys(data), CHECKED);
    is_one_of(&data["decision"], &["proceed", "skip"]);
    assert!(data["removed"].is_boolean(), "{data}");
    is_seen(data);
    data
}

/// The one lock in the list of a status or a list.
#[track_caller]
pub fn shown(envelope: &Value) -> &Value {
    is_answer(envelope);
    let data = one(envelope);
    assert_eq!(keys(data), SHOWN);
    assert!(
        data["record"].is_object() || data["record"].is_null(),
        "{data}"
    );
    assert!(
        data["age_ms"].is_u64() || data["age_ms"].is_null(),
        "{data}"
    );
    assert!(data["witnesses"].is_object(), "{data}");
    assert!(
        data["next"].as_str().is_some_and(|next| !next.is_empty()),
        "{data}"
    );
    is_seen(data);
    data
}

#[track_caller]
fn one(envelope: &Value) -> &Value {
    let data = envelope["data"].as_array().expect("a list");
    assert_eq!(data.len(), 1, "{envelope}");
    &data[0]
}

/// What check, status and list have in common.
#[track_caller]
fn is_seen(data: &Value) {
    is_one_of(&data["verdict"], VERDICTS);
    is_one_of(&data["reason"], REASONS);
    assert!(
        data["target"].is_string() && data["path"].is_string() && data["message"].is_string(),
        "{data}"
    );
    assert!(
        is_text_or_null(&data["holder"]) && is_text_or_null(&data["id"]),
        "{data}"
    );
}
