//! Releasing one's own lock: the steps of a removal with "mine" in place of "dead" (docs/design.md#release).

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use super::{Site, Step, held::Held, recover::Recovered, remove::Removal, remove::Wanted};
use crate::{
    dialect::Record,
    read::{self, Inode, LockFile, Sight},
};
use beadlock_base::error::{Error, Result};

/// The whole grace of a lock that is released at once; a claim older than that pays none.
const GRACE: Duration = Duration::from_millis(10);
/// For how long a release, or the breaking of a lock, waits for a lease before it compares instead.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// When even comparing comes to nothing, because somebody keeps touching the file.
const PATIENCE: Duration = Duration::from_secs(3);

/// How a release ended.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Release {
    /// The lock is gone.
    Released,
    /// It was gone already.
    Gone,
    /// There is another one there now, untouched.
    NotOurs(Option<Box<Record>>),
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// [`Held::release`], with hooks. Fails when the lock could not be removed, or this is another lock's site.
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
            let wanted = Wanted::Mine(&is_mine, GRACE.saturating_sub(held.guarded.elapsed()));
            site.release_once(held, &wanted)
        })?;
        released.ok_or_else(|| self.lock_error("release", Errno::EBUSY))
    }

    /// Tries `once` again until it has an answer. `None`: somebody keeps touching the file.
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

    /// `None`: it is there, and could not be removed just now.
    fn release_once(&mut self, held: &Held, wanted: &Wanted<'_>) -> Result<Option<Release>> {
        let recovered = if self.gated {
            self.recover(Some(wanted))?
        } else {
            Recovered::Clean
        };
        match recovered {
            Recovered::Released => return Ok(Some(Release::Released)),
            Recovered::Removed(..) | Recovered::Again | Recovered::Exchanged => return Ok(None),
            // Somebody has it open for writing, so it could not be deleted just now.
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
            // Somebody's claim lies aside, and this file system cannot exchange the two.
            return Err(self.lock_error("make room for the claim aside of", Errno::EOPNOTSUPP));
        }
        self.at(Step::Judged);
        let removal = self.remove(&file, wanted)?;
        Ok(matches!(removal, Removal::Removed(..)).then_some(Release::Released))
    }

    /// The lock to release was exchanged with the claim that lay aside.
    fn lies_aside(&self, held: &Held) -> bool {
        match read::open(self.dir, self.names.aside()) {
            Sight::File(side) => side.read().is_ok_and(|bytes| held.is(&side, &bytes)),
            Sight::Absent | Sight::Unreadable(_) => false,
        }
    }

    /// What is there cannot be read just now: ours still, or somebody else's, by its number.
    fn ours_or_not(&self, held: &Held) -> Result<Option<Release>> {
        let there = read::inode_at(self.dir, self.names.lock())
            .map_err(|errno| self.lock_error("look at", errno))?;
        Ok((there != Some(held.inode)).then_some(Release::NotOurs(None)))
    }
}
