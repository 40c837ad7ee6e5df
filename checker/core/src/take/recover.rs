//! Recovering what a crash has left aside (docs/design.md#recover).

use super::{GRACE, Site, Step, lease::watch, remove::Wanted};
use crate::decision::{Decision, Proceed, Removed, Watched};
use crate::{
    look::{Dead, Judged},
    read::{self, LockFile, Sight},
    verdict::Verdict,
};
use beadlock_base::error::Result;

#[derive(Debug)]
pub(super) enum Recovered {
    /// There is no side file.
    Clean,
    /// What was aside was dead, and is deleted; start again.
    Removed(Removed),
    /// What was aside was the releaser's own lock; it is deleted.
    Released,
    /// Something else was put right; start again.
    Again,
    /// The two have changed places; start again, but not for ever.
    Exchanged,
    /// It is somebody's claim and must stay, because so must the lock; the answer is that lock's.
    Left,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Deals with a side file. In a release, `mine` is what may go beside the dead.
    pub(super) fn recover(&mut self, mine: Option<&Wanted<'_>>) -> Result<Recovered> {
        // There is hardly ever one, and to look for a name costs less than to open it.
        if read::exists_at(self.dir, self.names.aside()) == Ok(false) {
            return Ok(Recovered::Clean);
        }
        let side = match read::open(self.dir, self.names.aside()) {
            Sight::Absent => return Ok(Recovered::Clean),
            Sight::Unreadable(_) => None,
            Sight::File(side) => Some(side),
        };
        self.at(Step::SideFound);
        // Kept to the end: a writer that waits for the lease must not go on before the file is in its place.
        let watched = side
            .as_ref()
            .map(|side| (side, watch(side, self.means.leases)));
        if let Some((side, Some(watch))) = &watched
            && let Some((content, recovered)) = self.side_may_go(side, watch.how(), mine)
            && watch.unbroken_for(GRACE, &content)
            && self.is_aside(side.inode())?
        {
            self.at(Step::SideJudged);
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
            return Ok(recovered);
        }
        // Anything else is somebody's claim.
        let lock = match read::open(self.dir, self.names.lock()) {
            Sight::Absent => {
                self.at(Step::SideJudged);
                self.move_back()
                    .map_err(|errno| self.aside_error("move back", errno))?;
                return Ok(Recovered::Again);
            }
            Sight::Unreadable(_) => return Ok(Recovered::Left),
            Sight::File(lock) => lock,
        };
        if side
            .as_ref()
            .is_some_and(|side| side.inode() == lock.inode())
        {
            // One file under both names: a move without renameat2 was cut short.
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
            return Ok(Recovered::Again);
        }
        // One that is stale and must stay all the same makes room for a living one, and for nothing else.
        let judged = self.judge(&lock);
        let makes_room = || {
            let side = side.as_ref().map(|side| self.judge(side).verdict);
            matches!(
                (judged.verdict, side),
                (Verdict::Stale(_), Some(Verdict::Held(_)))
            )
        };
        let lock_may_go = judged.may_go(&self.options)
            || makes_room()
            || mine.is_some_and(|mine| self.may_go(&lock, mine).is_some());
        if !lock_may_go {
            return Ok(Recovered::Left);
        }
        self.at(Step::SideJudged);
        let exchanged = self
            .exchange()
            .map_err(|errno| self.aside_error("exchange", errno))?;
        Ok(if exchanged {
            Recovered::Exchanged
        } else {
            Recovered::Left
        })
    }

    /// The content of a side file that may be deleted by it, and what its deletion then is.
    fn side_may_go(
        &self,
        side: &LockFile,
        watched: Watched,
        mine: Option<&Wanted<'_>>,
    ) -> Option<(Vec<u8>, Recovered)> {
        if let Some(content) = mine.and_then(|mine| self.may_go(side, mine)) {
            return Some((content, Recovered::Released));
        }
        let content = side.read().ok()?;
        let Dead {
            record,
            reason,
            why,
        } = self.judge_bytes(&content, side).stale(&self.options).ok()?;
        let removed = Removed {
            record,
            reason,
            why,
            watched,
            bytes: content.clone(),
        };
        Some((content, Recovered::Removed(removed)))
    }

    /// What [`Site::settle`] would come to, changing nothing: for a dry run that finds a side file.
    pub(crate) fn foresee(&self) -> Decision {
        let judged = |name| match read::open(self.dir, name) {
            Sight::Absent => None,
            Sight::Unreadable(unread) => Some(Judged::unreadable(unread).stale(&self.options)),
            Sight::File(file) => Some(self.judge(&file).stale(&self.options)),
        };
        match (judged(self.names.lock()), judged(self.names.aside())) {
            (None, None) => Decision::Proceed(Proceed::NoLock),
            // What is aside and not dead takes the place of a dead lock, and of none.
            (Some(Err(skip)), _) | (_, Some(Err(skip))) => skip.into(),
            (Some(Ok(dead)), _) | (None, Some(Ok(dead))) => {
                Decision::Proceed(Proceed::WouldRemoveStale(dead.record, dead.reason))
            }
        }
    }
}
