//! [`LockFileStat`]: the entry at a lock's path, of any kind, as `stat` shows it. Nothing is opened, and no link is
//! followed.

use std::{os::fd::AsFd, path::Path};

use nix::{
    fcntl::AT_FDCWD, fcntl::AtFlags, sys::stat::FileStat, sys::stat::fstat, sys::stat::fstatat,
};

use crate::record::StartedAt;
use beadlock_base::filesystem::FileKind;

/// Directory entry at a lock's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockFileStat {
    /// Kind of file.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change of the content (mtime), by the clock of the file system.
    pub modified: StartedAt,
    /// User id of the owner.
    pub owner: u32,
    /// Device and inode number.
    pub inode: (u64, u64),
}

impl LockFileStat {
    /// Looks at the entry at `path`. `None`: nothing is there, or `stat` fails.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        fstatat(AT_FDCWD, path, AtFlags::AT_SYMLINK_NOFOLLOW)
            .ok()
            .map(|stat| Self::of(&stat))
    }

    pub(crate) fn of_open(fd: impl AsFd) -> Option<Self> {
        fstat(fd).ok().map(|stat| Self::of(&stat))
    }

    #[expect(
        clippy::unnecessary_cast,
        reason = "the width of st_mtime_nsec differs between platforms"
    )]
    fn of(stat: &FileStat) -> Self {
        let nanos = u32::try_from(stat.st_mtime_nsec as i64).unwrap_or_default();
        let modified = StartedAt::from_unix(stat.st_mtime as i64, nanos);
        let (size, inode) = (
            u64::try_from(stat.st_size).unwrap_or_default(),
            (stat.st_dev, stat.st_ino),
        );
        Self {
            kind: FileKind::of(stat),
            size,
            modified,
            owner: stat.st_uid,
            inode,
        }
    }
}
