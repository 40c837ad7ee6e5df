use std::sync::Arc;
use std::time::Duration;

use beadlock_base::process::Liveness;
use beadlock_checker::{Decision, Reason, Skip, Verdict};
use beadlock_core::facts::{Facts, Ids};
use beadlock_core::record::memory::{
    Limits, Record, Rejected, StartedAt, UNREFRESHED, judge, rewrite, timed_out,
};
use beadlock_core::record::{BeadlockKey, Moment, Record as AnyRecord, Rewrite};

use super::is_fit_to_be_said;

/// The bytes of the lock of a directory are a record, whatever its fields, or no JSON object, or one that cannot be
/// read and is said to be so. Nothing but a process that is known to be gone and an age that is known make it stale,
/// and a refresh changes nothing but its time.
pub fn memory(bytes: &[u8]) {
    let record = match Record::parse(bytes) {
        Ok(record) => record,
        Err(rejected) => {
            is_fit_to_be_said(&rejected.to_string());
            let is_deep = bytes
                .iter()
                .filter(|byte| matches!(byte, b'[' | b'{'))
                .count()
                > 128;
            return assert!(
                is_deep || matches!(rejected, Rejected::Malformed(_)),
                "{rejected}"
            );
        }
    };
    let now = StartedAt::from_unix(1_795_238_007, 0);
    let facts = |liveness| Facts {
        now,
        hostname: Some("box".into()),
        ids: Arc::new(Ids::default()),
        liveness,
        watchdog: None,
        proof: None,
        boottime: Duration::ZERO,
        unrefreshed: UNREFRESHED,
        standstill: Duration::ZERO,
    };
    let limits = Limits::default();
    let age = record.acquired_at.map(|time| time.age(now).as_secs());
    match judge(&record, &facts(Liveness::Alive), &limits) {
        Verdict::Stale(Reason::AgeExceeded) => {
            assert!(age.is_some_and(|age| age >= 10), "{record:?}")
        }
        Verdict::Held(_) => assert!(age.is_none_or(|age| age <= 30), "{record:?}"),
        other => panic!("{other:?}: {record:?}"),
    }
    let seen_once = Facts {
        unrefreshed: Duration::ZERO,
        ..facts(Liveness::Alive)
    };
    // Without beadlock's key nobody refreshes it.
    let is_here = record.pid.is_some()
        && record.hostname.as_deref() == Some("box")
        && record.beadlock.is_some();
    let held = matches!(judge(&record, &seen_once, &limits), Verdict::Held(_));
    assert!(
        !is_here || held,
        "one look breaks no lock of a living process: {record:?}"
    );
    let gone = judge(&record, &facts(Liveness::Gone), &limits);
    assert!(
        record.pid.is_none() || gone == Verdict::Stale(Reason::PidGone),
        "{record:?}"
    );
    assert!(record.pid.is_none_or(|pid| pid > 0), "{record:?}");
    is_fit_to_be_said(&timed_out(&record, limits.age));
    let skip = Skip::Locked(
        Box::new(AnyRecord::Memory(record.clone())),
        Reason::AgeFresh,
    );
    is_fit_to_be_said(&Decision::Skip(skip).to_string());
    let moment = Moment {
        wall: now,
        boottime: Duration::from_secs(1),
    };
    let refreshed = match rewrite(bytes, moment) {
        None => return,
        Some(Rewrite::Whole(whole)) => whole.into_bytes(),
        Some(Rewrite::InPlace { offset, text }) => {
            let mut refreshed = bytes.to_vec();
            refreshed.splice(offset..offset + text.len(), text.bytes());
            assert_eq!(refreshed.len(), bytes.len());
            refreshed
        }
    };
    let again = Record::parse(&refreshed).expect("a record stays one");
    assert_eq!(again.acquired_at, Some(now));
    let rest = |record: &Record| {
        (
            record.pid,
            record.session_id.clone(),
            record.operation.clone(),
            record.beadlock.clone().map(|mark| BeadlockKey {
                boottime_ns: None,
                ..mark
            }),
        )
    };
    assert_eq!(rest(&again), rest(&record));
}
