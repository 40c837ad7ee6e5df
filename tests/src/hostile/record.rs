use std::sync::Arc;
use std::time::Duration;

use beadlock_base::process::Liveness;
use beadlock_checker::{Decision, Reason, Skip, Verdict};
use beadlock_core::facts::{Facts, Ids};
use beadlock_core::record::beads::{Record, Rejected, judge};

use super::is_fit_to_be_said;

/// The host that [`record`] is judged on.
pub(super) const HOST: &str = "box";

/// The bytes of a lock file are a record with all that is needed, or a lock that cannot be understood and is said to
/// be one. Nothing but a dead process of this very host makes it stale.
pub fn record(bytes: &[u8]) {
    let record = match Record::parse(bytes) {
        Ok(record) => record,
        Err(rejected) => {
            let words = rejected.to_string();
            is_fit_to_be_said(&words);
            assert!(words.chars().count() < 160, "{words}");
            let begins = match rejected {
                Rejected::Malformed(_) => "malformed lock file: ",
                Rejected::Invalid(_) => "invalid lock file: ",
            };
            return assert!(words.starts_with(begins), "{words}");
        }
    };
    assert_eq!(record.validate(), Ok(()));
    assert!(record.pid > 0 && !record.holder.is_empty() && !record.hostname.is_empty());
    for liveness in [
        Liveness::Alive,
        Liveness::NotPermitted,
        Liveness::Unknown,
        Liveness::Gone,
    ] {
        let now = record.started_at;
        let facts = Facts {
            now,
            hostname: Some(HOST.into()),
            ids: Arc::new(Ids {
                machine_id: None,
                boot_id: None,
                pid_ns: None,
                time_ns: None,
            }),
            liveness,
            watchdog: None,
            proof: None,
            boottime: Duration::ZERO,
            unrefreshed: Duration::ZERO,
            standstill: Duration::ZERO,
        };
        let verdict = judge(&record, &facts, true);
        let may_be_stale = liveness == Liveness::Gone && record.hostname.eq_ignore_ascii_case(HOST);
        assert_eq!(
            verdict == Verdict::Stale(Reason::PidGone),
            may_be_stale,
            "{verdict:?} of {record:?}"
        );
        assert!(
            may_be_stale || matches!(verdict, Verdict::Held(_)),
            "{verdict:?} of {record:?}"
        );
    }
    let shown = Decision::Skip(Skip::Locked(
        Box::new(record.clone().into()),
        Reason::PidAlive,
    ))
    .to_string();
    is_fit_to_be_said(&shown);
    // Whatever it says, what we write of it is read again, or is not a time that four digits can write.
    if let Ok(again) = Record::parse(record.to_json().as_bytes()) {
        assert_eq!(
            (&again.holder, again.pid, &again.hostname),
            (&record.holder, record.pid, &record.hostname)
        );
        assert_eq!(
            (&again.version, &again.beadlock),
            (&record.version, &record.beadlock)
        );
    }
}
