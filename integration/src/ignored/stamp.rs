//! When a repository was last spoken of: the time of an empty file in its git directory, which no commit contains.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use beadlock_checker::internal::{dialect::StartedAt, facts};
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::{sys::stat::futimens, sys::time::TimeSpec};

/// How long a repository is not spoken of again, in seconds.
const DAY: u64 = 24 * 60 * 60;

/// The stamp of one repository.
#[derive(Debug, Clone)]
pub struct ReminderStamp {
    file: PathBuf,
}

impl ReminderStamp {
    /// In a git directory.
    pub fn of(git: &Path) -> Self {
        Self { file: git.join("beadlock.reminded") }
    }

    /// It is less than a day old, or so far in the future: a clock that was set back does not silence it for ever.
    pub fn is_fresh(&self) -> bool {
        fs::symlink_metadata(&self.file).is_ok_and(|meta| is_fresh(&meta))
    }

    /// Makes it as old as now. False: it cannot be written, or another process has just made it so.
    pub fn renew(&self) -> bool {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(flags.bits()).mode(0o644);
        let (opened, is_new) = match options.open(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => (options.create_new(true).open(&self.file), true),
            opened => (opened, false),
        };
        // Of two at once one has it locked, or comes after the other's time.
        let Some(Ok(file)) = opened.ok().map(|file| Flock::lock(file, FlockArg::LockExclusiveNonblock)) else {
            return false;
        };
        let is_old = is_new || file.metadata().is_ok_and(|meta| !is_fresh(&meta));
        is_old && futimens(&*file, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW).is_ok()
    }
}

fn is_fresh(meta: &Metadata) -> bool {
    let StartedAt(now) = facts::now();
    now.as_secs().abs_diff(meta.mtime()) < DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_24_hours_in_both_directions() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = ReminderStamp::of(dir.path());
        assert!(!stamp.is_fresh());
        assert!(stamp.renew() && stamp.is_fresh());
        let set = |hours: i64| {
            let time = TimeSpec::new(facts::now().0.as_secs() + hours * 60 * 60, 0);
            futimens(fs::File::open(&stamp.file).unwrap(), &time, &time).unwrap();
        };
        for (hours, is_fresh) in [(-23, true), (-25, false), (23, true), (25, false), (0, true)] {
            set(hours);
            assert_eq!(stamp.is_fresh(), is_fresh, "{hours}");
        }
        set(-25);
        assert!(stamp.renew() && stamp.is_fresh());
        assert!(!stamp.renew(), "another one was faster");
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = ReminderStamp::of(dir.path());
        std::os::unix::fs::symlink("elsewhere", &stamp.file).unwrap();
        assert!(!stamp.renew() && !dir.path().join("elsewhere").exists());
        assert!(!ReminderStamp::of(&dir.path().join("nowhere")).renew());
    }
}
