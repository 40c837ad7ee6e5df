use std::time::Duration;

use beadlock_checker::{Decision, Reason, Skip, Verdict};
use beadlock_core::record::tower::{
    Record, Rejected, StartedAt, answer_stale, judge, rewrite, silence,
};
use beadlock_core::record::{Moment, Rewrite};

use super::is_fit_to_be_said;

/// The lock whose file the bytes are.
const NAME: &str = "app-prod";

/// The bytes of a named lock's file are a record with every field, or a lock that cannot be understood and is said to
/// be one. Nothing but a heartbeat that is overdue makes it stale, and a heartbeat changes nothing but its time.
pub fn named(bytes: &[u8]) {
    let record = match Record::parse(bytes, NAME) {
        Ok(record) => record,
        Err(rejected) => {
            let words = rejected.to_string();
            is_fit_to_be_said(&words);
            assert!(words.chars().count() < 240, "{words}");
            let begins = match rejected {
                Rejected::Malformed(_) => "malformed lock file: ",
                Rejected::Invalid(_) => "invalid lock file: ",
            };
            return assert!(words.starts_with(begins), "{words}");
        }
    };
    assert!(
        record.lock_name.as_str() == NAME && record.pid > 0 && record.ttl_seconds > 0,
        "{record:?}"
    );
    let second = record.last_heartbeat_at.0.as_secs();
    let ttl = i64::try_from(record.ttl_seconds).unwrap_or(i64::MAX);
    for (late, stale) in [
        (-1, false),
        (0, false),
        (ttl, false),
        (ttl.saturating_add(2), true),
    ] {
        let now = StartedAt::from_unix(second.saturating_add(late), 0);
        let is_stale = judge(&record, now) == Verdict::Stale(Reason::HeartbeatExpired);
        // Beyond what can be counted nothing is overdue.
        let is_counted = second.checked_add(late).is_some() && late > ttl;
        assert_eq!(is_stale, stale && is_counted, "{late}s after: {record:?}");
    }
    let now = StartedAt::from_unix(1_795_238_007, 0);
    let age = silence(&record, now);
    let skip = Skip::Stale {
        record: Box::new(record.clone().into()),
        reason: Reason::HeartbeatExpired,
        age,
    };
    assert!(
        answer_stale(&record, age)
            .to_string()
            .starts_with(r#"{"error":"lock_stale","#)
    );
    is_fit_to_be_said(&Decision::Skip(skip).to_string());
    let moment = Moment {
        wall: now,
        boottime: Duration::from_secs(1),
    };
    let beaten = match rewrite(bytes, moment).expect("a record that was read has a time") {
        Rewrite::Whole(whole) => whole.into_bytes(),
        Rewrite::InPlace { offset, text } => {
            let mut beaten = bytes.to_vec();
            beaten.splice(offset..offset + text.len(), text.bytes());
            assert_eq!(beaten.len(), bytes.len());
            beaten
        }
    };
    let expected = Record {
        last_heartbeat_at: now,
        ..record
    };
    assert_eq!(Record::parse(&beaten, NAME).as_ref(), Ok(&expected));
    // What we write of it is read again, unless it has a time that four digits cannot write.
    if let Ok(again) = Record::parse(expected.to_json().as_bytes(), NAME) {
        assert_eq!(
            (again.request_id, again.others),
            (expected.request_id, expected.others)
        );
    }
}
