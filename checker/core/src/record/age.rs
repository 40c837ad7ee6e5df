//! Age of a lock: to the millisecond where that is known, else in whole seconds (docs/design.md#ages).

use std::time::Duration;

use super::{BeadlockKey, Record, StartedAt, facts::Ids};

/// One moment by two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Time of the wall clock.
    pub wall: StartedAt,
    /// Time since boot (`CLOCK_BOOTTIME`), which cannot be set.
    pub boottime: Duration,
}

/// Clocks of this machine, read at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks<'a> {
    /// Time of the wall clock.
    pub wall: StartedAt,
    /// Time since boot (`CLOCK_BOOTTIME`), which cannot be set; zero if the system has no such clock.
    pub boottime: Duration,
    /// Ids of this boot and this time namespace.
    pub ids: &'a Ids,
}

impl Clocks<'_> {
    /// Time since the mark was written, by the clock that counts from boot. `None`: the mark is of another boot or time
    /// namespace, where that clock shows another time, or its boot or namespace is unknown.
    pub(crate) fn since(&self, mark: &BeadlockKey) -> Option<Duration> {
        let is_ours =
            |theirs: &Option<String>, ours: &Option<String>| theirs.is_some() && theirs == ours;
        if !is_ours(&mark.boot_id, &self.ids.boot_id) || !is_ours(&mark.time_ns, &self.ids.time_ns)
        {
            return None;
        }
        self.boottime
            .checked_sub(Duration::from_nanos(mark.boottime_ns?))
    }
}

impl Record {
    /// Age of the lock. `written` is the time of the last write of its file. `None`: the record's time lies in the
    /// future, or the record has no time.
    ///
    /// The document's time has whole seconds. The mark that beadlock wrote is exact, but counts only while it names the
    /// same second: another tool may have written a new time beside it. For other writers the fraction in the record
    /// counts, else the time of a file that was written within that second. Without any of these, the age is in whole
    /// seconds.
    pub(crate) fn age(&self, clocks: &Clocks<'_>, written: Option<StartedAt>) -> Option<Duration> {
        let recorded = self.started_at()?;
        let mark = self.mark().filter(|mark| {
            mark.started_at
                .is_some_and(|at| at.is_in_second_of(recorded))
        });
        match mark.and_then(|mark| clocks.since(mark)) {
            Some(age) => Some(age),
            None => mark
                .and_then(|mark| mark.started_at)
                .unwrap_or(recorded)
                .known_age(clocks.wall, written),
        }
    }
}

impl StartedAt {
    fn is_in_second_of(self, other: Self) -> bool {
        self.in_whole_seconds() == other.in_whole_seconds()
    }

    /// Age of this time at `now`, as exact as it is known. `written` is the time of the last write of the file that has
    /// this time. `None`: the time lies in the future.
    pub(crate) fn known_age(self, now: Self, written: Option<Self>) -> Option<Duration> {
        let with_fraction = Some(self).filter(|time| time.has_fraction());
        let exact = with_fraction.or(written.filter(|at| at.is_in_second_of(self)));
        let age = Duration::try_from(exact.unwrap_or(self).age(now)).ok()?;
        Some(if exact.is_some() {
            age
        } else {
            Duration::from_secs(age.as_secs())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::beads;
    use super::*;

    const SECOND: i64 = 1_772_600_767;

    fn at(millis: i64) -> StartedAt {
        let nanos = u32::try_from(millis.rem_euclid(1000) * 1_000_000).unwrap();
        StartedAt::from_unix(SECOND + millis.div_euclid(1000), nanos)
    }

    fn ids() -> Ids {
        Ids {
            boot_id: Some("boot".to_owned()),
            time_ns: Some("time:[1]".to_owned()),
            ..Ids::default()
        }
    }

    /// Mark of a claim that was made 998 ms after the second, 5 s after boot.
    fn mark() -> BeadlockKey {
        let Ids {
            boot_id, time_ns, ..
        } = ids();
        let (started_at, boottime_ns) = (Some(at(998)), Some(5_000_000_000));
        BeadlockKey {
            id: "x".to_owned(),
            started_at,
            boottime_ns,
            boot_id,
            time_ns,
            ..BeadlockKey::default()
        }
    }

    /// Record as it is read out of the lock file of that claim.
    fn record(mark: Option<BeadlockKey>) -> Record {
        let record = beads::Record {
            holder: "vc".to_owned(),
            pid: 1,
            hostname: "h".to_owned(),
            started_at: at(0),
            version: String::new(),
            beadlock: mark,
        };
        Record::from(beads::Record::parse(record.to_json().as_bytes()).unwrap())
    }

    /// Age of the record in milliseconds, when the wall clock is at `wall` and the clock since boot at `boottime`.
    fn age(record: &Record, wall: i64, boottime: u64, written: Option<i64>) -> Option<u128> {
        let clocks = Clocks {
            wall: at(wall),
            boottime: Duration::from_millis(boottime),
            ids: &ids(),
        };
        record
            .age(&clocks, written.map(at))
            .map(|age| age.as_millis())
    }

    #[test]
    fn a_claim_right_before_the_second_boundary_is_as_old_as_it_is() {
        let record = record(Some(mark()));
        assert_eq!(age(&record, 1_003, 5_005, None), Some(5), "not 1003");
        assert_eq!(age(&record, 998, 5_000, None), Some(0));
    }

    #[test]
    fn a_wall_clock_that_is_set_changes_no_age_of_this_boot() {
        let record = record(Some(mark()));
        for wall in [-3_600_000, 0, 1_003, 3_600_000] {
            assert_eq!(age(&record, wall, 7_250, Some(wall)), Some(2_250), "{wall}");
        }
    }

    #[test]
    fn of_another_boot_or_time_namespace_the_wall_clock_decides() {
        let changes: [fn(&mut BeadlockKey); 5] = [
            |mark| mark.boot_id = Some("another".to_owned()),
            |mark| mark.boot_id = None,
            |mark| mark.time_ns = Some("time:[2]".to_owned()),
            |mark| mark.boottime_ns = None,
            |mark| mark.boottime_ns = Some(u64::MAX),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut mark = mark();
            change(&mut mark);
            assert_eq!(
                age(&record(Some(mark)), 3_000, 7_250, Some(1)),
                Some(2_002),
                "{number}"
            );
        }
    }

    #[test]
    fn a_time_that_another_tool_wrote_above_ours_is_the_one_that_counts() {
        let mut mark = mark();
        mark.started_at = Some(at(-1));
        assert_eq!(age(&record(Some(mark)), 3_400, 7_250, None), Some(3_000));
    }

    #[test]
    fn of_other_writers_the_file_tells_the_moment_or_the_age_has_whole_seconds() {
        let bare = record(None);
        assert_eq!(
            age(&bare, 3_400, 0, Some(990)),
            Some(2_410),
            "written in that second"
        );
        for written in [None, Some(1_000), Some(-1), Some(90_000)] {
            assert_eq!(age(&bare, 3_400, 0, written), Some(3_000), "{written:?}");
            assert_eq!(age(&bare, 999, 0, written), Some(0), "{written:?}");
            assert_eq!(age(&bare, -1, 0, written), None, "{written:?}");
        }
        let text = r#"{"holder":"py","pid":1,"hostname":"h","started_at":"2026-03-04T05:06:07.250000+00:00"}"#;
        let with_fraction = Record::from(beads::Record::parse(text.as_bytes()).unwrap());
        assert_eq!(age(&with_fraction, 1_500, 0, Some(990)), Some(1_250));
    }
}
