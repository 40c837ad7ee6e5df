//! Removing a lock: lease, second judgement, move aside, grace, deletion (docs/design.md#lease).

use std::time::Duration;

use super::{GRACE, Site, Step, lease::watch, rename::Moved};
use crate::{
    decision::Watched,
    read::{self, Inode, LockFile},
};
use beadlock_base::error::Result;

/// Lock that a removal is for.
pub(super) enum Wanted<'m> {
    /// A stale lock.
    Dead,
    /// The releaser's own lock: the test for it, and the grace under the side name. A recovery also deletes a stale
    /// side file.
    Mine(&'m dyn Fn(&LockFile, &[u8]) -> bool, Duration),
}

/// Result of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    /// The lock is deleted: how it was watched, and its content.
    Removed(Watched, Vec<u8>),
    /// The lock has changed or is gone. Look again from the start.
    Changed,
    /// A process has the lock open for writing or was changing it. The lock was moved back, or stays aside where its
    /// path is taken.
    Contended,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Returns the content of `file` if the file may be removed by that content.
    pub(super) fn may_go(&self, file: &LockFile, wanted: &Wanted<'_>) -> Option<Vec<u8>> {
        let bytes = file.read().ok()?;
        let may = match wanted {
            Wanted::Dead => self.judge_bytes(&bytes, file).may_go(&self.options),
            Wanted::Mine(is_mine, _) => is_mine(file, &bytes),
        };
        may.then_some(bytes)
    }

    /// Removes the lock that is open as `file`, if the path still has that file and its content still allows it.
    ///
    /// The second judgement is made under the lease: a writer in place may have claimed between the first judgement and
    /// the lease (docs/model.md#v11).
    pub(super) fn remove(&mut self, file: &LockFile, wanted: &Wanted<'_>) -> Result<Removal> {
        let Some(watch) = watch(file, self.means.leases) else {
            return Ok(Removal::Contended);
        };
        self.at(Step::Leased);
        let Some(content) = self.may_go(file, wanted) else {
            return Ok(Removal::Changed);
        };
        self.at(Step::JudgedAgain);
        let moved = self
            .move_aside()
            .map_err(|errno| self.lock_error("move aside", errno))?;
        if moved != Moved::Yes {
            return Ok(Removal::Changed);
        }
        self.at(Step::MovedAside);
        let grace = match wanted {
            Wanted::Dead => GRACE,
            Wanted::Mine(_, grace) => *grace,
        };
        if self.is_aside(file.inode())?
            && watch.unbroken_for(grace, &content)
            && self.is_aside(file.inode())?
        {
            self.at(Step::GraceOver);
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
            self.at(Step::Deleted);
            return Ok(Removal::Removed(watch.how(), content));
        }
        // The file is a live claim: another file was renamed over the lock before the move, or a writer waits in
        // `open`. The file goes back before the lease is given up, so that this writer writes into a file with the
        // lock's name. If the path is taken, the file stays aside for the next holder of the gate: to delete it, or to
        // rename it over the path, would lose a live lock (docs/model.md#v2).
        self.at(Step::MovingBack);
        self.move_back()
            .map_err(|errno| self.aside_error("move back", errno))?;
        Ok(Removal::Contended)
    }

    /// True if the side name has this inode.
    pub(super) fn is_aside(&self, inode: Inode) -> Result<bool> {
        let there = read::inode_at(self.dir, self.names.aside());
        Ok(there.map_err(|errno| self.aside_error("look at", errno))? == Some(inode))
    }
}
