//! The audit trail of one target: what `--audit FILE` gets to see (DESIGN 8). A line that cannot be written is said
//! once, and never stands in the way of the work.

use std::path::{Path, PathBuf};

use beadlock_checker::audit::{Audit, Author, Entry, Event};
use beadlock_checker::take::Held;
use beadlock_checker::{Options, Removed, look};

use crate::envelope::Request;
use crate::failure::{Code, Error};
use crate::talk::Talk;
use crate::target::Found;

/// Where what happens to one target's lock is written down, if anywhere.
#[derive(Debug)]
pub struct Trail<'a> {
    audit: Option<Audit>,
    request: &'a Request,
    talk: &'a Talk,
    name: String,
    path: PathBuf,
}

impl<'a> Trail<'a> {
    /// Opens `file` before anything is done, in the name of `holder`.
    ///
    /// # Errors
    /// Exit 1: nothing is claimed without the trail that was asked for.
    pub fn open(
        file: Option<&Path>,
        holder: Option<&str>,
        target: &Found,
        request: &'a Request,
        talk: &'a Talk,
    ) -> Result<Self, Error> {
        // It asks the system for the user's name, which may take its time.
        let author = || {
            let author = Author::new("beadlock", env!("CARGO_PKG_VERSION"));
            match holder {
                Some(holder) => author.holder(holder),
                None => author,
            }
        };
        let audit = file.map(|file| Audit::open(file, author())).transpose();
        let audit = audit.map_err(|failed| Error::io(failed.to_string(), failed.kind()))?;
        Ok(Self { audit, request, talk, name: target.name(), path: target.path() })
    }

    /// Writes a line of `event`, as `with` fills it in.
    pub fn write(&self, event: Event, with: impl FnOnce(Entry) -> Entry) {
        let Some(audit) = &self.audit else { return };
        let entry = with(Entry::new(event, self.request.id(), &self.name, &self.path));
        if let Err(failed) = audit.write(&entry)
            && failed.is_news()
        {
            self.talk.warn(&failed.to_string());
        }
    }

    /// The claim stands.
    pub fn acquired(&self, held: &Held) {
        self.write(Event::LockAcquired, |entry| entry.lock(held.record()));
    }

    /// A stale lock was removed.
    pub fn removed(&self, removed: &Removed) {
        self.write(Event::LockStaleRemoved, |entry| entry.removed(removed));
    }

    /// There is no claim, for somebody's lock or a cycle was in the way.
    pub fn blocked(&self, error: &Error, target: &Found) {
        if self.audit.is_none() {
            return;
        }
        let look = look(&target.place, &Options::default());
        let reason = match error.code() {
            Code::LockHeld | Code::LockUnreadable => look.verdict.reason().as_str(),
            Code::LockStale => "removal_failed",
            Code::DrainTimeout => "gate_busy",
            _ => return,
        };
        self.write(Event::LockBlocked, |entry| {
            let entry = entry.reason(reason).error(error);
            match &look.record {
                Some(record) => entry.lock(record),
                None => entry,
            }
        });
    }
}
