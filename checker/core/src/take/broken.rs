//! Breaking a lock: a person decides that the lock goes, and its file is kept under another name
//! (docs/design.md#looking).
//!
//! The steps are those of a removal (docs/design.md#changing-a-lock-file), with two differences. "The lock that was
//! looked at" takes the place of "stale". A last move to a name of its own takes the place of the deletion. A crash in
//! between leaves a side file, which the next holder of the gate recovers. A file that cannot be read is recognized by
//! its inode, which the look keeps in use, and by its mode, size and mtime.

use std::{os::fd::OwnedFd, path::PathBuf, thread::sleep, time::Duration, time::Instant};

use nix::{
    errno::Errno, fcntl::AT_FDCWD, fcntl::AtFlags, fcntl::OFlag, fcntl::openat, sys::stat::fstat,
};
use nix::{sys::stat::FileStat, sys::stat::Mode, sys::stat::fstatat};

use super::{
    GRACE, Site, Step, lease::GLANCE, lease::LockWatch, lease::watch, recover::Recovered,
    rename::Moved,
};
use crate::{
    decision::Watched,
    facts::{Depth, now},
    look::{Judged, look},
};
use crate::{look::Look, options::Options, place::Place, read, read::Inode, read::LockFile};
use crate::{read::Sight, unread::Unread, verdict::Verdict};
use beadlock_base::error::{Error, Result};

/// Most looks that are made until the inode and the verdict are of one file.
const LOOKS: usize = 32;
/// Number of broken locks that can be kept within one second.
const KEPT: usize = 10_000;

/// Lock as it was looked at, for [`Site::break_lock`]. While this value lives, no other file gets its inode number.
#[derive(Debug)]
pub struct BreakableLock {
    look: Look,
    pin: Option<Pin>,
}

#[derive(Debug)]
struct Pin {
    fd: OwnedFd,
    inode: Inode,
    marks: [i64; 4],
}

/// Locks that a break may set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Licence {
    /// Stale and unreadable locks. A held one stays.
    UnlessHeld,
    /// Any lock, also one that is held.
    EvenIfLive,
}

/// Result of [`Site::break_lock`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Broken {
    /// The lock is out of the way, and its file is kept.
    Kept {
        /// Path of the kept file.
        file: PathBuf,
        /// Kind of watch that no writer broke during the grace.
        watched: Watched,
    },
    /// The path has no lock any more.
    Gone,
    /// The lock is not the one that was looked at, or is held now. Nothing was changed.
    Changed,
    /// Another process kept writing or changing the lock. The lock is at its path, or aside where its path is taken.
    Contended,
}

impl BreakableLock {
    /// Looks at the lock, and keeps its inode in use. Changes nothing.
    pub fn at(place: &Place, options: &Options) -> Self {
        let path = place.path();
        let mut tries = LOOKS;
        loop {
            // O_PATH opens no content, so this neither blocks nor needs a permission on the file.
            let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let pin = openat(AT_FDCWD, &path, flags, Mode::empty())
                .ok()
                .and_then(Pin::new);
            let look = look(place, options);
            let there = read::inode_at(AT_FDCWD, &path).ok().flatten();
            let is_one = there == pin.as_ref().map(|pin| pin.inode)
                && pin.is_none() == (look.verdict == Verdict::Free);
            tries -= 1;
            if is_one || tries == 0 {
                return Self { look, pin };
            }
        }
    }

    /// Result of the look.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// True if the lock that is judged now is the one that was looked at: the same id and record. Without a valid
    /// record the file must be the same as well.
    fn is(&self, judged: &Judged, stat: &FileStat) -> bool {
        let same_words = judged.id == self.look.id
            && judged.record == self.look.record
            && judged.no_record == self.look.no_record;
        let same_file = || {
            self.pin
                .as_ref()
                .is_some_and(|pin| pin.inode == Inode::of(stat) && pin.marks == marks(stat))
        };
        same_words
            && match judged.verdict {
                Verdict::Free => false,
                Verdict::Held(_) | Verdict::Stale(_) => true,
                Verdict::Unreadable(_) => same_file(),
            }
    }

    /// Watches the side file for the grace. True if no process has opened it for writing, or, without a lease, if it is
    /// as it was approved.
    fn is_unbroken(&self, watching: Option<&LockWatch<'_>>, approved: &Approved) -> bool {
        match (watching, &approved.content, &self.pin) {
            (Some(watch), Some(content), _) => watch.unbroken_for(GRACE, content),
            (Some(watch), None, Some(pin)) => watch.unchanged_for(GRACE) && pin.is_as_it_was(),
            (None, _, Some(pin)) => pin.is_unchanged_for(GRACE),
            (_, _, None) => false,
        }
    }
}

impl Pin {
    fn is_as_it_was(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| marks(&stat) == self.marks)
    }

    /// True if the file is as it was at the look, and not even its ctime changes for `grace`.
    fn is_unchanged_for(&self, grace: Duration) -> bool {
        let changed = || {
            fstat(&self.fd)
                .ok()
                .map(|stat| (stat.st_ctime, stat.st_ctime_nsec))
        };
        let before = changed();
        let deadline = Instant::now() + grace;
        while self.is_as_it_was() && before == changed() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            sleep(left.min(GLANCE));
        }
        false
    }

    fn new(fd: OwnedFd) -> Option<Self> {
        let stat = fstat(&fd).ok()?;
        Some(Self {
            fd,
            inode: Inode::of(&stat),
            marks: marks(&stat),
        })
    }
}

fn marks(stat: &FileStat) -> [i64; 4] {
    [
        i64::from(stat.st_mode),
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
    ]
}

/// Lock file at the path, open for reading; else the reason why it cannot be read.
type There = std::result::Result<LockFile, Unread>;

/// Lock that is the one that was looked at, and may be broken.
struct Approved {
    inode: Inode,
    /// Content of the file; `None` when it cannot be read.
    content: Option<Vec<u8>>,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Moves the lock that was looked at out of the way, and keeps its file as `LOCK.broken-TIME.json` in the same
    /// directory. A claim that is made in between gets its lock back.
    ///
    /// Errors: a step that the system refused. The lock is where it was then, or under the side name when it could not
    /// be moved back.
    pub fn break_lock(mut self, seen: &BreakableLock, licence: Licence) -> Result<Broken> {
        let broken = self.patiently(|site| site.break_once(seen, licence))?;
        Ok(broken.unwrap_or(Broken::Contended))
    }

    /// Makes one attempt to break the lock. `None`: look again from the start.
    fn break_once(&mut self, seen: &BreakableLock, licence: Licence) -> Result<Option<Broken>> {
        let side_stays = match self.recover(None)? {
            Recovered::Clean => false,
            Recovered::Left => true,
            Recovered::Removed(_)
            | Recovered::Released
            | Recovered::Again
            | Recovered::Exchanged => {
                return Ok(None);
            }
        };
        self.at(Step::Recovered);
        let there = match read::open(self.dir, self.names.lock()) {
            // Beside a side file, an absent lock is not an answer: the side file may be a live claim
            // (docs/model.md#v7).
            Sight::Absent if side_stays => return Ok(None),
            Sight::Absent => return Ok(Some(Broken::Gone)),
            Sight::Unreadable(Unread::Leased) => return Ok(None),
            // A passing condition hides the lock, which may be held.
            Sight::Unreadable(unread) if unread.may_be_alive() => {
                let path = read::join(self.path, self.names.lock());
                return Err(Error::new("read", path, unread));
            }
            Sight::Unreadable(unread) => Err(unread),
            Sight::File(file) => Ok(file),
        };
        if self.approved(&there, seen, licence)?.is_none() {
            return Ok(Some(Broken::Changed));
        }
        self.at(Step::Judged);
        let watching = match &there {
            Ok(file) => match watch(file, self.means.leases) {
                None => return Ok(None),
                watch => watch,
            },
            Err(_) => None,
        };
        self.at(Step::Leased);
        let Some(approved) = self.approved(&there, seen, licence)? else {
            return Ok(Some(Broken::Changed));
        };
        self.at(Step::JudgedAgain);
        if !self.bring_aside(side_stays)? {
            return Ok(None);
        }
        self.at(Step::MovedAside);
        let mut refused = None;
        if self.is_aside(approved.inode)?
            && seen.is_unbroken(watching.as_ref(), &approved)
            && self.is_aside(approved.inode)?
        {
            self.at(Step::GraceOver);
            match self.keep_aside() {
                Ok(Some(file)) => {
                    self.at(Step::Kept);
                    let watched = watching.map_or(Watched::ByComparison, |watch| watch.how());
                    return Ok(Some(Broken::Kept { file, watched }));
                }
                Ok(None) => return Ok(None),
                Err(error) => refused = Some(error),
            }
        }
        // As in a removal, the file goes back before the lease is given up (docs/design.md#grace).
        self.at(Step::MovingBack);
        self.bring_back(side_stays, approved.inode)?;
        refused.map_or(Ok(None), Err)
    }

    /// Judges the lock once more. `None`: it is not the one that was looked at, or `licence` does not allow it.
    fn approved(
        &self,
        there: &There,
        seen: &BreakableLock,
        licence: Licence,
    ) -> Result<Option<Approved>> {
        let (content, stat) = match there {
            Ok(file) => (file.read(), file.stat_now()),
            Err(unread) => {
                let stat = fstatat(self.dir, self.names.lock(), AtFlags::AT_SYMLINK_NOFOLLOW);
                (Err(*unread), stat)
            }
        };
        let stat = match stat {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(self.lock_error("look at", errno)),
        };
        let judged = match &content {
            Ok(bytes) => Judged::of_bytes(
                bytes,
                None,
                &self.names,
                self.dir,
                Depth::Proof,
                &self.options,
            ),
            Err(unread) => Judged::unreadable(*unread),
        };
        let is_spared =
            licence == Licence::UnlessHeld && matches!(judged.verdict, Verdict::Held(_));
        let approved = Approved {
            inode: Inode::of(&stat),
            content: content.ok(),
        };
        Ok((!is_spared && seen.is(&judged, &stat)).then_some(approved))
    }

    /// Moves the lock aside. If another claim lies aside, the two change places. False: the lock is gone.
    fn bring_aside(&self, side_stays: bool) -> Result<bool> {
        if side_stays {
            let exchanged = self
                .exchange()
                .map_err(|errno| self.lock_error("move aside", errno))?;
            // Another claim lies aside, and this file system cannot exchange the two.
            let refused = || self.lock_error("make room for the claim aside of", Errno::EOPNOTSUPP);
            return if exchanged { Ok(true) } else { Err(refused()) };
        }
        let moved = self
            .move_aside()
            .map_err(|errno| self.lock_error("move aside", errno))?;
        Ok(moved == Moved::Yes)
    }

    /// Undoes [`Site::bring_aside`]. A file that cannot go back stays aside for the next holder of the gate: to delete
    /// it would lose a live lock (docs/model.md#v2).
    fn bring_back(&self, side_stays: bool, inode: Inode) -> Result<()> {
        let error = |errno| self.aside_error("move back", errno);
        if !side_stays {
            self.move_back().map_err(error)?;
        } else if self.is_aside(inode)? {
            self.exchange().map_err(error)?;
        }
        Ok(())
    }

    /// Moves the side file to the name that it is kept under, and returns that path. `None`: the side file is gone.
    fn keep_aside(&self) -> Result<Option<PathBuf>> {
        let time = now();
        for number in 1..=KEPT {
            let name = self.names.broken(time, number);
            match self
                .rename_aside(&name)
                .map_err(|errno| self.aside_error("keep", errno))?
            {
                Moved::Yes => return Ok(Some(read::join(self.path, &name))),
                Moved::Vanished => return Ok(None),
                Moved::Taken => {}
            }
        }
        Err(self.aside_error("keep", Errno::EEXIST))
    }
}
