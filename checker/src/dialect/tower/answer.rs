//! What a claim that is refused answers: the document's `lock_blocked` and `lock_stale`, key by key.

use std::time::Duration;

use serde_json::{Value, json};

use super::Record;

/// Answers a claim on a lock that is not stale.
pub fn answer_blocked(record: &Record) -> Value {
    let Record { lock_name, request_id, actor, intent, created_at, last_heartbeat_at, .. } = record;
    json!({
        "error": "lock_blocked",
        "lock_name": lock_name,
        "held_by": {
            "request_id": request_id, "actor": actor, "intent": intent,
            "created_at": created_at, "last_heartbeat_at": last_heartbeat_at,
        },
        "suggestion": "Wait for completion or use --force-lock if stale",
    })
}

/// Answers a claim without `--force-lock` on a lock that has been without a heartbeat for `age`.
pub fn answer_stale(record: &Record, age: Duration) -> Value {
    let Record { lock_name, request_id, actor, host_id, pid, last_heartbeat_at, ttl_seconds, .. } = record;
    json!({
        "error": "lock_stale",
        "lock_name": lock_name,
        "stale_since": last_heartbeat_at,
        "age_seconds": age.as_secs(),
        "ttl_seconds": ttl_seconds,
        "held_by": { "request_id": request_id, "actor": actor, "host_id": host_id, "pid": pid },
        "suggestion": "Use --force-lock to acquire (stale lock will be logged)",
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn blocked_is_the_documents_object_in_its_order() {
        assert_eq!(
            answer_blocked(&record()).to_string(),
            r#"{"error":"lock_blocked","lock_name":"money-tracker-production","held_by":{"request_id":"req_abc123def456","actor":"claude-code","intent":"deploy-app","created_at":"2025-12-18T10:30:10Z","last_heartbeat_at":"2025-12-18T10:30:40Z"},"suggestion":"Wait for completion or use --force-lock if stale"}"#
        );
    }

    #[test]
    fn stale_is_the_documents_object_in_its_order() {
        assert_eq!(
            answer_stale(&record(), Duration::from_secs(1800)).to_string(),
            r#"{"error":"lock_stale","lock_name":"money-tracker-production","stale_since":"2025-12-18T10:30:40Z","age_seconds":1800,"ttl_seconds":900,"held_by":{"request_id":"req_abc123def456","actor":"claude-code","host_id":"tower-01","pid":12345},"suggestion":"Use --force-lock to acquire (stale lock will be logged)"}"#
        );
    }
}
