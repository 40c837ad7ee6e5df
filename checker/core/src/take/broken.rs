//! Breaking a lock: it goes out of the way because somebody says so, and is kept (docs/design.md#looking).
//!
//! The steps are those of a removal (docs/design.md#changing-a-lock-file), with "the lock that was looked at" in place
//! of "dead", and a last move to a name of its own in place of the deletion. A crash in between leaves a side file,
//! which the next one with the gate puts back. A file that cannot be read is known by its inode, which the look keeps
//! from being used again, and by what `lstat` says of it.

use std::{os::fd::OwnedFd, path::PathBuf, thread::sleep, time::Duration, time::Instant};

use nix::{
    errno::Errno, fcntl::AT_FDCWD, fcntl::AtFlags, fcntl::OFlag, fcntl::openat, sys::stat::fstat,
};
use nix::{sys::stat::FileStat, sys::stat::Mode, sys::stat::fstatat};

use super::{
    GRACE, Site, Step, lease::GLANCE, lease::Watch, lease::watch, recover::Recovered, rename::Moved,
};
use crate::{
    decision::Watched,
    facts::{Depth, now},
    look::{Judged, look},
};
use crate::{look::Look, options::Options, place::Place, read, read::Inode, read::LockFile};
use crate::{read::Sight, unread::Unread, verdict::Verdict};
use beadlock_base::error::{Error, Result};

const LOOKS: usize = 32;
const KEPT: usize = 10_000;

/// A lock as it was looked at. While this lives no other file gets the number of its inode.
#[derive(Debug)]
pub struct Seen {
    look: Look,
    pin: Option<Pin>,
}

#[derive(Debug)]
struct Pin {
    fd: OwnedFd,
    inode: Inode,
    marks: [i64; 4],
}

/// Which locks may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Licence {
    /// All but one that is held.
    UnlessHeld,
    /// One that is held, too.
    EvenIfLive,
}

/// How the breaking of a lock ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Broken {
    /// It is out of the way.
    Kept {
        /// Where it is now.
        file: PathBuf,
        /// How it was made sure that nobody was just taking it over.
        watched: Watched,
    },
    /// There is no lock any more.
    Gone,
    /// What is there is not what was looked at, or is held now. Untouched.
    Changed,
    /// Somebody kept writing or changing it. It is where it was.
    Contended,
}

impl Seen {
    /// Looks at the lock. Changes nothing.
    pub fn at(place: &Place, options: &Options) -> Self {
        let path = place.path();
        let mut tries = LOOKS;
        loop {
            // Never opens what is there, so it neither blocks nor needs a permission.
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

    /// What the look has shown.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// What is judged now is what was looked at: by its content, and without a record by its file as well.
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

    /// Watches what lies aside for the grace. True: nobody has opened it for writing, or it looks as it was approved.
    fn is_unbroken(&self, watching: Option<&Watch<'_>>, approved: &Approved) -> bool {
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

    /// As it was at the look, and not so much as its ctime changes.
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

/// A regular file at the lock's path, open for reading; else why what is there is not read.
type There = std::result::Result<LockFile, Unread>;

struct Approved {
    inode: Inode,
    /// What it says; `None` where it cannot be read.
    content: Option<Vec<u8>>,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Moves the lock that was looked at out of the way, and keeps it beside its place as `LOCK.broken-TIME.json`. A
    /// claim that comes in between gets its lock back. The error is what the system refused; the lock is where it was
    /// then, or under the side name when it could not go back.
    pub fn break_lock(mut self, seen: &Seen, licence: Licence) -> Result<Broken> {
        let broken = self.patiently(|site| site.break_once(seen, licence))?;
        Ok(broken.unwrap_or(Broken::Contended))
    }

    /// `None`: look again from the start.
    fn break_once(&mut self, seen: &Seen, licence: Licence) -> Result<Option<Broken>> {
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
            // With a side file that had to stay, "absent" is not an answer yet (docs/model.md#v7).
            Sight::Absent if side_stays => return Ok(None),
            Sight::Absent => return Ok(Some(Broken::Gone)),
            Sight::Unreadable(Unread::Leased) => return Ok(None),
            // It was not looked at, and may be alive.
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
        // As in a removal: it goes back before the lease does.
        self.at(Step::MovingBack);
        self.bring_back(side_stays, approved.inode)?;
        refused.map_or(Ok(None), Err)
    }

    /// What is there now, if it is what was looked at and may go.
    fn approved(&self, there: &There, seen: &Seen, licence: Licence) -> Result<Option<Approved>> {
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

    /// Moves the lock aside; where another claim lies aside, the two change places. False: it has gone meanwhile.
    fn bring_aside(&self, side_stays: bool) -> Result<bool> {
        if side_stays {
            let exchanged = self
                .exchange()
                .map_err(|errno| self.lock_error("move aside", errno))?;
            // Somebody's claim lies aside, and this file system cannot exchange the two.
            let refused = || self.lock_error("make room for the claim aside of", Errno::EOPNOTSUPP);
            return if exchanged { Ok(true) } else { Err(refused()) };
        }
        let moved = self
            .move_aside()
            .map_err(|errno| self.lock_error("move aside", errno))?;
        Ok(moved == Moved::Yes)
    }

    /// Undoes [`Site::bring_aside`]. Whatever cannot go back stays aside, and the next one with the gate finds it.
    fn bring_back(&self, side_stays: bool, inode: Inode) -> Result<()> {
        let error = |errno| self.aside_error("move back", errno);
        if !side_stays {
            self.move_back().map_err(error)?;
        } else if self.is_aside(inode)? {
            self.exchange().map_err(error)?;
        }
        Ok(())
    }

    /// Gives what is aside the name that it is kept under. `None`: there is nothing any more.
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
