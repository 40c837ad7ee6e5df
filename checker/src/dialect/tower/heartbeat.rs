//! A heartbeat as an edit of the lock file's bytes: the value of `last_heartbeat_at` changes, every other byte stays.

use super::super::rewrite::Rewrite;
use super::StartedAt;

/// What makes the record in `bytes` say that its last heartbeat was at `now`, in whole seconds; `None` when there is
/// none to be found.
pub fn rewrite(bytes: &[u8], now: StartedAt) -> Option<Rewrite> {
    Rewrite::of(bytes, "last_heartbeat_at", now.in_whole_seconds().to_string())
}

#[cfg(test)]
mod tests {
    use super::super::Record;
    use super::super::tests::record;
    use super::*;

    const NOW: &str = "2025-12-18T11:00:00Z";

    fn now() -> StartedAt {
        StartedAt::parse(NOW).unwrap()
    }

    fn applied(bytes: &str) -> String {
        match rewrite(bytes.as_bytes(), now()).unwrap() {
            Rewrite::InPlace { offset, time } => [&bytes[..offset], &time, &bytes[offset + time.len()..]].concat(),
            Rewrite::Whole(whole) => whole,
        }
    }

    #[test]
    fn ours_is_rewritten_in_place_and_nothing_else_changes() {
        let mut before = record();
        before.others.insert("note".to_owned(), "last_heartbeat_at".into());
        let json = before.to_json();
        assert!(matches!(rewrite(json.as_bytes(), now()), Some(Rewrite::InPlace { .. })));
        let after = Record { last_heartbeat_at: now(), ..before };
        assert_eq!(applied(&json), after.to_json());
    }

    #[test]
    fn another_length_is_rewritten_whole() {
        let json = r#"{ "x" : {"last_heartbeat_at":1}, "last_heartbeat_at" : "2025-12-18T10:30:40.5+00:00" ,"y":[ ]}"#;
        assert!(matches!(rewrite(json.as_bytes(), now()), Some(Rewrite::Whole(_))));
        assert_eq!(applied(json), json.replace("2025-12-18T10:30:40.5+00:00", NOW));
    }

    /// Readers take the last of several: so does a heartbeat.
    #[test]
    fn the_last_duplicate_is_the_one() {
        let one = "2025-12-18T10:30:40Z";
        let json = format!(r#"{{"last_heartbeat_at":"{one}","last_heartbeat\u005fat":"{one}"}}"#);
        let expected = format!(r#"{{"last_heartbeat_at":"{one}","last_heartbeat\u005fat":"{NOW}"}}"#);
        assert_eq!(applied(&json), expected);
    }

    #[test]
    fn where_there_is_no_time_there_is_no_rewrite() {
        for none in ["", "{", "{}", "[]", r#"{"last_heartbeat_at":7}"#, r#"{"last_heartbeat_at":"x"} x"#] {
            assert_eq!(rewrite(none.as_bytes(), now()), None, "{none}");
        }
        assert_eq!(rewrite(b"{\"last_heartbeat_at\":\"\xff\"}", now()), None);
    }
}
