//! The queue for a lock file within this process: who has it, and who waits for it, first come, first served. The first
//! of them alone goes to the kernel for it; readers go together.
//!
//! Who has the lock and asks for it again would wait for itself, and is refused instead ([`Asker`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use beadlock_base::{asker::Asker, own::Own};
use beadlock_core::record::file::Mode;
use nix::sys::eventfd::EventFd;

use super::open::FileId;
use crate::error::Error;
use crate::event::bell;

/// The number of the next place.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

#[derive(Debug)]
struct Entry {
    inode: FileId,
    number: u64,
    /// `None`: whoever asks waits for it.
    asker: Option<Asker>,
    mode: Mode,
    /// Whether it has the lock of the kernel.
    holds: bool,
    /// Rung when its turn has come.
    bell: Option<Arc<EventFd>>,
}

/// The lock files that this process has or waits for, and who does: in the order in which they came.
static ENTRIES: Own<Vec<Entry>> = Own::new();

/// A place in the queue for a lock file, until this is dropped.
#[derive(Debug)]
pub struct Place {
    inode: FileId,
    number: u64,
}

impl Place {
    /// Joins the queue for this lock file. `None`: the asker has the file, and would wait for itself.
    pub fn join(inode: FileId, mode: Mode) -> Option<Self> {
        let asker = Asker::current();
        ENTRIES.with(|entries| {
            let of_this = entries.iter().filter(|entry| entry.inode == inode);
            let mut holders = of_this.filter(|entry| entry.holds);
            let is_it = |holder: &Entry| {
                let by = holder.asker.as_ref();
                by.is_some_and(|by| asker.would_wait_for_itself(by))
            };
            if holders.any(is_it) {
                return None;
            }
            let (entry, place) = entry(inode, mode);
            entries.push(entry);
            Some(place)
        })
    }

    /// Takes the first place, for who has the kernel's lock of this file already.
    pub fn first(inode: FileId, mode: Mode) -> Self {
        ENTRIES.with(|entries| {
            let (mut entry, place) = entry(inode, mode);
            entry.holds = true;
            entries.insert(0, entry);
            place
        })
    }

    /// Takes the first place of an empty queue, as [`Place::first`]. `None`: this process has the file, or waits for it.
    pub fn alone(inode: FileId, mode: Mode) -> Option<Self> {
        let is_empty = ENTRIES.with(|entries| entries.iter().all(|entry| entry.inode != inode));
        is_empty.then(|| Self::first(inode, mode))
    }

    /// What is readable once the turn of this one has come; `None`: it has come.
    pub fn bell(&self) -> Result<Option<Arc<EventFd>>, Error> {
        ENTRIES.with(|entries| {
            if is_next(entries, self.number) {
                return Ok(None);
            }
            let own = entries.iter_mut().find(|entry| entry.number == self.number);
            match own {
                Some(Entry {
                    bell: Some(bell), ..
                }) => Ok(Some(Arc::clone(bell))),
                Some(entry) => {
                    let made = Arc::new(bell("make an eventfd for the lock")?);
                    entry.bell = Some(Arc::clone(&made));
                    Ok(Some(made))
                }
                // Another process, of which this is a fork, stood there.
                None => Ok(None),
            }
        })
    }

    /// Notes that this one has the kernel's lock.
    pub fn holds(&self) {
        self.change(|entry| entry.holds = true);
    }

    /// Notes that whoever asks waits for this one: it goes to another thread.
    pub fn detach(&self) {
        self.change(|entry| entry.asker = None);
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        ENTRIES.with(|entries| {
            let mut own = entries.iter_mut().rev();
            let own = own.find(|entry| entry.number == self.number);
            if let Some(entry) = own {
                change(entry);
            }
        });
    }
}

impl Drop for Place {
    /// The next ones have their turn.
    fn drop(&mut self) {
        ENTRIES.with(|entries| {
            let Some(at) = entries
                .iter()
                .rposition(|entry| entry.number == self.number)
            else {
                return;
            };
            entries.remove(at);
            let of_this = entries.iter().filter(|entry| entry.inode == self.inode);
            for entry in of_this {
                let Some(bell) = entry
                    .bell
                    .as_ref()
                    .filter(|_| is_next(entries, entry.number))
                else {
                    continue;
                };
                // It cannot be full.
                let _ = bell.write(1);
            }
        });
    }
}

/// Whether a thread or task of this process has the lock of this file.
pub fn is_held_here(inode: FileId) -> bool {
    ENTRIES.with(|entries| {
        let mut of_this = entries.iter().filter(|entry| entry.inode == inode);
        of_this.any(|entry| entry.holds)
    })
}

fn entry(inode: FileId, mode: Mode) -> (Entry, Place) {
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let entry = Entry {
        inode,
        number,
        asker: Some(Asker::current()),
        mode,
        holds: false,
        bell: None,
    };
    (entry, Place { inode, number })
}

/// Whether nobody stands before this entry but readers before a reader.
fn is_next(entries: &[Entry], number: u64) -> bool {
    let Some(own) = entries.iter().find(|entry| entry.number == number) else {
        return true;
    };
    let before = entries
        .iter()
        .take_while(|entry| entry.number != number)
        .filter(|entry| entry.inode == own.inode);
    let is_shared = |entry: &Entry| entry.mode == Mode::Shared;
    let mut in_the_way = before.filter(|entry| !(is_shared(entry) && is_shared(own)));
    in_the_way.next().is_none()
}

/// How many places there are for a lock file, and how many of them have a bell: they wait for those before them.
#[cfg(test)]
pub fn places(inode: FileId) -> (usize, usize) {
    ENTRIES.with(|entries| {
        let of_this = entries.iter().filter(|entry| entry.inode == inode);
        let waiting = of_this.clone().filter(|entry| entry.bell.is_some());
        (of_this.count(), waiting.count())
    })
}
