//! For how long a lock that cannot be understood is looked at again. A writer may be at it; a file that has not
//! changed for a while has none.

use std::time::{Duration, Instant};

use beadlock_core::{facts, lock_file_stat::LockFileStat, record::StartedAt};

use crate::wait::Deadline;

/// For how long somebody may be in the middle of writing a lock file (docs/design.md#waiting).
pub const WRITING: Duration = Duration::from_secs(2);

/// The second look at what has not changed for long. The age rests on the wall clock alone, which may just have
/// jumped; in this time a writer that is at it writes on.
const CONFIRM: Duration = Duration::from_millis(50);

/// A lock that cannot be understood, from the first look at it.
#[derive(Debug)]
pub struct WriterGrace {
    begun: Instant,
    seen: Option<Seen>,
}

/// The file as it was when it was first seen so, and how long it is looked at from then on.
#[derive(Debug, Clone, Copy)]
struct Seen {
    modified: StartedAt,
    size: u64,
    since: Instant,
    limit: Duration,
}

impl Default for WriterGrace {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            seen: None,
        }
    }
}

impl WriterGrace {
    /// Until when it is looked at again, now that this lies there.
    pub fn deadline(&mut self, on_disk: Option<LockFileStat>) -> Deadline {
        Deadline::after(self.left(on_disk, facts::now(), Instant::now()))
    }

    fn left(
        &mut self,
        on_disk: Option<LockFileStat>,
        now: StartedAt,
        instant: Instant,
    ) -> Duration {
        let longest = WRITING.saturating_sub(instant.saturating_duration_since(self.begun));
        let Some(LockFileStat { modified, size, .. }) = on_disk else {
            return longest;
        };
        let is_it = |seen: &Seen| (seen.modified, seen.size) == (modified, size);
        let seen = self.seen.filter(is_it).unwrap_or_else(|| {
            // Negative, it has changed in the future: the clock says nothing.
            let is_old = Duration::try_from(modified.age(now)).is_ok_and(|age| age >= WRITING);
            Seen {
                modified,
                size,
                since: instant,
                limit: if is_old { CONFIRM } else { WRITING },
            }
        });
        self.seen = Some(seen);
        seen.limit
            .saturating_sub(instant.saturating_duration_since(seen.since))
            .min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::filesystem::FileKind;

    const NOW: i64 = 1_800_000_000;

    /// Looks at a file of `size` that was changed so many seconds ago, `millis` after the first look; what is left, in
    /// milliseconds.
    fn left(settling: &mut WriterGrace, seconds: i64, size: u64, millis: u64) -> u128 {
        let modified = StartedAt::from_unix(NOW - seconds, 0);
        let on_disk = LockFileStat {
            kind: FileKind::File,
            size,
            modified,
            owner: 0,
            inode: (0, 0),
        };
        let instant = settling.begun + Duration::from_millis(millis);
        settling
            .left(Some(on_disk), StartedAt::from_unix(NOW, 0), instant)
            .as_millis()
    }

    #[test]
    fn what_has_not_changed_for_long_is_looked_at_twice() {
        let mut settling = WriterGrace::default();
        assert_eq!(left(&mut settling, 3600, 7, 0), 50);
        assert_eq!(left(&mut settling, 3600, 7, 50), 0);
    }

    #[test]
    fn what_has_changed_just_now_is_given_its_time() {
        let mut settling = WriterGrace::default();
        assert_eq!(left(&mut settling, 0, 7, 0), 2000);
        assert_eq!(left(&mut WriterGrace::default(), 1, 7, 0), 2000);
        assert_eq!(left(&mut settling, 0, 7, 1500), 500);
        assert_eq!(
            left(&mut settling, 0, 8, 2000),
            0,
            "no longer, whoever writes"
        );
    }

    #[test]
    fn a_time_in_the_future_says_nothing() {
        let mut settling = WriterGrace::default();
        assert_eq!(left(&mut settling, -3600, 7, 0), 2000);
        assert_eq!(left(&mut settling, -3600, 7, 1999), 1);
    }

    #[test]
    fn one_that_is_written_while_the_clock_jumps_is_looked_at_again() {
        let mut settling = WriterGrace::default();
        assert_eq!(left(&mut settling, 40, 7, 0), 50);
        assert_eq!(left(&mut settling, 40, 8, 50), 50, "it grows");
        assert_eq!(left(&mut settling, 0, 9, 100), 1900);
    }

    #[test]
    fn what_cannot_be_seen_is_given_the_whole_time() {
        let mut settling = WriterGrace::default();
        let instant = settling.begun;
        assert_eq!(
            settling.left(None, StartedAt::from_unix(NOW, 0), instant),
            WRITING
        );
    }
}
