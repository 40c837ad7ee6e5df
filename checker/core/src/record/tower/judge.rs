//! The rule of the tower protocol, as a pure function: a lock is stale when its last heartbeat is longer ago than its
//! TTL (sections 6.1 and 6.2 in docs/protocols/tower.md). The PID never counts (section 12.3).
//!
//! Both times are cut to their second before they are compared, as the document's script does. A heartbeat in the
//! future is not overdue.

use std::time::Duration;

use jiff::SignedDuration;

use super::{Record, StartedAt};
use crate::verdict::{Reason, Verdict};

/// Judges a valid record by its last heartbeat and its TTL.
pub fn judge(record: &Record, now: StartedAt) -> Verdict {
    match u64::try_from(seconds_since_heartbeat(record, now)) {
        Err(_) => Verdict::Held(Reason::HeartbeatInFuture),
        Ok(age) if age > record.ttl_seconds => Verdict::Stale(Reason::HeartbeatExpired),
        Ok(_) => Verdict::Held(Reason::HeartbeatFresh),
    }
}

/// Time since the last heartbeat, in whole seconds; zero when it lies in the future.
pub fn silence(record: &Record, now: StartedAt) -> Duration {
    Duration::from_secs(u64::try_from(seconds_since_heartbeat(record, now)).unwrap_or_default())
}

/// Time until the lock is stale, if no heartbeat comes; zero when it is stale.
pub fn fresh_for(record: &Record, now: StartedAt) -> Duration {
    let second = record.last_heartbeat_at.in_whole_seconds().0;
    let ttl = SignedDuration::try_from(Duration::from_secs(record.ttl_seconds));
    let stale = second
        .saturating_add(ttl.unwrap_or(SignedDuration::MAX))
        .saturating_add(SignedDuration::from_secs(1));
    stale.saturating_sub(now.0).try_into().unwrap_or_default()
}

fn seconds_since_heartbeat(record: &Record, now: StartedAt) -> i64 {
    let second = |time: StartedAt| time.in_whole_seconds().0.as_secs();
    second(now).saturating_sub(second(record.last_heartbeat_at))
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn stale_is_more_than_the_ttl_in_whole_seconds() {
        let at = |seconds: i64, nanos| StartedAt::from_unix(1_766_053_840 + seconds, nanos);
        let rows = [
            (at(0, 0), 0, Verdict::Held(Reason::HeartbeatFresh)),
            (at(900, 0), 900, Verdict::Held(Reason::HeartbeatFresh)),
            (
                at(900, 999_999_999),
                900,
                Verdict::Held(Reason::HeartbeatFresh),
            ),
            (at(901, 0), 901, Verdict::Stale(Reason::HeartbeatExpired)),
            (
                at(1_000_000_000, 0),
                1_000_000_000,
                Verdict::Stale(Reason::HeartbeatExpired),
            ),
            (
                at(-1, 999_999_999),
                0,
                Verdict::Held(Reason::HeartbeatInFuture),
            ),
            (at(-86_400, 0), 0, Verdict::Held(Reason::HeartbeatInFuture)),
        ];
        for (now, silent, expected) in rows {
            let record = record();
            assert_eq!(judge(&record, now), expected, "{now}");
            assert_eq!(silence(&record, now).as_secs(), silent, "{now}");
            let is_stale = matches!(expected, Verdict::Stale(_));
            assert_eq!(fresh_for(&record, now).is_zero(), is_stale, "{now}");
            let then =
                StartedAt(now.0 + SignedDuration::try_from(fresh_for(&record, now)).unwrap());
            assert!(matches!(judge(&record, then), Verdict::Stale(_)), "{now}");
        }
    }

    #[test]
    fn a_ttl_of_ages_is_never_over() {
        let mut record = record();
        record.ttl_seconds = u64::MAX;
        assert!(fresh_for(&record, record.last_heartbeat_at) > Duration::from_secs(1 << 60));
    }

    /// The document's script cuts the fraction of both times with `date`.
    #[test]
    fn a_fraction_of_the_heartbeat_is_cut_too() {
        let mut record = record();
        record.last_heartbeat_at = StartedAt::from_unix(1_766_053_840, 900_000_000);
        let now = StartedAt::from_unix(1_766_053_840 + 901, 100_000_000);
        assert_eq!(
            judge(&record, now),
            Verdict::Stale(Reason::HeartbeatExpired)
        );
    }

    #[test]
    fn no_time_to_live_and_no_time_overflows() {
        let mut record = record();
        record.ttl_seconds = u64::MAX;
        let end = StartedAt(SignedDuration::MAX);
        assert_eq!(judge(&record, end), Verdict::Held(Reason::HeartbeatFresh));
        record.last_heartbeat_at = end;
        let start = StartedAt(SignedDuration::MIN);
        assert_eq!(
            judge(&record, start),
            Verdict::Held(Reason::HeartbeatInFuture)
        );
    }
}
