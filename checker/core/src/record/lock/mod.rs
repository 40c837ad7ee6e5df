//! The lock protocol: the beads record and rule for a lock file at any path (docs/design.md#locks-at-a-path), with the
//! messages of REQ-F-033 (docs/protocols/framework.md).

use std::time::Duration;

use super::beads::Record;

/// Message for a wait that ended after `limit`, for a lock with this record and age.
pub fn timed_out(record: &Record, age: Duration, limit: Duration) -> String {
    let limit = beadlock_base::duration::shown(limit);
    format!(
        "Resource lock held by PID {} (age: {}s) — acquisition timed out after {limit}",
        record.pid,
        age.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_documents() {
        let json =
            br#"{"holder":"deploy","pid":9001,"hostname":"h","started_at":"2026-02-01T10:11:12Z"}"#;
        let record = Record::parse(json).unwrap();
        assert_eq!(
            timed_out(
                &record,
                Duration::from_millis(12_048),
                Duration::from_secs(10)
            ),
            "Resource lock held by PID 9001 (age: 12s) — acquisition timed out after 10s"
        );
    }
}
