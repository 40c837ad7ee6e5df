use super::*;

pub(super) fn record() -> Record {
    let time = |text| StartedAt::parse(text).unwrap();
    Record {
        lock_name: LockName::parse("money-tracker-production").unwrap(),
        request_id: "req_abc123def456".to_owned(),
        actor: "claude-code".to_owned(),
        intent: "deploy-app".to_owned(),
        intent_version: "1.2.0".to_owned(),
        host_id: "tower-01".to_owned(),
        pid: 12345,
        created_at: time("2025-12-18T10:30:10Z"),
        last_heartbeat_at: time("2025-12-18T10:30:40Z"),
        ttl_seconds: DEFAULT_TTL,
        metadata: Some(Map::new()),
        others: Map::new(),
    }
}

/// Other tools read the file, so every byte of it counts.
#[test]
fn the_lock_file_has_the_documents_fields_in_its_order() {
    let expected = r#"{
  "lock_version": "v1",
  "lock_name": "money-tracker-production",
  "request_id": "req_abc123def456",
  "actor": "claude-code",
  "intent": "deploy-app",
  "intent_version": "1.2.0",
  "host_id": "tower-01",
  "pid": 12345,
  "created_at": "2025-12-18T10:30:10Z",
  "last_heartbeat_at": "2025-12-18T10:30:40Z",
  "ttl_seconds": 900,
  "metadata": {}
}
"#;
    assert_eq!(record().to_json(), expected);
    assert_eq!(
        Record::parse(expected.as_bytes(), "money-tracker-production"),
        Ok(record())
    );
}

#[test]
fn times_are_written_in_whole_seconds() {
    let fine = StartedAt::from_unix(1_766_053_840, 999_999_999);
    let json = Record {
        created_at: fine,
        last_heartbeat_at: fine,
        ..record()
    }
    .to_json();
    assert_eq!(
        json.matches("\"2025-12-18T10:30:40Z\"").count(),
        2,
        "{json}"
    );
}

#[test]
fn request_ids_that_may_be() {
    assert!(request_id_is_fit("req_abc.123-DEF"));
    assert!(request_id_is_fit(&"x".repeat(128)));
    for unfit in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
        assert!(!request_id_is_fit(unfit), "{unfit:?}");
    }
}

const NOW: &str = "2025-12-18T11:00:00Z";

fn now() -> StartedAt {
    StartedAt::parse(NOW).unwrap()
}

fn moment() -> Moment {
    Moment {
        wall: now(),
        boottime: Duration::from_secs(1),
    }
}

fn applied(bytes: &str) -> String {
    match rewrite(bytes.as_bytes(), moment()).unwrap() {
        Rewrite::InPlace { offset, text } => {
            [&bytes[..offset], &text, &bytes[offset + text.len()..]].concat()
        }
        Rewrite::Whole(whole) => whole,
    }
}

#[test]
fn ours_is_rewritten_in_place_and_nothing_else_changes() {
    let mut before = record();
    before
        .others
        .insert("note".to_owned(), "last_heartbeat_at".into());
    let json = before.to_json();
    assert!(matches!(
        rewrite(json.as_bytes(), moment()),
        Some(Rewrite::InPlace { .. })
    ));
    let after = Record {
        last_heartbeat_at: now(),
        ..before
    };
    assert_eq!(applied(&json), after.to_json());
}

#[test]
fn another_length_is_rewritten_whole() {
    let json = r#"{ "x" : {"last_heartbeat_at":1}, "last_heartbeat_at" : "2025-12-18T10:30:40.5+00:00" ,"y":[ ]}"#;
    assert!(matches!(
        rewrite(json.as_bytes(), moment()),
        Some(Rewrite::Whole(_))
    ));
    assert_eq!(
        applied(json),
        json.replace("2025-12-18T10:30:40.5+00:00", NOW)
    );
}

/// Readers take the last duplicate, and so does a heartbeat.
#[test]
fn the_last_duplicate_is_the_one() {
    let one = "2025-12-18T10:30:40Z";
    let json = format!(r#"{{"last_heartbeat_at":"{one}","last_heartbeat\u005fat":"{one}"}}"#);
    let expected = format!(r#"{{"last_heartbeat_at":"{one}","last_heartbeat\u005fat":"{NOW}"}}"#);
    assert_eq!(applied(&json), expected);
}

#[test]
fn where_there_is_no_time_there_is_no_rewrite() {
    for none in [
        "",
        "{",
        "{}",
        "[]",
        r#"{"last_heartbeat_at":7}"#,
        r#"{"last_heartbeat_at":"x"} x"#,
    ] {
        assert_eq!(rewrite(none.as_bytes(), moment()), None, "{none}");
    }
    assert_eq!(rewrite(b"{\"last_heartbeat_at\":\"\xff\"}", moment()), None);
}

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
