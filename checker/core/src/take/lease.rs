//! Watching a lock file while it is moved: by a lease (docs/design.md#lease), or by comparison where the system grants
//! no lease (docs/design.md#without-leases).

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use crate::{decision::Watched, read::LockFile};
use beadlock_base::{filesystem, sys};

/// Pause between two looks at a lease during a grace.
pub(super) const GLANCE: Duration = Duration::from_millis(5);

/// Lease on an open lock file. Dropping it gives the lease up; a writer that waits in `open` goes on then.
pub(super) struct FileLease<'f>(&'f LockFile);

impl<'f> FileLease<'f> {
    fn to_read(file: &'f LockFile) -> nix::Result<Self> {
        sys::take_lease(file).map(|()| Self(file))
    }

    pub(super) fn to_write(file: &'f LockFile) -> nix::Result<Self> {
        sys::take_write_lease(file).map(|()| Self(file))
    }
}

impl Drop for FileLease<'_> {
    fn drop(&mut self) {
        sys::drop_lease(self.0);
    }
}

/// Watch over an open lock file. Without a lease, times, size and content are compared.
pub(super) struct LockWatch<'f> {
    file: &'f LockFile,
    lease: Option<FileLease<'f>>,
}

/// Puts `file` under watch, with a read lease if `leases` allows and the system grants one.
///
/// `None`: another process has the file open for writing. Comparison would not see a write that comes after the grace
/// (docs/model.md#two-writers), so the caller must look again.
pub(super) fn watch(file: &LockFile, leases: bool) -> Option<LockWatch<'_>> {
    let lease = match leases.then(|| FileLease::to_read(file)) {
        Some(Ok(lease)) => Some(lease),
        Some(Err(Errno::EAGAIN)) if !filesystem::leases_are_its_servers(file) => return None,
        // The errno of each call decides: EACCES for another owner's file, EINVAL where there are no leases, EAGAIN
        // from a file server that has none to give just then.
        Some(Err(_)) | None => None,
    };
    Some(LockWatch { file, lease })
}

impl LockWatch<'_> {
    /// Watches the file for `grace`. True if, under a lease, no process has opened the file for writing. Without a
    /// lease, true if size, mtime, ctime and `content` are unchanged.
    pub(super) fn unbroken_for(&self, grace: Duration, content: &[u8]) -> bool {
        self.unchanged_for(grace)
            && (self.lease.is_some() || self.file.read().is_ok_and(|now| now == content))
    }

    /// Watches the file for `grace` as [`LockWatch::unbroken_for`], without comparing the content.
    pub(super) fn unchanged_for(&self, grace: Duration) -> bool {
        let before = self.appearance();
        let deadline = Instant::now() + grace;
        loop {
            if self.lease.is_some() && !sys::lease_unbroken(self.file) {
                return false;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            sleep(left.min(GLANCE));
        }
        if self.lease.is_some() {
            return sys::lease_unbroken(self.file);
        }
        before.is_some() && before == self.appearance()
    }

    pub(super) fn how(&self) -> Watched {
        if self.lease.is_some() {
            Watched::ByLease
        } else {
            Watched::ByComparison
        }
    }

    fn appearance(&self) -> Option<[i64; 5]> {
        let stat = self.file.stat_now().ok()?;
        Some([
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
            stat.st_ctime,
            stat.st_ctime_nsec,
        ])
    }
}
