//! Releasing a claim's own lock: the steps of a removal, with "mine" in place of "stale" (docs/design.md#release).
//!
//! An unlink by path would delete the lock of a writer that has just renamed it over this one (docs/model.md#v12).

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use super::{Site, Step, held::Held, recover::Recovered, remove::Removal, remove::Wanted};
use crate::{
    read::{self, Inode, LockFile, Sight},
    record::Record,
};
use beadlock_base::error::{Error, Result};

/// Age of a claim from which its release needs no grace; a younger claim waits for the difference. A writer that
/// overwrites a claim has looked before the claim began. A lock without such writers needs no grace at all
/// ([`Names::has_foreign_writers`](crate::place::Names::has_foreign_writers)).
const GRACE: Duration = Duration::from_millis(10);
/// Time for which a release or a break waits for a lease. Then it compares instead.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// Time after which a release or a break gives up, because another process keeps touching the file.
const PATIENCE: Duration = Duration::from_secs(3);

/// Result of a release.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Release {
    /// The lock is removed.
    Released,
    /// The lock was gone already.
    Gone,
    /// The path has another lock now: its record, if it has one. That lock is unchanged.
    NotOurs(Option<Box<Record>>),
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Makes the steps of [`Held::release`] at this site, with its hook. Errors: the lock could not be removed, EBUSY
    /// when another process keeps touching it, EINVAL for a site of another directory or with other names.
    pub fn release(&mut self, held: &Held) -> Result<Release> {
        if Inode::of_open(self.dir) != held.dir_inode() || self.names != *held.place.names() {
            return Err(Error::new(
                "release with the gate of another directory",
                held.path(),
                Errno::EINVAL,
            ));
        }
        let is_mine = |file: &LockFile, bytes: &[u8]| held.is(file, bytes);
        let released = self.patiently(|site| {
            let grace = match site.names.has_foreign_writers() {
                true => GRACE.saturating_sub(held.guarded.elapsed()),
                false => Duration::ZERO,
            };
            let wanted = Wanted::Mine(&is_mine, grace);
            site.release_once(held, &wanted)
        })?;
        released.ok_or_else(|| self.lock_error("release", Errno::EBUSY))
    }

    /// Calls `once` until it has an answer, without leases after `LEASE_PATIENCE`. `None`: it has none within
    /// `PATIENCE`.
    pub(super) fn patiently<T>(
        &mut self,
        mut once: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let started = Instant::now();
        loop {
            let elapsed = started.elapsed();
            if elapsed >= LEASE_PATIENCE {
                self.means.leases = false;
            }
            let answer = once(self)?;
            if answer.is_some() || elapsed >= PATIENCE {
                return Ok(answer);
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// Makes one attempt to release. `None`: the lock is there, and could not be removed this time.
    fn release_once(&mut self, held: &Held, wanted: &Wanted<'_>) -> Result<Option<Release>> {
        let recovered = if self.gated {
            self.recover(Some(wanted))?
        } else {
            Recovered::Clean
        };
        match recovered {
            Recovered::Released => return Ok(Some(Release::Released)),
            Recovered::Removed(..) | Recovered::Again | Recovered::Exchanged => return Ok(None),
            // This claim's lock lies aside and could not be deleted: a process has it open for writing.
            Recovered::Left if self.lies_aside(held) => return Ok(None),
            Recovered::Clean | Recovered::Left => {}
        }
        self.at(Step::Recovered);
        let file = match read::open(self.dir, self.names.lock()) {
            Sight::Absent => return Ok(Some(Release::Gone)),
            Sight::Unreadable(_) => return self.ours_or_not(held),
            Sight::File(file) => file,
        };
        let bytes = match file.read() {
            Ok(bytes) => bytes,
            Err(_) if file.is_too_large() => return Ok(Some(Release::NotOurs(None))),
            Err(_) => return self.ours_or_not(held),
        };
        if !held.is(&file, &bytes) {
            return Ok(Some(Release::NotOurs(
                self.judge_bytes(&bytes, &file).record.map(Box::new),
            )));
        }
        if matches!(recovered, Recovered::Left) {
            // Another claim lies aside, and this file system cannot exchange the two.
            return Err(self.lock_error("make room for the claim aside of", Errno::EOPNOTSUPP));
        }
        self.at(Step::Judged);
        let removal = self.remove(&file, wanted)?;
        Ok(matches!(removal, Removal::Removed(..)).then_some(Release::Released))
    }

    /// True if this claim's lock is the side file: recovery has exchanged it with a claim that lay aside.
    fn lies_aside(&self, held: &Held) -> bool {
        match read::open(self.dir, self.names.aside()) {
            Sight::File(side) => side.read().is_ok_and(|bytes| held.is(&side, &bytes)),
            Sight::Absent | Sight::Unreadable(_) => false,
        }
    }

    /// Answer for a lock that cannot be read just now, by its inode. `None`: the lock is still this claim's.
    fn ours_or_not(&self, held: &Held) -> Result<Option<Release>> {
        let there = read::inode_at(self.dir, self.names.lock())
            .map_err(|errno| self.lock_error("look at", errno))?;
        Ok((there != Some(held.inode)).then_some(Release::NotOurs(None)))
    }
}
