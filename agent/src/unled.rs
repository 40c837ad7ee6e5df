//! Whether an open database is still without a redirect. A redirect that is put there changes the directory's change
//! time; where that is as it was, the directory need not be searched again.

use std::os::fd::AsFd;
use std::time::Duration;

use beadlock_checker::internal::database::Database;
use beadlock_checker::internal::{FileSystem, OpenDirectory, Reach, facts};

/// A change time is trusted when it lay this far back at the look: a later change may fall into the same tick of the
/// clock.
const SETTLED: Duration = Duration::from_secs(2);

/// A directory in which there was no redirect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unled {
    inode: (u64, u64),
    /// Seconds since 1970, and nanoseconds.
    changed: (i64, i64),
}

impl Unled {
    /// Nothing leads elsewhere from this open directory; `seen` is what an earlier call has remembered. Where other
    /// machines may write the file system, its times are not trusted.
    pub(crate) fn is(opened: &OpenDirectory, seen: &mut Option<Self>) -> bool {
        let stat = opened.stat().ok();
        let now = stat.map(|stat| Self {
            inode: (stat.st_dev, stat.st_ino),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        });
        if now.is_some() && now == *seen {
            return true;
        }
        let is_unled = Database::has_no_redirect(opened);
        *seen = now.filter(|now| is_unled && now.is_settled() && is_local(opened));
        is_unled
    }

    fn is_settled(&self) -> bool {
        let since = facts::now().0.as_secs() - self.changed.0;
        since > SETTLED.as_secs().cast_signed()
    }
}

fn is_local(dir: impl AsFd) -> bool {
    FileSystem::of(dir).is_ok_and(|file_system| file_system.reach == Reach::Local)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test removes what it has made")]
mod tests {
    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::time::{Instant, SystemTime};

    #[test]
    fn a_redirect_is_noticed_when_it_comes_and_when_it_goes() {
        let top = tempfile::tempdir().unwrap();
        let redirect = top.path().join("redirect");
        let mut seen = None;
        let is_unled = |seen: &mut Option<Unled>| {
            let opened = OpenDirectory::open_alone(top.path()).unwrap();
            Unled::is(&opened, seen)
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while seen.is_none() && is_local(File::open(top.path()).unwrap()) {
            assert!(is_unled(&mut seen) && Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_unled(&mut seen), "remembered");
        fs::write(&redirect, "elsewhere").unwrap();
        assert!(!is_unled(&mut seen));
        fs::remove_file(&redirect).unwrap();
        assert!(is_unled(&mut seen));
    }

    /// The change time of a file cannot be set: time has to pass.
    #[test]
    fn what_has_just_changed_is_not_remembered() {
        let top = tempfile::tempdir().unwrap();
        let opened = OpenDirectory::open_alone(top.path()).unwrap();
        let mut seen = None;
        assert!(Unled::is(&opened, &mut seen));
        assert_eq!(seen, None, "it may change again within the same tick");
        let old = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        File::open(top.path()).unwrap().set_times(old).unwrap();
        assert!(Unled::is(&opened, &mut seen));
        assert_eq!(seen, None, "the modification time says nothing");
    }
}
