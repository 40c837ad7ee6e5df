//! Recovering a side file that a crash has left (docs/design.md#recover).

use super::{GRACE, Site, Step, lease::watch, remove::Wanted};
use crate::decision::{Decision, Proceed, Removed, Watched};
use crate::{
    look::{Dead, Judged},
    read::{self, LockFile, Sight},
    verdict::Verdict,
};
use beadlock_base::error::Result;

/// Result of [`Site::recover`].
#[derive(Debug)]
pub(super) enum Recovered {
    /// No side file is left.
    Clean,
    /// The side file was stale, and is deleted. Start again.
    Removed(Removed),
    /// The side file was the releaser's own lock, and is deleted.
    Released,
    /// The side file was moved back, or one of two names of the lock is deleted. Start again.
    Again,
    /// The side file and the lock have changed places. Start again, for a limited time.
    Exchanged,
    /// The side file stays beside the lock, which must stay or cannot be exchanged. The lock's verdict is the answer.
    Left,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Deals with a side file. In a release, `mine` is the lock that may be deleted besides a stale one.
    ///
    /// A side file is deleted only after its own lease, judgement and grace: the crash may have come after a live lock
    /// was moved aside by mistake (docs/model.md#v3).
    pub(super) fn recover(&mut self, mine: Option<&Wanted<'_>>) -> Result<Recovered> {
        // A side file is rare, and a stat costs less than an open.
        if read::exists_at(self.dir, self.names.aside()) == Ok(false) {
            return Ok(Recovered::Clean);
        }
        let side = match read::open(self.dir, self.names.aside()) {
            Sight::Absent => return Ok(Recovered::Clean),
            Sight::Unreadable(_) => None,
            Sight::File(side) => Some(side),
        };
        self.at(Step::SideFound);
        // The watch lives to the end: a writer that waits for the lease must not go on before the file is at the path.
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
        // Every other side file counts as a live claim.
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
            // One file has both names: a move without renameat2 was cut short.
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
            return Ok(Recovered::Again);
        }
        // A stale lock that may not be removed by itself makes room for a held one, and for no other. An exchange with
        // another dead lock could put a live one aside (docs/model.md#v7).
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

    /// Judges the side file. Returns the content by which it may be deleted, and the result of its deletion.
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

    /// Returns the decision that [`Site::settle`] would lead to, and changes nothing: for a dry run that finds a side
    /// file.
    pub(crate) fn foresee(&self) -> Decision {
        let judged = |name| match read::open(self.dir, name) {
            Sight::Absent => None,
            Sight::Unreadable(unread) => Some(Judged::unreadable(unread).stale(&self.options)),
            Sight::File(file) => Some(self.judge(&file).stale(&self.options)),
        };
        match (judged(self.names.lock()), judged(self.names.aside())) {
            (None, None) => Decision::Proceed(Proceed::NoLock),
            // A side file that is not stale would take the place of a stale lock or of an absent one.
            (Some(Err(skip)), _) | (_, Some(Err(skip))) => skip.into(),
            (Some(Ok(dead)), _) | (None, Some(Ok(dead))) => {
                Decision::Proceed(Proceed::WouldRemoveStale(dead.record, dead.reason))
            }
        }
    }
}
