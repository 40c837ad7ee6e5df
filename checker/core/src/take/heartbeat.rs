//! Heartbeat: the holder of a lock that is judged by time writes that it lives (docs/design.md#loss).
//!
//! A heartbeat is a compare-and-swap with the gate held. The lock must still be the inode that the guard pins, and have
//! its id. Then only the time in it changes, in one of two ways:
//!
//! - In place: one write of equal length, under a write lease. No other process has the file open then, and a process
//!   that opens it waits. The system refuses the lease while a reader has the file open.
//! - By exchange, where a reader stays or there are no leases: a new file under the side name and the lock change
//!   places. If the file that comes out is not this claim's, the two change back.
//!
//! So a heartbeat never writes over another claim.
//!
//! Limits: without leases, and without an exchange or room for a second file, the write goes in place right after a
//! look. A writer in place that comes between the two gets this heartbeat's time in its record.

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use super::{
    Site, Step, held::Held, held::Whereabouts, lease::FileLease, lease::watch, recover::Recovered,
};
use crate::{
    facts,
    gate::Gate,
    record::{Moment, Record, Rewrite},
};
use crate::{options::Options, read, read::Inode, read::LockFile, read::Sight, unread::Unread};
use beadlock_base::error::{Error, Result};

/// Time for which a write lease is asked for again while a reader has the file open.
const LEASE_PATIENCE: Duration = Duration::from_millis(50);
/// Number of recoveries before the heartbeat goes on with the lock as it is.
const ROUNDS: usize = 8;

/// Result of a heartbeat.
#[derive(Debug)]
#[must_use = "a holder that does not know whether it still holds the lock must not go on"]
pub enum Heartbeat {
    /// The lock file has the time of this heartbeat.
    Refreshed,
    /// The lock is no longer this claim's: `Vanished`, `Changed` or `Replaced`. The other lock is unchanged.
    Lost(Whereabouts),
    /// The lock could not be refreshed this time. It is not known to be lost.
    Failed(Error),
}

impl Held {
    /// Writes the current time into the lock file. `None` is for a directory that can have no gate: the steps are the
    /// same, without its protection.
    ///
    /// A lock that is not judged by time has no heartbeat: [`Heartbeat::Failed`] with EINVAL.
    pub fn heartbeat(&mut self, gate: Option<&Gate>) -> Heartbeat {
        let (place, options) = (self.place.clone(), Options::default());
        match gate {
            Some(gate) => Site::of_held(&place, gate, &options).heartbeat(self),
            None => match self.dir_pin.try_clone() {
                Ok(pin) => Site::without_gate(&pin, &place, &options).heartbeat(self),
                Err(error) => Heartbeat::Failed(Error::new("refresh", self.path(), error)),
            },
        }
    }

    /// Takes the gate within `patience`, and makes a [`Held::heartbeat`]. A gate that stays busy is
    /// [`Heartbeat::Failed`] with EBUSY. Where the directory can have no gate, the heartbeat is made without one.
    pub fn heartbeat_within(&mut self, patience: Duration) -> Heartbeat {
        match Gate::take_within(&self.reach(), patience) {
            Ok(Some(gate)) => self.heartbeat(Some(&gate)),
            Ok(None) => Heartbeat::Failed(Error::new(
                "take the gate to refresh",
                self.path(),
                Errno::EBUSY,
            )),
            Err(error) if error.means_no_gate() => self.heartbeat(None),
            Err(error) => Heartbeat::Failed(error),
        }
    }
}

/// Result of one way of refreshing. `None`: this way cannot be taken now, or not on this file system.
type Tried = Option<Heartbeat>;

fn lost(whereabouts: Whereabouts) -> Result<Tried> {
    Ok(Some(Heartbeat::Lost(whereabouts)))
}

/// This claim's lock file, open, and the edit that refreshes it.
struct Ours {
    file: LockFile,
    rewrite: Rewrite,
    now: Moment,
    content: Vec<u8>,
}

/// Lock at the path, as a heartbeat finds it.
enum FoundLock {
    Ours(Box<Ours>),
    Lost(Whereabouts),
    /// The lock is this claim's by its inode, but cannot be opened in this way.
    Closed(Unread),
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Makes the steps of [`Held::heartbeat`] at this site, with its hook. A site of another directory or with other
    /// names is [`Heartbeat::Failed`] with EINVAL.
    pub fn heartbeat(&mut self, held: &mut Held) -> Heartbeat {
        let refused = |doing| Heartbeat::Failed(Error::new(doing, held.path(), Errno::EINVAL));
        if Inode::of_open(self.dir) != held.dir_inode() || self.names != *held.place.names() {
            return refused("refresh with the gate of another directory");
        }
        if !self.names.record_kind().is_judged_by_time() {
            return refused("refresh what has no heartbeat,");
        }
        if held.is_replaced() {
            return Heartbeat::Lost(Whereabouts::Replaced);
        }
        let tried = self.refresh(held);
        let busy = || self.lock_error("refresh", Errno::EBUSY);
        tried
            .and_then(|tried| tried.ok_or_else(busy))
            .unwrap_or_else(Heartbeat::Failed)
    }

    fn refresh(&mut self, held: &mut Held) -> Result<Tried> {
        let mut rounds = ROUNDS;
        // This claim's lock may lie aside after a crash. Recovery moves it back.
        while self.gated
            && rounds > 0
            && !matches!(self.recover(None)?, Recovered::Clean | Recovered::Left)
        {
            rounds -= 1;
        }
        let deadline = Instant::now() + LEASE_PATIENCE;
        while self.means.leases {
            match self.in_place(held, true)? {
                None if Instant::now() < deadline => sleep(Duration::from_millis(5)),
                None => break,
                done => return Ok(done),
            }
        }
        match self.by_exchange(held) {
            // No lease, and no exchange or no gate for one: write in place all the same.
            Ok(None) if !self.means.renameat2 || !self.gated => self.in_place(held, false),
            // A full disk has no room for a second file, and a write of equal length needs none. Otherwise a reader
            // could cause a loss on a full disk.
            Err(error) if is_full(&error) => self.in_place(held, false),
            tried => tried,
        }
    }

    /// Refreshes by one write in place, under a write lease if `leased`. `None`: the lease was refused, the file cannot
    /// be read, or the edit is not one of equal length.
    fn in_place(&mut self, held: &mut Held, leased: bool) -> Result<Tried> {
        let Ours {
            file, rewrite, now, ..
        } = *match self.find(held, read::open_to_change(self.dir, self.names.lock()))? {
            FoundLock::Ours(ours) => ours,
            FoundLock::Lost(whereabouts) => return lost(whereabouts),
            FoundLock::Closed(_) => return Ok(None),
        };
        self.at(Step::Judged);
        let lease = leased.then(|| FileLease::to_write(&file)).transpose();
        if let Err(errno) = lease {
            self.means.leases = errno == Errno::EAGAIN;
            return Ok(None);
        }
        // Under the lease no other process has the file open, so its content stays as it is read here.
        let Ok(bytes) = file.read() else {
            return Ok(None);
        };
        if !held.is(&file, &bytes) {
            return lost(Whereabouts::Changed(self.record_of(&bytes)));
        }
        let (Rewrite::InPlace { offset, text }, true) = (
            &rewrite,
            self.names.record_kind().rewrite(&bytes, now).as_ref() == Some(&rewrite),
        ) else {
            return Ok(None);
        };
        self.at(Step::Ours);
        file.overwrite(text.as_bytes(), *offset)
            .map_err(|error| Error::new("write the heartbeat into", held.path(), error))?;
        self.refreshed(held, now)
    }

    /// Looks at the path after the write. If another lock was renamed over it meanwhile, the time went into a file
    /// without a name, and the claim is lost.
    fn refreshed(&self, held: &mut Held, now: Moment) -> Result<Tried> {
        if let Some(whereabouts) = self.loss(held)? {
            return lost(whereabouts);
        }
        held.record.has_been_refreshed(now);
        Ok(Some(Heartbeat::Refreshed))
    }

    /// Whereabouts of the lock, if the path no longer has this claim's inode; `None` while it has.
    fn loss(&self, held: &Held) -> Result<Option<Whereabouts>> {
        let there = read::inode_at(self.dir, self.names.lock());
        Ok(
            match there.map_err(|errno| self.lock_error("look at", errno))? {
                Some(inode) if inode == held.inode => None,
                Some(_) => Some(Whereabouts::Changed(self.record_there())),
                None => Some(Whereabouts::Vanished),
            },
        )
    }

    /// Refreshes by exchanging the lock with a new file. `None`: there is no gate or no exchange, the side name is
    /// taken, or another process has the old file open for writing.
    fn by_exchange(&mut self, held: &mut Held) -> Result<Tried> {
        let Ours {
            rewrite,
            content,
            now,
            ..
        } = *match self.find(held, read::open(self.dir, self.names.lock()))? {
            FoundLock::Ours(ours) => ours,
            FoundLock::Lost(whereabouts) => return lost(whereabouts),
            FoundLock::Closed(unread) => {
                return Err(Error::new("refresh", held.path(), unread));
            }
        };
        // Only a holder of the gate may touch the side name (docs/model.md#v4).
        if !self.means.renameat2 || !self.gated {
            return Ok(None);
        }
        let new = match rewrite {
            Rewrite::Whole(whole) => whole,
            Rewrite::InPlace { offset, text } => {
                let mut new = content;
                new.splice(offset..offset + text.len(), text.bytes());
                String::from_utf8_lossy(&new).into_owned()
            }
        };
        let draft = self.draft_of(new)?;
        let Ok(draft) = self.link_as(draft, self.names.aside())? else {
            return Ok(None);
        };
        self.at(Step::Ours);
        let exchanged = self.exchange();
        self.at(Step::Exchanged);
        if exchanged != Ok(true) {
            self.drop_new(draft.pin.1)?;
            exchanged.map_err(|errno| self.aside_error("exchange", errno))?;
            self.means.renameat2 = false;
            return Ok(None);
        }
        if self.is_aside(draft.pin.1)? {
            // The exchange found no lock at the path.
            self.drop_new(draft.pin.1)?;
            return lost(Whereabouts::Vanished);
        }
        if self.old_one_may_go(held)? {
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
            (held.pin, held.inode) = draft.pin;
            *held.record = *draft.record;
            return self.refreshed(held, now);
        }
        // The file that came out may be another claim: it goes back to the path.
        self.at(Step::MovingBack);
        self.exchange()
            .map_err(|errno| self.aside_error("move back", errno))?;
        self.drop_new(draft.pin.1)?;
        match self.find(held, read::open(self.dir, self.names.lock()))? {
            FoundLock::Lost(whereabouts) => lost(whereabouts),
            FoundLock::Ours(_) | FoundLock::Closed(_) => Ok(None),
        }
    }

    /// True if the file that came out of the exchange is this claim's old file, and no process is writing into it. A
    /// writer in place that has opened it would otherwise write into a deleted file (docs/model.md#v9).
    ///
    /// No grace is needed, as for the release of a long hold: a writer that overwrites a claim has looked before the
    /// claim began (docs/design.md#release).
    fn old_one_may_go(&self, held: &Held) -> Result<bool> {
        let Sight::File(old) = read::open(self.dir, self.names.aside()) else {
            return Ok(false);
        };
        let Some(watch) = watch(&old, self.means.leases) else {
            return Ok(false);
        };
        let Ok(bytes) = old.read() else {
            return Ok(false);
        };
        Ok(held.is(&old, &bytes)
            && watch.unbroken_for(Duration::ZERO, &bytes)
            && self.is_aside(old.inode())?)
    }

    fn drop_new(&self, inode: Inode) -> Result<()> {
        if self.is_aside(inode)? {
            self.delete_aside()
                .map_err(|errno| self.aside_error("delete", errno))?;
        }
        Ok(())
    }

    /// Compares the file that was seen at the path with this claim, and finds the edit that refreshes it.
    fn find(&self, held: &Held, sight: Sight) -> Result<FoundLock> {
        let file = match sight {
            Sight::File(file) => file,
            Sight::Absent => return Ok(FoundLock::Lost(Whereabouts::Vanished)),
            Sight::Unreadable(unread) => {
                return Ok(self
                    .loss(held)?
                    .map_or(FoundLock::Closed(unread), FoundLock::Lost));
            }
        };
        let content = match file.read() {
            Ok(content) => content,
            Err(unread) if file.inode() == held.inode => return Ok(FoundLock::Closed(unread)),
            Err(_) => return Ok(FoundLock::Lost(Whereabouts::Changed(None))),
        };
        let now = facts::moment();
        match self
            .names
            .record_kind()
            .rewrite(&content, now)
            .filter(|_| held.is(&file, &content))
        {
            Some(rewrite) => Ok(FoundLock::Ours(Box::new(Ours {
                file,
                rewrite,
                now,
                content,
            }))),
            None => Ok(FoundLock::Lost(Whereabouts::Changed(
                self.record_of(&content),
            ))),
        }
    }

    fn record_of(&self, bytes: &[u8]) -> Option<Box<Record>> {
        self.names.parse(bytes).ok().map(Box::new)
    }

    fn record_there(&self) -> Option<Box<Record>> {
        match read::open(self.dir, self.names.lock()) {
            Sight::File(file) => self.record_of(&file.read().ok()?),
            Sight::Absent | Sight::Unreadable(_) => None,
        }
    }
}

fn is_full(error: &Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}
