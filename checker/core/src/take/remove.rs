//! Removing a lock that may go: from the lease to the end of the grace (docs/design.md#lease).

use std::time::Duration;

use super::{GRACE, Site, Step, lease::watch, rename::Moved};
use crate::{
    decision::Watched,
    read::{self, Inode, LockFile},
};
use beadlock_base::error::Result;

pub(super) enum Wanted<'m> {
    /// One whose holder is proved dead.
    Dead,
    /// The holder's own, or in a recovery a dead one as well; and for how long it is watched once it is aside.
    Mine(&'m dyn Fn(&LockFile, &[u8]) -> bool, Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    /// It is deleted; what it said.
    Removed(Watched, Vec<u8>),
    /// It is not what it was; look again.
    Changed,
    /// Somebody has it open for writing, or was changing it; it is where it was.
    Contended,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// The content of `file` now, if by it the file may go.
    pub(super) fn may_go(&self, file: &LockFile, wanted: &Wanted<'_>) -> Option<Vec<u8>> {
        let bytes = file.read().ok()?;
        let may = match wanted {
            Wanted::Dead => self.judge_bytes(&bytes, file).may_go(&self.options),
            Wanted::Mine(is_mine, _) => is_mine(file, &bytes),
        };
        may.then_some(bytes)
    }

    /// Removes the lock that is open as `file`, if it is still there and may still go.
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
        // Somebody's claim: another file came in between, or a writer that had looked the path up before the
        // move is waiting in `open`. It goes back before the lease does; taken meanwhile: it stays aside, and
        // the next one with the gate finds it.
        self.at(Step::MovingBack);
        self.move_back()
            .map_err(|errno| self.aside_error("move back", errno))?;
        Ok(Removal::Contended)
    }

    pub(super) fn is_aside(&self, inode: Inode) -> Result<bool> {
        let there = read::inode_at(self.dir, self.names.aside());
        Ok(there.map_err(|errno| self.aside_error("look at", errno))? == Some(inode))
    }
}
