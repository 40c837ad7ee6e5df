//! A heartbeat: the holder of a lock that is judged by time says that it lives (docs/design.md#loss).
//!
//! Compare and swap, with the gate held: the lock must still be the inode that the guard pins and carry its id, and
//! then only the time in it changes. In place, by one write of equal length, under a write lease: nobody else has the
//! file open then, and a process that opens it waits. A reader keeps the lease away for a moment. Where that lasts, or
//! there are no leases, a new file and the lock change places by way of the side name, and back when the old file was
//! not ours. Nothing is written over a file that has become somebody else's.
//!
//! Limits: without leases and without such an exchange, or room for a second file, the write goes in place all the
//! same, right after a look. A writer in place that comes in between finds the time of ours in its record.

use std::{thread::sleep, time::Duration, time::Instant};

use nix::errno::Errno;

use super::{
    Site, Step, held::Held, held::Whereabouts, lease::Lease, lease::watch, recover::Recovered,
};
use crate::{
    dialect::{Moment, Record, Rewrite},
    facts,
    gate::Gate,
};
use crate::{options::Options, read, read::Inode, read::LockFile, read::Sight, unread::Unread};
use beadlock_base::error::{Error, Result};

const LEASE_PATIENCE: Duration = Duration::from_millis(50);
/// How often a foreign move may come in between before the heartbeat has failed.
const ROUNDS: usize = 8;

/// How a heartbeat ended.
#[derive(Debug)]
#[must_use = "a holder that does not know whether it still holds the lock must not go on"]
pub enum Heartbeat {
    /// The lock says that its holder lives, as of now.
    Refreshed,
    /// It is no longer ours: `Vanished`, `Changed` or `Replaced`. Nothing was written.
    Lost(Whereabouts),
    /// It could not be refreshed this time; it is ours for all that is known.
    Failed(Error),
}

impl Held {
    /// Says in the lock file that the holder lives. With no gate to be had (`None`) the steps are the same, without its
    /// protection. Only for locks that are judged by time; for others it fails.
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

    /// [`Held::heartbeat`], taking the gate for it, for at most `patience`; without one where there can be none.
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

/// What one way of refreshing has come to. `None`: it is not open just now, or not at all.
type Tried = Option<Heartbeat>;

fn lost(whereabouts: Whereabouts) -> Result<Tried> {
    Ok(Some(Heartbeat::Lost(whereabouts)))
}

struct Ours {
    file: LockFile,
    rewrite: Rewrite,
    now: Moment,
    content: Vec<u8>,
}

enum FoundLock {
    Ours(Box<Ours>),
    Lost(Whereabouts),
    /// Ours by its inode, and it cannot be opened so.
    Closed(Unread),
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// [`Held::heartbeat`], with hooks.
    pub fn heartbeat(&mut self, held: &mut Held) -> Heartbeat {
        let refused = |doing| Heartbeat::Failed(Error::new(doing, held.path(), Errno::EINVAL));
        if Inode::of_open(self.dir) != held.dir_inode() || self.names != *held.place.names() {
            return refused("refresh with the gate of another directory");
        }
        if !self.names.dialect().is_judged_by_time() {
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
        // What a crash has left aside may be ours.
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
            // Neither of the two: the portable way.
            Ok(None) if !self.means.renameat2 || !self.gated => self.in_place(held, false),
            // There is no room for a second file; the first has its own, and a reader does not lose the lock.
            Err(error) if is_full(&error) => self.in_place(held, false),
            tried => tried,
        }
    }

    /// One write, under a write lease or without.
    fn in_place(&mut self, held: &mut Held, leased: bool) -> Result<Tried> {
        let Ours {
            file, rewrite, now, ..
        } = *match self.find(held, read::open_to_change(self.dir, self.names.lock()))? {
            FoundLock::Ours(ours) => ours,
            FoundLock::Lost(whereabouts) => return lost(whereabouts),
            FoundLock::Closed(_) => return Ok(None),
        };
        self.at(Step::Judged);
        let lease = leased.then(|| Lease::to_write(&file)).transpose();
        if let Err(errno) = lease {
            self.means.leases = errno == Errno::EAGAIN;
            return Ok(None);
        }
        // Nobody has it open any more; so what it says now is what it will say.
        let Ok(bytes) = file.read() else {
            return Ok(None);
        };
        if !held.is(&file, &bytes) {
            return lost(Whereabouts::Changed(self.record_of(&bytes)));
        }
        let (Rewrite::InPlace { offset, text }, true) = (
            &rewrite,
            self.names.dialect().rewrite(&bytes, now).as_ref() == Some(&rewrite),
        ) else {
            return Ok(None);
        };
        self.at(Step::Ours);
        file.overwrite(text.as_bytes(), *offset)
            .map_err(|error| Error::new("write the heartbeat into", held.path(), error))?;
        self.refreshed(held, now)
    }

    /// It is written; unless it was renamed over meanwhile, and what was written is in a file without a name.
    fn refreshed(&self, held: &mut Held, now: Moment) -> Result<Tried> {
        if let Some(whereabouts) = self.loss(held)? {
            return lost(whereabouts);
        }
        held.record.has_been_refreshed(now);
        Ok(Some(Heartbeat::Refreshed))
    }

    /// What is in the lock's place, by its number; `None` while that is ours.
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
        // Without the gate nobody may touch a side file.
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
            // There was nothing to change places with.
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
        // Somebody's claim: it goes back to where it was.
        self.at(Step::MovingBack);
        self.exchange()
            .map_err(|errno| self.aside_error("move back", errno))?;
        self.drop_new(draft.pin.1)?;
        match self.find(held, read::open(self.dir, self.names.lock()))? {
            FoundLock::Lost(whereabouts) => lost(whereabouts),
            FoundLock::Ours(_) | FoundLock::Closed(_) => Ok(None),
        }
    }

    /// What came out is our old file, and nobody is writing to it.
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

    /// Whether what is seen at the lock's path is still ours, and how it is to be brought to say another time.
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
            .dialect()
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
