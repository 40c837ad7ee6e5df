use super::super::tests::record;
use super::*;

const NAME: &str = "money-tracker-production";

/// Reads a complete record in which `key` has the text `value`, or is missing.
fn with(key: &str, value: Option<&str>) -> Result<Record, Rejected> {
    let mut fields: Map<String, Value> = serde_json::from_str(&record().to_json()).unwrap();
    fields.remove(key);
    let mut members: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
        .collect();
    members.extend(value.map(|value| format!("\"{key}\":{value}")));
    Record::parse(format!("{{{}}}", members.join(",")).as_bytes(), NAME)
}

fn says(result: Result<Record, Rejected>) -> String {
    result.expect_err("it must be rejected").to_string()
}

#[test]
fn every_field_but_metadata_must_be_there() {
    for field in FIELDS {
        if field == "metadata" {
            assert_eq!(with(field, None).unwrap().metadata, None);
            assert_eq!(with(field, Some("null")).unwrap().metadata, None);
        } else {
            assert_eq!(
                says(with(field, None)),
                format!("invalid lock file: {field} must be set")
            );
        }
    }
}

#[test]
fn every_field_is_checked() {
    let long = format!("\"{}\"", "x".repeat(129));
    let rows = [
        (
            "lock_version",
            r#""v2""#,
            "invalid lock file: lock_version must be v1 (got v2)",
        ),
        (
            "lock_version",
            "1",
            "malformed lock file: lock_version must be a string, not a number",
        ),
        (
            "lock_name",
            r#""other""#,
            "invalid lock file: lock_name must be money-tracker-production (got other)",
        ),
        (
            "lock_name",
            "null",
            "malformed lock file: lock_name must be a string, not null",
        ),
        ("request_id", r#""a b""#, "'.', '_' and '-' (got a b)"),
        (
            "request_id",
            r#""""#,
            "invalid lock file: request_id must be 1 to 128 characters",
        ),
        (
            "request_id",
            &long,
            "(got xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…)",
        ),
        (
            "actor",
            "[]",
            "malformed lock file: actor must be a string, not an array",
        ),
        (
            "intent",
            "{}",
            "malformed lock file: intent must be a string, not an object",
        ),
        (
            "intent_version",
            "true",
            "malformed lock file: intent_version must be a string, not a boolean",
        ),
        (
            "host_id",
            "7",
            "malformed lock file: host_id must be a string, not a number",
        ),
        (
            "pid",
            r#""12345""#,
            "malformed lock file: pid must be an integer, not a string",
        ),
        (
            "pid",
            "1.5",
            "malformed lock file: pid must be an integer, not 1.5",
        ),
        (
            "pid",
            "0",
            "invalid lock file: pid must be positive (got 0)",
        ),
        (
            "created_at",
            r#""yesterday""#,
            "invalid lock file: created_at must be an ISO 8601 time in UTC (got yesterday)",
        ),
        (
            "last_heartbeat_at",
            r#""null""#,
            "last_heartbeat_at must be an ISO 8601 time in UTC (got null)",
        ),
        (
            "last_heartbeat_at",
            r#""2025-12-18 10:30:40""#,
            "last_heartbeat_at must be an ISO 8601 time in UTC",
        ),
        (
            "last_heartbeat_at",
            "1766053840",
            "last_heartbeat_at must be a string, not a number",
        ),
        (
            "ttl_seconds",
            "0",
            "invalid lock file: ttl_seconds must be positive (got 0)",
        ),
        (
            "ttl_seconds",
            "-900",
            "invalid lock file: ttl_seconds must be positive (got -900)",
        ),
        (
            "ttl_seconds",
            "1e3",
            "malformed lock file: ttl_seconds must be an integer, not 1e3",
        ),
        (
            "metadata",
            "[]",
            "malformed lock file: metadata must be an object, not an array",
        ),
    ];
    for (field, value, expected) in rows {
        let words = says(with(field, Some(value)));
        assert!(words.contains(expected), "{field}: {value}: {words}");
    }
}

#[test]
fn what_other_writers_put_beside_it_is_kept() {
    let read = with("note", Some(r#"{"a":[1,null]}"#)).unwrap();
    assert_eq!(read.others["note"], serde_json::json!({"a": [1, null]}));
    assert!(read.to_json().contains("\"note\""));
    assert!(
        with("huge", Some("1e999999")).is_ok(),
        "a number that nothing can hold"
    );
}

#[test]
fn what_is_no_record_at_all_says_so() {
    let rows: [(&[u8], &str); 7] = [
        (b"", "malformed lock file: unexpected EOF"),
        (b"{\"pid\":", "malformed lock file: unexpected EOF"),
        (b"{} x", "malformed lock file: not JSON: "),
        (
            b"[]",
            "malformed lock file: must be an object, not an array",
        ),
        (b"null", "invalid lock file: lock_version must be set"),
        (b"{}", "invalid lock file: lock_version must be set"),
        (b"{\"a\":\"\xff\"}", "malformed lock file: not UTF-8"),
    ];
    for (bytes, expected) in rows {
        let words = says(Record::parse(bytes, NAME));
        assert!(words.starts_with(expected), "{bytes:?}: {words}");
    }
    let deep = [&b"{\"a\":"[..], &[b'['; 200]].concat();
    assert_eq!(
        says(Record::parse(&deep, NAME)),
        "malformed lock file: nested too deeply"
    );
}

/// Keys are compared exactly, as a reader with `jq` compares them.
#[test]
fn a_key_in_another_case_is_another_key() {
    assert_eq!(
        says(with("PID", Some("1")).and_then(|_| with("pid", None))),
        "invalid lock file: pid must be set"
    );
    assert_eq!(with("PID", Some("1")).unwrap().pid, 12345);
}

#[test]
fn the_last_duplicate_wins() {
    let json = record().to_json().replace(
        "\"ttl_seconds\": 900",
        "\"ttl_seconds\": \"x\", \"ttl_seconds\": 5",
    );
    assert_eq!(Record::parse(json.as_bytes(), NAME).unwrap().ttl_seconds, 5);
}
