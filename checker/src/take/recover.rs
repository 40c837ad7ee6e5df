//! Recovering what a crash has left aside: step 1 of DESIGN 6.

use super::lease::{Leased, watch};
use super::remove::Wanted;
use super::{ASIDE, GRACE, LOCK, Site, Step};
use crate::error::Result;
use crate::read::{self, Sight};
use crate::verdict::Verdict;

/// How a recovery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovered {
    /// There is no side file.
    Clean,
    /// Something was put right; start again.
    Again,
    /// What was aside was the releaser's own lock; it is deleted.
    Released,
    /// It is somebody's claim and must stay, because so must the lock; the answer is that lock's.
    Left,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Deals with a side file. In a release, `mine` is what may go beside the dead.
    pub(super) fn recover(&mut self, mine: Option<&Wanted<'_>>) -> Result<Recovered> {
        let side = match read::open(self.dir, ASIDE) {
            Sight::Absent => return Ok(Recovered::Clean),
            Sight::Unreadable(_) => None,
            Sight::File(side) => Some(side),
        };
        self.at(Step::SideFound);
        let is_mine = |file| {
            mine.and_then(|mine| self.may_go(file, mine)).map(|content| (content, Recovered::Released))
        };
        let is_dead = |file| self.may_go(file, &Wanted::Dead).map(|content| (content, Recovered::Again));
        if let Some(side) = &side
            && let Leased::Watched(watch) = watch(side, self.means.leases)
            && let Some((content, recovered)) = is_mine(side).or_else(|| is_dead(side))
            && watch.unbroken_for(GRACE, &content)
            && self.is_aside(side)?
        {
            self.at(Step::SideJudged);
            self.names().delete_aside().map_err(|errno| self.error("delete", ASIDE, errno))?;
            return Ok(recovered);
        }
        // Anything else is somebody's claim.
        let lock = match read::open(self.dir, LOCK) {
            Sight::Absent => {
                self.at(Step::SideJudged);
                self.names().move_back().map_err(|errno| self.error("move back", ASIDE, errno))?;
                return Ok(Recovered::Again);
            }
            Sight::Unreadable(_) => return Ok(Recovered::Left),
            Sight::File(lock) => lock,
        };
        if side.as_ref().is_some_and(|side| side.inode() == lock.inode()) {
            // One file under both names: a move back without renameat2 was cut short.
            self.names().delete_aside().map_err(|errno| self.error("delete", ASIDE, errno))?;
            return Ok(Recovered::Again);
        }
        let lock_may_go = matches!(self.judge(&lock).verdict, Verdict::Stale(_))
            || mine.is_some_and(|mine| self.may_go(&lock, mine).is_some());
        if !lock_may_go {
            return Ok(Recovered::Left);
        }
        self.at(Step::SideJudged);
        let exchanged = self.names().exchange().map_err(|errno| self.error("exchange", ASIDE, errno))?;
        Ok(if exchanged { Recovered::Again } else { Recovered::Left })
    }
}
