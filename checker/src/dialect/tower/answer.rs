//! What a claim that is refused answers: the document's `lock_blocked` and `lock_stale`, key by key.

use std::time::Duration;

use serde::Serialize;

use super::{LockName, Record, StartedAt};

/// The answer to a claim on a lock that somebody has. Serialized it is the document's object, in its order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "error")]
pub enum Answer {
    /// It is held.
    #[serde(rename = "lock_blocked")]
    Blocked {
        /// The lock.
        lock_name: LockName,
        /// The holder.
        held_by: HeldBy,
        /// What to do.
        suggestion: &'static str,
    },
    /// It is stale, and nobody has said that it may be taken.
    #[serde(rename = "lock_stale")]
    Stale {
        /// The lock.
        lock_name: LockName,
        /// Its last heartbeat.
        stale_since: StartedAt,
        /// How long ago that is.
        age_seconds: u64,
        /// After how long it was stale.
        ttl_seconds: u64,
        /// The holder.
        held_by: WasHeldBy,
        /// What to do.
        suggestion: &'static str,
    },
}

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldBy {
    request_id: String,
    actor: String,
    intent: String,
    created_at: StartedAt,
    last_heartbeat_at: StartedAt,
}

/// The holder that has let a lock go stale.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WasHeldBy {
    request_id: String,
    actor: String,
    host_id: String,
    pid: i64,
}

impl Answer {
    /// Answers a claim on a lock that is not stale.
    pub fn blocked(record: &Record) -> Self {
        let Record { lock_name, request_id, actor, intent, created_at, last_heartbeat_at, .. } = record.clone();
        Self::Blocked {
            lock_name,
            held_by: HeldBy { request_id, actor, intent, created_at, last_heartbeat_at },
            suggestion: "Wait for completion or use --force-lock if stale",
        }
    }

    /// Answers a claim without `--force-lock` on a lock that has been without a heartbeat for `age`.
    pub fn stale(record: &Record, age: Duration) -> Self {
        let Record { lock_name, request_id, actor, host_id, pid, .. } = record.clone();
        Self::Stale {
            lock_name,
            stale_since: record.last_heartbeat_at,
            age_seconds: age.as_secs(),
            ttl_seconds: record.ttl_seconds,
            held_by: WasHeldBy { request_id, actor, host_id, pid },
            suggestion: "Use --force-lock to acquire (stale lock will be logged)",
        }
    }

    /// On one line.
    pub fn to_json(&self) -> String {
        #[expect(clippy::expect_used, reason = "strings and integers under fixed names always serialize")]
        serde_json::to_string(self).expect("strings and integers under fixed names")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn blocked_is_the_documents_object_in_its_order() {
        assert_eq!(
            Answer::blocked(&record()).to_json(),
            r#"{"error":"lock_blocked","lock_name":"money-tracker-production","held_by":{"request_id":"req_abc123def456","actor":"claude-code","intent":"deploy-app","created_at":"2025-12-18T10:30:10Z","last_heartbeat_at":"2025-12-18T10:30:40Z"},"suggestion":"Wait for completion or use --force-lock if stale"}"#
        );
    }

    #[test]
    fn stale_is_the_documents_object_in_its_order() {
        assert_eq!(
            Answer::stale(&record(), Duration::from_secs(1800)).to_json(),
            r#"{"error":"lock_stale","lock_name":"money-tracker-production","stale_since":"2025-12-18T10:30:40Z","age_seconds":1800,"ttl_seconds":900,"held_by":{"request_id":"req_abc123def456","actor":"claude-code","host_id":"tower-01","pid":12345},"suggestion":"Use --force-lock to acquire (stale lock will be logged)"}"#
        );
    }
}
