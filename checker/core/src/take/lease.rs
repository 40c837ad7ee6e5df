//! Watching a file that was moved aside: a lease where there is one, else what can be compared (docs/design.md#lease,
//! docs/design.md#without-leases).

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use crate::{decision::Watched, read::LockFile};
use beadlock_base::{filesystem, sys};

/// How often a lease is looked at during a grace.
pub(super) const GLANCE: Duration = Duration::from_millis(5);

/// A lease, given up when this is dropped, before the file is closed.
pub(super) struct Lease<'f>(&'f LockFile);

impl<'f> Lease<'f> {
    fn to_read(file: &'f LockFile) -> nix::Result<Self> {
        sys::take_lease(file).map(|()| Self(file))
    }

    pub(super) fn to_write(file: &'f LockFile) -> nix::Result<Self> {
        sys::take_write_lease(file).map(|()| Self(file))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        sys::drop_lease(self.0);
    }
}

pub(super) struct Watch<'f> {
    file: &'f LockFile,
    lease: Option<Lease<'f>>,
}

/// Puts `file` under watch, with a lease if allowed and granted. `None`: somebody has the file open for writing.
pub(super) fn watch(file: &LockFile, leases: bool) -> Option<Watch<'_>> {
    let lease = match leases.then(|| Lease::to_read(file)) {
        Some(Ok(lease)) => Some(lease),
        Some(Err(Errno::EAGAIN)) if !filesystem::leases_are_its_servers(file) => return None,
        // By errno, per call: another owner's file (EACCES), a file system or kernel without leases (EINVAL …).
        Some(Err(_)) | None => None,
    };
    Some(Watch { file, lease })
}

impl Watch<'_> {
    /// Watches the file for `grace`. True: under a lease nobody has opened it for writing, else it looks the same.
    pub(super) fn unbroken_for(&self, grace: Duration, content: &[u8]) -> bool {
        self.unchanged_for(grace)
            && (self.lease.is_some() || self.file.read().is_ok_and(|now| now == content))
    }

    /// The same without a look at the content.
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
