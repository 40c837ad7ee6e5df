//! The audit trail of one target: what `--audit FILE` gets to see (docs/design.md#the-audit-trail). A line that cannot
//! be written is said once, and never stands in the way of the work.
//!
//! A protocol whose document has audit events of its own writes those instead (`DocumentEvents`).

use crate::error::Problem;
use std::path::{Path, PathBuf};
use std::{fmt, io, time::Duration};

use beadlock_base::{error::system_words, escape::escaped_path};
use beadlock_core::audit::{Audit, AuditEntry, Author, Event, WorkOutcome};
use beadlock_core::reserved::Reserved;
use beadlock_core::{Options, Place, Removed};
use beadlock_core::{
    look::{Look, look},
    record::Record,
    take::Held,
};
use nix::errno::Errno;

use crate::envelope::Request;
use crate::error::{Code, Error};
use crate::observe::{Notice, Observer};
use crate::words;

/// Refuses, with exit 2, a file for output that is one of these lock files, or a database's. `option` has named it.
pub fn refuse_lock_file(
    option: &str,
    file: Option<&Path>,
    locks: &[impl AsRef<Path>],
) -> Result<(), Error> {
    let locks: Vec<&Path> = locks.iter().map(AsRef::as_ref).collect();
    let Some((file, taken)) = file.and_then(|file| Some((file, Reserved::of(file, &locks)?)))
    else {
        return Ok(());
    };
    Err(Error::usage(format!(
        "{option}: {} {}",
        escaped_path(file),
        taken.words()
    )))
}

/// Writes down what happens to one target's lock.
#[derive(Debug)]
pub struct AuditTrail<'a> {
    lines: Lines<'a>,
    request: &'a Request,
    observer: &'a dyn Observer,
    name: String,
    path: PathBuf,
}

#[derive(Debug)]
enum Lines<'a> {
    None,
    /// Lines in beadlock's own form.
    Own(Audit),
    /// Lines as the protocol's document has them.
    Document(Box<dyn DocumentEvents + 'a>),
}

/// The audit events of a protocol's document.
pub(crate) trait DocumentEvents: fmt::Debug {
    fn acquired(&self, record: &Record);
    /// A stale lock was taken.
    fn stolen(&self, removed: &Removed);
    /// The lock was released, `held` after it was created; after a failure `step` names the step that failed.
    fn released(&self, held: Duration, result: WorkOutcome, step: Option<&str>);
    fn release_failed(&self, error: &io::Error);
    fn heartbeat_failed(&self, in_a_row: u32, error: &str);
    /// The lock was lost, `held` after it was created where that is known.
    fn lost(&self, reason: &'static str, held: Option<Duration>, why: &str);
    /// Somebody took the lock away by hand.
    fn broken(&self, broken: &Breakage<'_>);
}

/// A lock that somebody took away by hand.
#[derive(Debug)]
pub struct Breakage<'a> {
    /// The look at the lock before it was taken away.
    pub look: &'a Look,
    /// How the lock was chosen, in a word.
    pub how: &'static str,
    /// Why the lock was taken away, in the person's own words; `None`: the person gave no reason.
    pub why: Option<&'a str>,
    /// The file that has the lock's record now.
    pub kept: &'a Path,
}

impl Breakage<'_> {
    /// Why, in a sentence: the person's own words, else what is wrong with the file.
    pub fn detail(&self) -> Option<String> {
        let of_file = || Some(self.look.detail()).filter(|detail| !detail.is_empty());
        self.why.map(str::to_owned).or_else(of_file)
    }
}

impl<'a> AuditTrail<'a> {
    /// Opens `file` before anything is done, in the name of `holder`: `name` is what the target is called, and the
    /// first of `locks` where its lock lies. An error has exit 1: nothing is claimed without the trail that was asked
    /// for; or exit 2: `file` is one of `locks`.
    pub fn open(
        file: Option<&Path>,
        holder: Option<&str>,
        (name, locks): (String, &[PathBuf]),
        request: &'a Request,
        observer: &'a dyn Observer,
    ) -> Result<Self, Error> {
        refuse_lock_file("--audit", file, locks)?;
        let lines = match file {
            None => Lines::None,
            Some(file) => {
                // It asks the system for the user's name, which may take its time.
                let author = Author::new("beadlock", env!("CARGO_PKG_VERSION"));
                let author = holder.into_iter().fold(author, Author::holder);
                let audit = Audit::open(file, author);
                Lines::Own(audit.map_err(|failed| Error::io(failed.to_string(), failed.kind()))?)
            }
        };
        let path = locks.first().cloned().unwrap_or_default();
        Ok(Self {
            lines,
            request,
            observer,
            name,
            path,
        })
    }

    /// The trail of a claim whose document has events of its own. An error has exit 2: `file` is one of `locks`.
    pub(crate) fn of_document(
        file: Option<&Path>,
        events: Box<dyn DocumentEvents + 'a>,
        (name, locks): (String, &[PathBuf]),
        request: &'a Request,
        observer: &'a dyn Observer,
    ) -> Result<Self, Error> {
        refuse_lock_file("--audit", file, locks)?;
        let path = locks.first().cloned().unwrap_or_default();
        Ok(Self {
            lines: Lines::Document(events),
            request,
            observer,
            name,
            path,
        })
    }

    /// The observer, which hears of the lock's events beside the audit file.
    pub fn observer(&self) -> &'a dyn Observer {
        self.observer
    }

    /// Writes a line of `event`, as `with` fills it in.
    pub fn write(&self, event: Event, with: impl FnOnce(AuditEntry) -> AuditEntry) {
        let Lines::Own(audit) = &self.lines else {
            return;
        };
        let entry = with(AuditEntry::new(
            event,
            self.request.id(),
            &self.name,
            &self.path,
        ));
        if let Some(failed) = audit.write(&entry).err().filter(|failed| failed.is_news()) {
            self.observer.notice(&Notice::NotAudited(&failed));
        }
    }

    pub(crate) fn acquired(&self, held: &Held) {
        match &self.lines {
            Lines::Document(events) => events.acquired(held.record()),
            _ => self.write(Event::LockAcquired, |entry| entry.lock(held.record())),
        }
    }

    /// Writes down that a stale lock was removed.
    pub fn removed(&self, removed: &Removed) {
        match &self.lines {
            Lines::Document(events) => events.stolen(removed),
            _ => self.write(Event::LockStaleRemoved, |entry| entry.removed(removed)),
        }
    }

    /// Writes down that the lock `record` was released after `held`; after a failure of the work `step` names the step
    /// that failed.
    pub fn released(
        &self,
        why: (&'static str, WorkOutcome),
        held: Duration,
        record: &Record,
        step: Option<&str>,
    ) {
        let (reason, result) = why;
        match &self.lines {
            Lines::Document(events) => events.released(held, result, step),
            _ => self.write(Event::LockReleased, |entry| {
                entry
                    .reason(reason)
                    .held_for(held)
                    .result(result)
                    .lock(record)
            }),
        }
    }

    pub(crate) fn not_released(
        &self,
        reason: &'static str,
        held: Duration,
        record: &Record,
        error: &Error,
    ) {
        match &self.lines {
            Lines::Document(events) => events.release_failed(&error.system()),
            _ => self.write(Event::LockReleased, |entry| {
                entry
                    .reason(reason)
                    .held_for(held)
                    .lock(record)
                    .result(WorkOutcome::Failure)
                    .error(error)
            }),
        }
    }

    /// Writes down that the lock could not be released, since its file system does not answer. `lost` is a loss that
    /// was seen before, and why.
    pub fn hangs(&self, lost: Option<(&'static str, &str)>) {
        let Lines::Document(events) = &self.lines else {
            return;
        };
        if let Some((reason, why)) = lost {
            events.lost(reason, None, why);
        }
        events.release_failed(&Errno::ETIMEDOUT.into());
    }

    pub(crate) fn lost(
        &self,
        reason: &'static str,
        held: Duration,
        record: &Record,
        error: &Error,
    ) {
        match &self.lines {
            Lines::Document(events) => events.lost(reason, Some(held), &error.to_string()),
            _ => self.write(Event::LockLost, |entry| {
                entry
                    .reason(reason)
                    .detail(error)
                    .held_for(held)
                    .lock(record)
            }),
        }
    }

    /// Writes down that somebody took the lock away by hand.
    pub fn broken(&self, broken: &Breakage<'_>) {
        if let Lines::Document(events) = &self.lines {
            return events.broken(broken);
        }
        self.write(Event::LockBroken, |entry| {
            let entry = broken
                .detail()
                .into_iter()
                .fold(entry.reason(broken.how), |entry, why| entry.detail(why));
            match &broken.look.record {
                Some(record) => entry
                    .held_for(words::age(broken.look))
                    .previous_lock(record),
                None => entry,
            }
        });
    }

    pub(crate) fn heartbeat_failed(&self, in_a_row: u32, error: &str) {
        if let Lines::Document(events) = &self.lines {
            events.heartbeat_failed(in_a_row, error);
        }
    }

    /// Writes down that a claim failed, since a lock or a cycle was in the way.
    pub fn blocked(&self, error: &Error, place: &Place) {
        if !matches!(self.lines, Lines::Own(_)) {
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
            look.record
                .iter()
                .fold(entry.reason(reason).error(error), |entry, record| {
                    entry.lock(record)
                })
        });
    }
}

/// `EACCES: permission denied`
pub fn errno_words(error: &io::Error) -> String {
    let words = system_words(error);
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => format!("{errno:?}: {words}"),
        None => words,
    }
}
