//! The audit trail of one target: what `--audit FILE` gets to see (docs/design.md#the-audit-trail). A line that cannot
//! be written is said once, and never stands in the way of the work.
//!
//! What a claim on a named lock leaves behind are the events of its own document ([`named`]).

use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::internal::audit::{Audit, Author, Entry, Event, Outcome};
use beadlock_checker::internal::dialect::Record;
use beadlock_checker::internal::look;
use beadlock_checker::internal::take::Held;
use beadlock_checker::{Options, Place, Removed};

use crate::error::{Code, Error};
use crate::output::envelope::Request;
use crate::output::files::{self, Output};
use crate::output::talk::Talk;

mod named;

pub use named::errno_words;

/// Where what happens to one target's lock is written down, if anywhere.
#[derive(Debug)]
pub struct Trail<'a> {
    lines: Lines<'a>,
    request: &'a Request,
    talk: &'a Talk,
    name: String,
    path: PathBuf,
}

/// Whose lines they are.
#[derive(Debug)]
enum Lines<'a> {
    /// Nobody has asked for any.
    None,
    /// Beadlock's own.
    Ours(Audit),
    /// The document's of named locks.
    Tower(named::Audit<'a>),
}

impl<'a> Trail<'a> {
    /// Opens `file` before anything is done, in the name of `holder`: what a target is called, and where its lock lies.
    ///
    /// # Errors
    /// Exit 1: nothing is claimed without the trail that was asked for. Exit 2 for a lock file.
    pub fn open(
        file: Option<&Path>,
        holder: Option<&str>,
        (name, place): (String, &Place),
        request: &'a Request,
        talk: &'a Talk,
    ) -> Result<Self, Error> {
        files::refuse(Output::Audit, file, &[&place.path()])?;
        Self::ours(file, holder, (name, place.path()), request, talk)
    }

    /// Of the lock of a file: what the file is called, its lock file, and the file itself.
    ///
    /// # Errors
    /// As [`Trail::open`].
    pub fn of_file(
        file: Option<&Path>,
        (given, lock, locked): (String, &Path, &Path),
        request: &'a Request,
        talk: &'a Talk,
    ) -> Result<Self, Error> {
        files::refuse(Output::Audit, file, &[lock, locked])?;
        Self::ours(file, None, (given, lock.to_owned()), request, talk)
    }

    fn ours(
        file: Option<&Path>,
        holder: Option<&str>,
        (name, path): (String, PathBuf),
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
        let lines = audit.map_or(Lines::None, Lines::Ours);
        Ok(Self { lines, request, talk, name, path })
    }

    /// Of the claim `request_id` on a named lock: in `file`, else in the one beside the lock directory. One that
    /// cannot be opened is warned of, and stops nothing.
    ///
    /// # Errors
    /// Exit 2 for a lock file.
    pub fn of_named(
        file: Option<&Path>,
        request_id: &str,
        (name, place): (String, &Place),
        request: &'a Request,
        talk: &'a Talk,
    ) -> Result<Self, Error> {
        files::refuse(Output::Audit, file, &[&place.path()])?;
        let default = || named::default_file(place.dir());
        let file = file.map_or_else(default, Path::to_owned);
        let path = place.path();
        let lock_name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let audit = named::Audit::open(&file, request_id, &lock_name, &path, talk);
        Ok(Self { lines: Lines::Tower(audit), request, talk, name, path })
    }

    /// Who is told what else there is to say.
    pub fn talk(&self) -> &'a Talk {
        self.talk
    }

    /// Writes a line of `event`, as `with` fills it in.
    pub fn write(&self, event: Event, with: impl FnOnce(Entry) -> Entry) {
        let Lines::Ours(audit) = &self.lines else { return };
        let entry = with(Entry::new(event, self.request.id(), &self.name, &self.path));
        if let Err(failed) = audit.write(&entry)
            && failed.is_news()
        {
            self.talk.warn(&failed.to_string());
        }
    }

    /// The claim stands.
    pub fn acquired(&self, held: &Held) {
        match (&self.lines, held.record()) {
            (Lines::Tower(audit), Record::Tower(record)) => audit.acquired(record.ttl_seconds),
            _ => self.write(Event::LockAcquired, |entry| entry.lock(held.record())),
        }
    }

    /// A stale lock was removed.
    pub fn removed(&self, removed: &Removed) {
        match (&self.lines, &*removed.record) {
            (Lines::Tower(audit), Record::Tower(record)) => audit.stolen(record, &removed.bytes),
            _ => self.write(Event::LockStaleRemoved, |entry| entry.removed(removed)),
        }
    }

    /// The lock `record` was released after `held`; of a failure of the work `step` is what failed.
    pub fn released(
        &self,
        (reason, result): (&'static str, Outcome),
        held: Duration,
        record: &Record,
        step: Option<&str>,
    ) {
        match &self.lines {
            Lines::Tower(audit) => audit.released(held, result, step),
            _ => self.write(Event::LockReleased, |entry| {
                entry.reason(reason).held_for(held).result(result).lock(record)
            }),
        }
    }

    /// It could not be released.
    pub fn not_released(&self, reason: &'static str, held: Duration, record: &Record, error: &Error) {
        match &self.lines {
            Lines::Tower(audit) => audit.release_failed(&error.system()),
            _ => self.write(Event::LockReleased, |entry| {
                let entry = entry.reason(reason).held_for(held).lock(record);
                entry.result(Outcome::Failure).error(error)
            }),
        }
    }

    /// It could not be released, for its file does not answer.
    pub fn hangs(&self) {
        if let Lines::Tower(audit) = &self.lines {
            audit.release_failed(&nix::errno::Errno::ETIMEDOUT.into());
        }
    }

    /// It was lost; the document of named locks has no event for that.
    pub fn lost(&self, reason: &'static str, held: Duration, record: &Record, error: &Error) {
        self.write(Event::LockLost, |entry| entry.reason(reason).detail(error).held_for(held).lock(record));
    }

    /// So many heartbeats have failed in a row.
    pub fn heartbeat_failed(&self, in_a_row: u32, error: &str) {
        if let Lines::Tower(audit) = &self.lines {
            audit.heartbeat_failed(in_a_row, error);
        }
    }

    /// There is no claim, for somebody's lock or a cycle was in the way.
    pub fn blocked(&self, error: &Error, place: &Place) {
        if !matches!(self.lines, Lines::Ours(_)) {
            return;
        }
        let look = look(place, &Options::default());
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
