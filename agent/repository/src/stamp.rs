//! The stamp of a file (`lstat`): as long as it is the same, nobody has changed the file. A file that changes twice
//! within one tick of the clock may keep its stamp, as git knows it of its index: so one that is as young as that
//! proves nothing.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use beadlock_base::filesystem::{FileSystem, Reach};
use beadlock_core::facts;
use serde::{Deserialize, Serialize};

/// A stamp must be older than the snapshot by more than a tick of the kernel's clock (at most 10 ms).
const MARGIN: Duration = Duration::from_millis(100);
/// Same margin, on file systems that count whole seconds.
const COARSE: Duration = Duration::from_secs(2);

/// A file, as long as nobody changes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileStamp {
    owner: (u64, u64, u32, u32, u32),
    size: u64,
    /// When it was modified and when it was changed, in seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl From<&Metadata> for FileStamp {
    fn from(meta: &Metadata) -> Self {
        let times = [
            (meta.mtime(), meta.mtime_nsec()),
            (meta.ctime(), meta.ctime_nsec()),
        ];
        Self {
            owner: owner(meta),
            size: meta.size(),
            times,
        }
    }
}

impl FileStamp {
    /// The stamp of a file now, of a link its own. `None` where there is none, or it cannot be asked.
    pub fn of(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path).ok().as_ref().map(Self::from)
    }

    /// The stamps of the files, each before the caller looks into it. `None` for a file that could change now without
    /// another stamp. For files that were written a moment ago it waits that moment, once.
    pub fn settled(paths: &[PathBuf]) -> Vec<Option<Self>> {
        let all = || -> Vec<_> {
            let now = Duration::try_from(facts::now().0).unwrap_or_default();
            paths
                .iter()
                .map(|path| Self::of(path).filter(|stamp| stamp.is_settled(now)))
                .collect()
        };
        let stamps = all();
        if stamps.iter().all(Option::is_some) {
            return stamps;
        }
        thread::sleep(MARGIN + Duration::from_millis(1));
        all()
    }

    /// Whether it is the same file with the same content, under another name.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        let [written, _] = self.times;
        (self.owner, self.size, written) == (other.owner, other.size, other.times[0])
    }

    /// When it was last changed, since 1970.
    pub fn changed(&self) -> Duration {
        let (seconds, nanos) = self.times[1];
        let seconds = u64::try_from(seconds).unwrap_or_default();
        Duration::new(seconds, u32::try_from(nanos).unwrap_or_default())
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Neither of its times is younger than that.
    pub fn is_older(&self, age: Duration, now: Duration) -> bool {
        let since = now.saturating_sub(age).as_secs();
        self.times
            .iter()
            .all(|(seconds, _)| u64::try_from(*seconds).unwrap_or_default() < since)
    }

    /// Whether another change would give it another stamp: at `now`, since 1970, its times are old enough.
    pub fn is_settled(&self, now: Duration) -> bool {
        self.times.iter().all(|time| is_old(*time, now))
    }
}

/// Device, inode, mode, user and group.
pub fn owner(meta: &Metadata) -> (u64, u64, u32, u32, u32) {
    (meta.dev(), meta.ino(), meta.mode(), meta.uid(), meta.gid())
}

/// Whether a file with this time could not have been changed again without another time.
fn is_old((seconds, nanos): (i64, i64), now: Duration) -> bool {
    let margin = if nanos == 0 { COARSE } else { MARGIN };
    let time = Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        u32::try_from(nanos).unwrap_or_default(),
    );
    time.checked_add(margin).is_some_and(|time| time < now)
}

/// A local file system, or a container's own.
pub fn is_of_this_machine(dir: &Path) -> bool {
    let file_system = File::open(dir).map(FileSystem::of);
    matches!(file_system, Ok(Ok(found)) if found.reach == Reach::Local || found.name == Some("overlayfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_too_young_proves_nothing() {
        let time = |time: Duration| {
            (
                i64::try_from(time.as_secs()).unwrap(),
                i64::from(time.subsec_nanos()),
            )
        };
        let changed = Duration::new(1_000_000, 500);
        assert!(!is_old(time(changed), changed), "at the same time");
        assert!(
            !is_old(time(changed), changed + MARGIN),
            "a tick is not enough"
        );
        assert!(is_old(
            time(changed),
            changed + MARGIN + Duration::from_nanos(1)
        ));
        assert!(
            !is_old(time(changed), changed - Duration::from_secs(5)),
            "in the future"
        );
        let coarse = Duration::from_secs(1_000_000);
        assert!(
            !is_old(time(coarse), coarse + Duration::from_millis(1_999)),
            "whole seconds"
        );
        assert!(is_old(time(coarse), coarse + Duration::from_millis(2_001)));
    }
}
