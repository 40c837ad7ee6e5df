use super::*;

#[test]
fn a_transaction_as_debians_etcd_answers_it() {
    let text = br#"{"header":{"cluster_id":"2037210783374497686","member_id":"13195394291058371180","revision":"2","raft_term":"2"},
        "responses":[{"response_put":{"header":{"revision":"2"}}},{"response_range":{"header":{"revision":"2"},
        "kvs":[{"key":"eA==","create_revision":"2","mod_revision":"3","version":"1","value":"MQ==","lease":"1234"}],"count":"1"}},
        {"response_range":{"header":{"revision":"2"}}}]}"#;
    let mut answer = TxnAnswer::parse(text).unwrap();
    assert_eq!((answer.revision, answer.succeeded), (2, false));
    let (key, value) = (b"x".to_vec(), b"1".to_vec());
    assert_eq!(
        answer.next_one(),
        Some(KeyValue {
            key,
            value,
            create_revision: 2,
            mod_revision: 3,
            lease: 1234
        })
    );
    assert_eq!(answer.next_one(), None);
    assert_eq!(answer.next_one(), None, "more than was asked for");
}

#[test]
fn a_keep_alive_of_an_unknown_lease_has_no_ttl() {
    let alive = br#"{"result":{"header":{"revision":"2"},"ID":"1234","TTL":"15"}}"#;
    assert_eq!(time_to_live(&[&alive[..], b"\n"].concat()), Ok(Some(15)));
    assert_eq!(
        time_to_live(br#"{"result":{"header":{"revision":"2"},"ID":"1234"}}"#),
        Ok(None)
    );
    assert_eq!(time_to_live(br#"{"result":{"TTL":"-1"}}"#), Ok(None));
    assert!(time_to_live(b"").is_err());
}

#[test]
fn a_refusal_goes_by_its_code() {
    let refused =
        br#"{"error":"etcdserver: lease already exists","message":"etcdserver: lease already exists","code":9}"#;
    assert_eq!(
        refusal(refused),
        Some((9, "etcdserver: lease already exists".to_owned()))
    );
    let in_a_stream = br#"{"error":{"grpc_code":16,"http_code":401,"message":"etcdserver: invalid auth token","http_status":"Unauthorized"}}"#;
    assert_eq!(
        refusal(in_a_stream),
        Some((16, "etcdserver: invalid auth token".to_owned()))
    );
    for other in [
        &b""[..],
        b"404 page not found",
        b"{}",
        b"[]",
        br#"{"code":"x"}"#,
        br#"{"error":{}}"#,
    ] {
        assert_eq!(refusal(other), None);
    }
}

#[test]
fn the_lines_of_a_watch() {
    for (line, says) in [
        (
            r#"{"result":{"header":{"revision":"2"},"watch_id":"1","created":true}}"#,
            Some(WatchLine::Created),
        ),
        (
            r#"{"result":{"header":{"revision":"3"},"events":[{"kv":{"key":"eA=="}},{"type":"DELETE","kv":{"key":"eQ=="}}]}}"#,
            Some(WatchLine::Changed(vec![b"x".to_vec(), b"y".to_vec()])),
        ),
        (r#"{"result":{"events":[{"kv":{"key":"%"}}]}}"#, None),
        (
            r#"{"result":{"canceled":true,"compact_revision":"7"}}"#,
            Some(WatchLine::Canceled),
        ),
        (
            r#"{"result":{"created":true,"canceled":true}}"#,
            Some(WatchLine::Canceled),
        ),
        (
            r#"{"result":{"header":{"revision":"3"}}}"#,
            Some(WatchLine::Progress),
        ),
        (r#"{"error":{"grpc_code":14}}"#, None),
        ("", None),
    ] {
        assert_eq!(WatchLine::parse(line.as_bytes()), says, "{line}");
    }
}

#[test]
fn a_web_token_says_when_it_ends_and_a_simple_one_does_not() {
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .encode(r#"{"exp":1795617300,"username":"bot"}"#);
    assert_eq!(
        token_end(&format!("aaa.{payload}.bbb")),
        Some(1_795_617_300)
    );
    assert_eq!(token_end("BoWZsJXquYOMpXKl.25"), None);
    assert_eq!(token_end(""), None);
}

#[test]
fn hostile_answers_are_errors() {
    let deep = "[".repeat(100_000);
    for text in [
        "",
        "null",
        "{",
        "{\"header\":7}",
        r#"{"header":{"revision":"x"}}"#,
        r#"{"header":{"revision":1e400}}"#,
        &deep,
    ] {
        assert!(
            TxnAnswer::parse(text.as_bytes()).is_err(),
            "{}",
            &text[..text.len().min(30)]
        );
        assert!(granted(text.as_bytes()).is_err());
        assert!(token(text.as_bytes()).is_err());
        assert_eq!(WatchLine::parse(text.as_bytes()), None);
    }
    let bad_key = br#"{"header":{},"responses":[{"response_range":{"kvs":[{"key":"%%"}]}}]}"#;
    assert!(TxnAnswer::parse(bad_key).is_err());
}
