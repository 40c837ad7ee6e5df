//! A directory as it was when it was looked at.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use nix::sys::stat::FileStat;

/// A change time is trusted when it lay this far back at the look: a later change may fall into the same tick of the
/// clock, and old file systems count whole seconds.
pub const SETTLED: Duration = Duration::from_secs(2);

/// Which directory it was, and when it was last changed. While its change time is the same, so are the names in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirStamp {
    /// Device and inode.
    pub inode: (u64, u64),
    /// The change time: seconds since 1970, and nanoseconds.
    changed: (i64, i64),
}

impl From<&Metadata> for DirStamp {
    fn from(meta: &Metadata) -> Self {
        Self {
            inode: (meta.dev(), meta.ino()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl From<&FileStat> for DirStamp {
    fn from(stat: &FileStat) -> Self {
        Self {
            inode: (stat.st_dev, stat.st_ino),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl DirStamp {
    /// Whether the directory was not changed after this time, since 1970.
    pub fn is_older_than(&self, time: Duration) -> bool {
        let (seconds, nanos) = self.changed;
        let known = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        known.is_some_and(|(seconds, nanos)| Duration::new(seconds, nanos) <= time)
    }
}
