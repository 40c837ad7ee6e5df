//! Releasing one's own lock: the steps of a removal with "mine" in place of "dead" (DESIGN 6, "Release").

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::recover::Recovered;
use super::remove::{Removal, Wanted};
use super::{LOCK, Site, Step, open_searchable};
use crate::Options;
use crate::dialect::beads::Record;
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
    dir: PathBuf,
    record: Box<Record>,
    /// Keeps the inode number from being used again.
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
    pub(super) fn new(dir: &Path, pin: OwnedFd, inode: Inode, record: Record) -> Self {
        Self { dir: dir.to_owned(), record: Box::new(record), _pin: pin, inode, since: Instant::now() }
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
            Some(gate) => Site::new(gate, &options).release(&self),
            None => open_searchable(&self.dir)
                .and_then(|dir| Site::without_gate(&dir, &self.dir, &options).release(&self)),
        };
        released.map_err(|error| (self, error))
    }

    /// Ours by inode, and by id, else by every field.
    fn is(&self, file: &LockFile, bytes: &[u8]) -> bool {
        let same_id = |mark: &crate::dialect::beads::Mark| mark.id == self.id() && !mark.id.is_empty();
        file.inode() == self.inode
            && Record::parse(bytes)
                .is_ok_and(|there| there.beadlock.as_ref().is_some_and(same_id) || there == *self.record)
    }
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// [`Held::release`], with hooks.
    ///
    /// # Errors
    /// When the lock could not be removed.
    pub fn release(&mut self, held: &Held) -> Result<Release> {
        let is_mine = |file: &LockFile, bytes: &[u8]| held.is(file, bytes);
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if started.elapsed() >= LEASE_PATIENCE {
                self.means.leases = false;
            }
            let wanted = Wanted::Mine(&is_mine, GRACE.saturating_sub(held.since.elapsed()));
            match if self.gated { self.recover(Some(&wanted))? } else { Recovered::Clean } {
                Recovered::Released => return Ok(Release::Released),
                Recovered::Again => continue,
                Recovered::Clean | Recovered::Left => {}
            }
            self.at(Step::Recovered);
            let file = match read::open(self.dir, LOCK) {
                Sight::Absent => return Ok(Release::Gone),
                Sight::Unreadable(_) => return Ok(Release::NotOurs(None)),
                Sight::File(file) => file,
            };
            if self.may_go(&file, &wanted).is_none() {
                return Ok(Release::NotOurs(self.judge(&file).record.map(Box::new)));
            }
            self.at(Step::Judged);
            match self.remove(&file, &wanted)? {
                Removal::Removed => return Ok(Release::Released),
                Removal::Changed | Removal::Contended => sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::new("release", read::join(self.path, LOCK), nix::errno::Errno::EBUSY))
    }
}
