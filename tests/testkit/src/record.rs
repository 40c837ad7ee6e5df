//! Lock files of a database as other tools write them, and the ids that the protocols' documents give.

/// A lock file with the five fields and nothing else, started at the top of this second.
pub fn lock_text(holder: &str, pid: i64, hostname: &str) -> String {
    let started = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let record = serde_json::json!({
        "holder": holder, "pid": pid, "hostname": hostname, "started_at": started, "version": "1.0.0",
    });
    format!("{record:#}\n")
}

/// A lock file of one line as the shell recipe of the beads document writes it, always of the same moment of 2025.
pub fn shell_lock_text(holder: &str, pid: i64, hostname: &str) -> String {
    let holder = serde_json::Value::from(holder);
    format!(
        r#"{{"holder":{holder},"pid":{pid},"hostname":"{hostname}","started_at":"2025-10-25T12:00:00Z","version":"1"}}"#
    )
}

/// True for `req_` and 12 characters of `[a-z0-9]`: a request id as the tower document has it.
pub fn is_request_id(value: &serde_json::Value) -> bool {
    let is_part = |part: &str| {
        part.len() == 12
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    value
        .as_str()
        .and_then(|id| id.strip_prefix("req_"))
        .is_some_and(is_part)
}
