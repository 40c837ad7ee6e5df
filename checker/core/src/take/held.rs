//! [`Held`], the guard of a claim, and the [`Whereabouts`] of its lock file (docs/design.md#loss).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::{path::PathBuf, time::Duration, time::Instant};

use nix::{dir::Dir, fcntl::OFlag, fcntl::openat, sys::stat::Mode, sys::stat::fstat};

use super::{Release, Site, Step, open_searchable, recover::Recovered};
use crate::{gate::Gate, lock_file_stat::LockFileStat, record::Record};
use crate::{
    options::Options, place::Place, read, read::Inode, read::LockFile, read::Sight,
    unread::NoRecord,
};
use beadlock_base::{
    error::{Error, Result},
    filesystem::{self, FileKind},
};

/// Guard of a claim whose lock is in place. [`Held::release`] ends the claim.
///
/// Dropping the guard removes nothing: the lock stands until it becomes stale, as with its recorded process.
#[derive(Debug)]
#[must_use = "a claim that is dropped stands until its recorded process ends"]
pub struct Held {
    pub(super) place: Box<Place>,
    pub(super) dir_pin: OwnedFd,
    pub(super) record: Box<Record>,
    /// Descriptor of the lock file, which keeps its inode number from being given to another file.
    pub(super) pin: OwnedFd,
    pub(super) inode: Inode,
    since: Instant,
    /// Start of the time that counts for the grace of a release: the moment of the claim. For an adopted claim, the
    /// last change of its lock file.
    pub(super) guarded: Instant,
}

/// Place of a claim's lock file, as one look has seen it.
#[derive(Debug, Clone, PartialEq)]
pub enum Whereabouts {
    /// The lock file is at its path, and still has this claim.
    InPlace,
    /// The lock file is under the side name for the moment. Its mover, or the next holder of the gate, moves it back.
    Aside,
    /// The lock file is neither at its path nor under the side name.
    Vanished,
    /// The path has another lock now, or the file has another content: the record that is there, if any.
    Changed(Option<Box<Record>>),
    /// The lock file is where it was, but the path of its directory leads to another directory now.
    Replaced,
    /// The lock file cannot be looked at just now.
    Unknown,
}

/// Result of [`Site::adopt`] and [`Held::adopt`].
#[derive(Debug)]
#[must_use]
pub enum Adopted {
    /// The claim's lock is in place, and this is its guard.
    Held(Held),
    /// The path has no lock.
    Gone,
    /// The path has another lock: its record, if it has one.
    NotOurs(Option<Box<Record>>),
    /// The file at the path cannot be read, or has no valid record, and why.
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

    /// Record of the lock file, as this claim wrote or last refreshed it.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Id of this claim: random, or the request id. Empty when the record has none.
    pub fn id(&self) -> &str {
        self.record.id().unwrap_or_default()
    }

    /// Path of the lock file.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// Path to the lock's directory that still leads there after a move or a rename: `/proc/self/fd/N`. The gate for
    /// the release is taken by this path. Without `/proc`, the directory's own path.
    pub fn reach(&self) -> PathBuf {
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", self.dir_pin.as_raw_fd()));
        if by_number.exists() {
            by_number
        } else {
            self.place.dir().to_owned()
        }
    }

    /// Time since the claim. For an adopted claim, the time since the moment that its record names.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// Ends the claim: removes the lock if it is still this claim's (docs/design.md#release).
    ///
    /// `None` is for a directory that can have no gate: the steps are the same, without its protection. The error, with
    /// the guard, says why the lock could not be removed.
    pub fn release(self, gate: Option<&Gate>) -> std::result::Result<Release, (Self, Error)> {
        let options = Options::default();
        let released = match gate {
            Some(gate) => Site::of_held(&self.place, gate, &options).release(&self),
            None => Site::without_gate(&self.dir_pin, &self.place, &options).release(&self),
        };
        released.map_err(|error| (self, error))
    }

    /// Looks for the lock file, and changes nothing. One look proves no loss, since the file may be aside for a moment:
    /// look again 100 ms later (docs/design.md#loss).
    pub fn whereabouts(&self) -> Whereabouts {
        let named = |name| read::inode_at(&self.dir_pin, name).ok().flatten() == Some(self.inode);
        let file = match read::open(&self.dir_pin, self.place.names().lock()) {
            Sight::File(file) => file,
            Sight::Absent if named(self.place.names().aside()) => return Whereabouts::Aside,
            // The file may have come back between the first two looks: a third one is needed (docs/model.md#v5).
            Sight::Absent if named(self.place.names().lock()) => return Whereabouts::InPlace,
            Sight::Absent => return Whereabouts::Vanished,
            // The file cannot be opened, for example under a lease. Its inode still tells whether it is this claim's.
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

    /// True if the directory's path leads to another directory. A path that leads nowhere does not count: the directory
    /// may have been renamed.
    pub(super) fn is_replaced(&self) -> bool {
        let there = nix::sys::stat::stat(self.place.dir());
        there.is_ok_and(|stat| {
            FileKind::of(&stat) == FileKind::Directory && Inode::of(&stat) != self.dir_inode()
        })
    }

    /// True if the lock file has no name any more, in any directory.
    pub fn is_deleted(&self) -> bool {
        fstat(&self.pin).is_ok_and(|stat| stat.st_nlink == 0)
    }

    /// Descriptor of the lock file, for a watcher. It can neither read nor write (`O_PATH`).
    pub fn pin(&self) -> BorrowedFd<'_> {
        self.pin.as_fd()
    }

    /// Path of the file that this lock was kept as when it was broken: `LOCK.broken-…`, beside the lock. `None`
    /// while it was not broken.
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

    /// Becomes the guard of the claim with this id, in a directory that can have no gate. Elsewhere [`Site::adopt`]
    /// does.
    pub fn adopt(place: &Place, id: &str) -> Result<Adopted> {
        let (dir, options) = (open_searchable(place.dir())?, Options::default());
        Site::without_gate(&dir, place, &options).adopted(id)
    }

    pub(super) fn dir_inode(&self) -> Inode {
        Inode::of_open(&self.dir_pin)
    }

    /// True if `file`, whose content is `bytes`, is this claim's lock file: the same inode, and the same id or a record
    /// that is equal in every field.
    pub(super) fn is(&self, file: &LockFile, bytes: &[u8]) -> bool {
        let same_id = |id: &str| !id.is_empty() && id == self.id();
        let is_ours = |there: Record| there.id().is_some_and(same_id) || there == *self.record;
        file.inode() == self.inode && self.place.names().parse(bytes).is_ok_and(is_ours)
    }
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Becomes the guard of the claim with this id, which another process has made. A lock that a crash has left aside
    /// is recovered first. Errors: the directory or the lock file cannot be looked at, or recovery fails.
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
        let written = LockFileStat::of_open(&file).map(|file| file.modified);
        let age = crate::facts::age(&record, written).unwrap_or_default();
        let mut held = Held::new(place, self.pin_dir()?, (pin, inode), record);
        held.since = held.since.checked_sub(age).unwrap_or(held.since);
        held.guarded = held
            .guarded
            .checked_sub(self.untouched_for(&file))
            .unwrap_or(held.guarded);
        Ok(Adopted::Held(held))
    }

    /// Lower bound of the time since the last change of the lock file. Zero where another machine's clock may have
    /// written the file's times.
    fn untouched_for(&self, file: &LockFile) -> Duration {
        /// Resolution of the kernel's file times: at least 100 ticks make a second.
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
