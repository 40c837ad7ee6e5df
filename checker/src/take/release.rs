//! Releasing one's own lock: the steps of a removal with "mine" in place of "dead" (DESIGN 6, "Release").

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::recover::Recovered;
use super::remove::{Removal, Wanted};
use super::{LOCK, Site, Step};
use crate::Options;
use crate::dialect::beads::{Mark, Record};
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::read::{self, Inode, LockFile, Sight};

/// The whole grace of a lock that is released at once; a claim older than that pays none.
const GRACE: Duration = Duration::from_millis(10);
/// For how long a release waits for a lease before it compares instead.
const LEASE_PATIENCE: Duration = Duration::from_secs(1);
/// When even comparing comes to nothing, because somebody keeps touching the file.
const PATIENCE: Duration = Duration::from_secs(3);

/// A lock that stands. It ends with [`Held::release`]; dropping it leaves the lock to its recorded process.
#[derive(Debug)]
#[must_use = "a claim that is dropped stands until its recorded process ends"]
pub struct Held {
    dir: Box<Path>,
    dir_pin: OwnedFd,
    dir_inode: Inode,
    record: Box<Record>,
    /// Keeps the inode's number from being used again.
    _pin: OwnedFd,
    inode: Inode,
    since: Instant,
}

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

impl Held {
    pub(super) fn new(dir: (PathBuf, OwnedFd), lock: (OwnedFd, Inode), record: Box<Record>) -> Self {
        let ((dir, dir_pin), (pin, inode)) = (dir, lock);
        let dir_inode = Inode::of_open(&dir_pin);
        Self { dir: dir.into(), dir_pin, dir_inode, record, _pin: pin, inode, since: Instant::now() }
    }

    /// What the lock file says.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The random id of this claim; empty when the record was made without one.
    pub fn id(&self) -> &str {
        self.record.beadlock.as_ref().map_or("", |mark| &mark.id)
    }

    /// The lock file.
    pub fn path(&self) -> PathBuf {
        read::join(&self.dir, LOCK)
    }

    /// The directory by the way that still leads there when it was moved or renamed meanwhile: where the gate for
    /// the release is. Without `/proc`, its path.
    pub fn reach(&self) -> PathBuf {
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", self.dir_pin.as_raw_fd()));
        if by_number.exists() { by_number } else { self.dir.to_path_buf() }
    }

    /// How long it has been held.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends the claim. With no gate to be had (`None`) the steps are the same, without its protection.
    ///
    /// # Errors
    /// When the lock could not be removed; the guard comes back with the error.
    pub fn release(self, gate: Option<&Gate>) -> std::result::Result<Release, (Self, Error)> {
        let options = Options::default();
        let released = match gate {
            Some(gate) => Site { path: &self.dir, ..Site::new(gate, &options) }.release(&self),
            None => Site::without_gate(&self.dir_pin, &self.dir, &options).release(&self),
        };
        released.map_err(|error| (self, error))
    }

    /// Ours by inode, and by id, else by every field.
    fn is(&self, file: &LockFile, bytes: &[u8]) -> bool {
        let same_id = |mark: &Mark| !self.id().is_empty() && mark.id == self.id();
        let is_ours = |there: Record| there.beadlock.as_ref().is_some_and(same_id) || there == *self.record;
        file.inode() == self.inode && Record::parse(bytes).is_ok_and(is_ours)
    }
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// [`Held::release`], with hooks.
    ///
    /// # Errors
    /// When the lock could not be removed, or this is another database's gate.
    pub fn release(&mut self, held: &Held) -> Result<Release> {
        if Inode::of_open(self.dir) != held.dir_inode {
            return Err(Error::new("release with the gate of another directory", held.path(), Errno::EINVAL));
        }
        let is_mine = |file: &LockFile, bytes: &[u8]| held.is(file, bytes);
        let started = Instant::now();
        loop {
            let elapsed = started.elapsed();
            if elapsed >= LEASE_PATIENCE {
                self.means.leases = false;
            }
            let wanted = Wanted::Mine(&is_mine, GRACE.saturating_sub(held.since.elapsed()));
            if let Some(release) = self.release_once(held, &wanted)? {
                return Ok(release);
            }
            if elapsed >= PATIENCE {
                return Err(self.error("release", LOCK, Errno::EBUSY));
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// `None`: it is there, and could not be removed just now.
    fn release_once(&mut self, held: &Held, wanted: &Wanted<'_>) -> Result<Option<Release>> {
        let recovered = if self.gated { self.recover(Some(wanted))? } else { Recovered::Clean };
        match recovered {
            Recovered::Released => return Ok(Some(Release::Released)),
            Recovered::Removed(..) | Recovered::Again | Recovered::Exchanged => return Ok(None),
            Recovered::Clean | Recovered::Left => {}
        }
        self.at(Step::Recovered);
        let file = match read::open(self.dir, LOCK) {
            Sight::Absent => return Ok(Some(Release::Gone)),
            Sight::Unreadable(_) => return self.ours_or_not(held),
            Sight::File(file) => file,
        };
        let Ok(bytes) = file.read() else { return self.ours_or_not(held) };
        if !held.is(&file, &bytes) {
            return Ok(Some(Release::NotOurs(self.judge_bytes(&bytes).record.map(Box::new))));
        }
        if matches!(recovered, Recovered::Left) {
            // Somebody's claim lies aside, and this file system cannot exchange the two.
            return Err(self.error("make room for the claim aside of", LOCK, Errno::EOPNOTSUPP));
        }
        self.at(Step::Judged);
        let removal = self.remove(&file, wanted)?;
        Ok(matches!(removal, Removal::Removed(_)).then_some(Release::Released))
    }

    /// What is there cannot be read just now: ours still, or somebody else's, by its number.
    fn ours_or_not(&self, held: &Held) -> Result<Option<Release>> {
        let there = read::inode_at(self.dir, LOCK).map_err(|errno| self.error("look at", LOCK, errno))?;
        Ok((there != Some(held.inode)).then_some(Release::NotOurs(None)))
    }
}
