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

/// Byte for byte: other tools read it.
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
    assert_eq!(Record::parse(expected.as_bytes(), "money-tracker-production"), Ok(record()));
}

#[test]
fn times_are_written_in_whole_seconds() {
    let fine = StartedAt::from_unix(1_766_053_840, 999_999_999);
    let json = Record { created_at: fine, last_heartbeat_at: fine, ..record() }.to_json();
    assert_eq!(json.matches("\"2025-12-18T10:30:40Z\"").count(), 2, "{json}");
}

#[test]
fn request_ids_that_may_be() {
    assert!(request_id_is_fit("req_abc.123-DEF"));
    assert!(request_id_is_fit(&"x".repeat(128)));
    for unfit in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
        assert!(!request_id_is_fit(unfit), "{unfit:?}");
    }
}
