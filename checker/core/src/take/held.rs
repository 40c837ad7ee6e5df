//! A lock that stands: the guard of a claim, and where its lock file has got to (docs/design.md#loss).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{path::PathBuf, time::Duration, time::Instant};

use nix::{dir::Dir, fcntl::OFlag, fcntl::openat, sys::stat::Mode, sys::stat::fstat};

use super::{Release, Site, Step, open_searchable, recover::Recovered};
use crate::{dialect::Record, gate::Gate, on_disk::OnDisk};
use crate::{
    options::Options, place::Place, read, read::Inode, read::LockFile, read::Sight,
    unread::NoRecord,
};
use beadlock_base::{
    error::{Error, Result},
    filesystem::{self, FileKind},
};

/// A lock that stands. It ends with [`Held::release`]; dropping it leaves the lock to its recorded process.
#[derive(Debug)]
#[must_use = "a claim that is dropped stands until its recorded process ends"]
pub struct Held {
    pub(super) place: Box<Place>,
    pub(super) dir_pin: OwnedFd,
    pub(super) record: Box<Record>,
    /// Keeps the inode's number from being used again.
    pub(super) pin: OwnedFd,
    pub(super) inode: Inode,
    since: Instant,
    /// Since when this guards it, or the lock file of a claim that another process has made was not touched: what the
    /// grace of a release is counted from.
    pub(super) guarded: Instant,
}

/// Where the lock file of a claim has got to.
#[derive(Debug, Clone, PartialEq)]
pub enum Whereabouts {
    /// In its place, and still ours.
    InPlace,
    /// Under the side name for the moment: somebody is dealing with it, and will put it back.
    Aside,
    /// Gone.
    Vanished,
    /// There is another one in its place; its record where it has one.
    Changed(Option<Box<Record>>),
    /// It is where it was, and its directory's path leads to another directory now.
    Replaced,
    /// It cannot be looked at just now.
    Unknown,
}

/// What became of the wish to be the guard of a claim that another process has made.
#[derive(Debug)]
#[must_use]
pub enum Adopted {
    /// It stands.
    Held(Held),
    /// There is no lock.
    Gone,
    /// There is another one; its record where it has one.
    NotOurs(Option<Box<Record>>),
    /// What is there cannot be read, or is not a record, and why.
    Unreadable(NoRecord),
}

impl Held {
    pub(super) fn new(
        place: Place,
        dir_pin: OwnedFd,
        lock: (OwnedFd, Inode),
        record: Box<Record>,
    ) -> Self {
        let (pin, inode) = lock;
        let (place, since) = (Box::new(place), Instant::now());
        Self {
            place,
            dir_pin,
            record,
            pin,
            inode,
            since,
            guarded: since,
        }
    }

    /// What the lock file says.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The id of this claim, random or the request's; empty when the record was made without one.
    pub fn id(&self) -> &str {
        self.record.id().unwrap_or_default()
    }

    /// The lock file.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// The directory by the way that still leads there when it was moved or renamed meanwhile: where the gate for
    /// the release is. Without `/proc`, its path.
    pub fn reach(&self) -> PathBuf {
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", self.dir_pin.as_raw_fd()));
        if by_number.exists() {
            by_number
        } else {
            self.place.dir().to_owned()
        }
    }

    /// How long it has been held; by the wall clock when another process has made the claim.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends the claim. With no gate to be had (`None`) the steps are the same, without its protection.
    /// Fails when the lock could not be removed; the guard comes back with the error.
    pub fn release(self, gate: Option<&Gate>) -> std::result::Result<Release, (Self, Error)> {
        let options = Options::default();
        let released = match gate {
            Some(gate) => Site::of_held(&self.place, gate, &options).release(&self),
            None => Site::without_gate(&self.dir_pin, &self.place, &options).release(&self),
        };
        released.map_err(|error| (self, error))
    }

    /// Where the lock file is now. One look proves no loss: look again a moment later.
    pub fn whereabouts(&self) -> Whereabouts {
        let named = |name| read::inode_at(&self.dir_pin, name).ok().flatten() == Some(self.inode);
        let file = match read::open(&self.dir_pin, self.place.names().lock()) {
            Sight::File(file) => file,
            Sight::Absent if named(self.place.names().aside()) => return Whereabouts::Aside,
            // It may have come back between the two looks.
            Sight::Absent if named(self.place.names().lock()) => return Whereabouts::InPlace,
            Sight::Absent => return Whereabouts::Vanished,
            // Under somebody's lease, say; its number tells whose it is, where even that can be seen.
            Sight::Unreadable(_) => {
                return match read::inode_at(&self.dir_pin, self.place.names().lock()) {
                    Ok(Some(there)) if there == self.inode => Whereabouts::InPlace,
                    Ok(Some(_)) => Whereabouts::Changed(None),
                    Ok(None) => Whereabouts::Vanished,
                    Err(_) => Whereabouts::Unknown,
                };
            }
        };
        match file.read() {
            Ok(bytes) if self.is(&file, &bytes) && self.is_replaced() => Whereabouts::Replaced,
            Ok(bytes) if self.is(&file, &bytes) => Whereabouts::InPlace,
            Ok(_) if file.inode() != self.inode && named(self.place.names().aside()) => {
                Whereabouts::Aside
            }
            Ok(bytes) => Whereabouts::Changed(self.place.names().parse(&bytes).ok().map(Box::new)),
            Err(_) if file.inode() == self.inode && !file.is_too_large() => Whereabouts::InPlace,
            Err(_) => Whereabouts::Changed(None),
        }
    }

    /// The path leads to another directory. One that leads nowhere shows none: the directory may have been renamed.
    pub(super) fn is_replaced(&self) -> bool {
        let there = nix::sys::stat::stat(self.place.dir());
        there.is_ok_and(|stat| {
            FileKind::of(&stat) == FileKind::Directory && Inode::of(&stat) != self.dir_inode()
        })
    }

    /// The lock file is deleted: it has no name any more, here or elsewhere.
    pub fn is_deleted(&self) -> bool {
        fstat(&self.pin).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// The lock file itself, by a descriptor that neither reads nor writes it: for a watcher.
    pub fn pin(&self) -> BorrowedFd<'_> {
        self.pin.as_fd()
    }

    /// The file that keeps this claim's record since somebody broke it: `LOCK.broken-…`, beside the lock.
    pub fn broken_as(&self) -> Option<PathBuf> {
        let prefix = [self.place.names().lock().to_bytes(), b".broken-"].concat();
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut dir = Dir::openat(&self.dir_pin, c".", flags, Mode::empty()).ok()?;
        let names = dir
            .iter()
            .map_while(std::result::Result::ok)
            .map(|entry| entry.file_name().to_owned());
        let kept = names
            .filter(|name| name.to_bytes().starts_with(&prefix))
            .find(|name| {
                let Sight::File(file) = read::open(&self.dir_pin, name.as_c_str()) else {
                    return false;
                };
                file.inode() == self.inode
            })?;
        Some(read::join(self.place.dir(), &kept))
    }

    /// Becomes the guard of the claim with this id where there is no gate; else [`Site::adopt`].
    pub fn adopt(place: &Place, id: &str) -> Result<Adopted> {
        let (dir, options) = (open_searchable(place.dir())?, Options::default());
        Site::without_gate(&dir, place, &options).adopted(id)
    }

    pub(super) fn dir_inode(&self) -> Inode {
        Inode::of_open(&self.dir_pin)
    }

    /// Ours by inode, and by id, else by every field.
    pub(super) fn is(&self, file: &LockFile, bytes: &[u8]) -> bool {
        let same_id = |id: &str| !id.is_empty() && id == self.id();
        let is_ours = |there: Record| there.id().is_some_and(same_id) || there == *self.record;
        file.inode() == self.inode && self.place.names().parse(bytes).is_ok_and(is_ours)
    }
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Becomes the guard of another process's claim with this id. A lock that a crash has left aside is put back first.
    pub fn adopt(&mut self, id: &str) -> Result<Adopted> {
        for _ in 0..super::ROUNDS {
            match self.recover(None)? {
                Recovered::Clean | Recovered::Left => break,
                Recovered::Removed(_)
                | Recovered::Released
                | Recovered::Again
                | Recovered::Exchanged => {}
            }
        }
        self.adopted(id)
    }

    fn adopted(&self, id: &str) -> Result<Adopted> {
        let file = match read::open(self.dir, self.names.lock()) {
            Sight::Absent => return Ok(Adopted::Gone),
            Sight::Unreadable(unread) => return Ok(Adopted::Unreadable(unread.into())),
            Sight::File(file) => file,
        };
        let read = file.read().map_err(NoRecord::from);
        let parsed = read.and_then(|bytes| self.names.parse(&bytes).map_err(NoRecord::from));
        let record = match parsed {
            Ok(record) => Box::new(record),
            Err(no_record) => return Ok(Adopted::Unreadable(no_record)),
        };
        if id.is_empty() || record.id() != Some(id) {
            return Ok(Adopted::NotOurs(Some(record)));
        }
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let pin = openat(self.dir, self.names.lock(), flags, Mode::empty())
            .map_err(|errno| self.lock_error("pin", errno))?;
        let inode = Inode::of_open(&pin);
        if inode != file.inode() {
            return Ok(Adopted::NotOurs(None));
        }
        let place = Place::new(self.path, self.names.clone());
        let written = OnDisk::of_open(&file).map(|file| file.modified);
        let age = crate::facts::age(&record, written).unwrap_or_default();
        let mut held = Held::new(place, self.pin_dir()?, (pin, inode), record);
        held.since = held.since.checked_sub(age).unwrap_or(held.since);
        held.guarded = held
            .guarded
            .checked_sub(self.untouched_for(&file))
            .unwrap_or(held.guarded);
        Ok(Adopted::Held(held))
    }

    /// For how long the lock file has been as it is, at least; zero where another machine's clock writes the times.
    fn untouched_for(&self, file: &LockFile) -> Duration {
        /// The kernel's times are of its last tick, at least 100 of which make a second.
        const TICK: Duration = Duration::from_millis(10);
        if !filesystem::is_local(self.dir) {
            return Duration::ZERO;
        }
        let age = file.changed().age(crate::facts::now());
        Duration::try_from(age)
            .unwrap_or_default()
            .saturating_sub(TICK)
    }
}
