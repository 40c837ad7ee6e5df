//! Breaking the lock of a directory because somebody says so: it goes out of the way, and its record is kept.

use beadlock_claim::error::Problem;
use std::path::PathBuf;

use beadlock_base::escape::escaped_path;
use beadlock_core::look::Look;
use beadlock_core::take::{BreakableLock, Broken, Licence, Site};
use beadlock_core::{Options, Verdict};

use super::{MemoryLock, PATIENCE, Record};
use beadlock_claim::error::{Code, Error};
use beadlock_claim::{environment::Environment, words};
use beadlock_claim::{gate, observe::Uninterrupted, outer, target::Target};

/// How often another look is taken when something came in between.
const ROUNDS: usize = 5;

/// Which lock [`MemoryLock::break_lock`] breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BreakLimit {
    /// A stale lock only.
    #[default]
    Stale,
    /// Also a lock whose holder may be at work: the holder goes on, and is told nothing.
    EvenIfLive,
}

/// A lock that is out of the way.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokenLock {
    /// The record of the lock.
    pub record: Record,
    /// The file in which the lock is kept.
    pub kept: PathBuf,
}

impl MemoryLock {
    /// Breaks the lock, as `beadlock break memory:DIR` does. `None`: there is none.
    ///
    /// # Errors
    /// [`Code::LockHeld`] for a lock that may be held, unless `limit` says otherwise; [`Code::LockUnreadable`] for what
    /// cannot be read; [`Code::DrainTimeout`] when the directory's flock did not open. Nothing was changed then.
    pub fn break_lock(&self, limit: BreakLimit) -> Result<Option<BrokenLock>, Error> {
        let environment = Environment::read();
        let target = self.target(&environment)?;
        if target.is_nowhere() {
            return Ok(None);
        }
        outer::refuse_to(&target, &environment, "break")?;
        let taken = gate::take_or_advise(
            target.dir(),
            PATIENCE,
            "try again when that has ended",
            &mut Uninterrupted,
        )?;
        let gate = taken.map_err(|why| {
            Error::io(
                format!("there is no gate here ({why}), and without one no lock is broken"),
                why.kind(),
            )
        })?;
        let options = Options {
            limits: self.limits,
            ..Options::default()
        };
        let licence = match limit {
            BreakLimit::Stale => Licence::UnlessHeld,
            BreakLimit::EvenIfLive => Licence::EvenIfLive,
        };
        for _ in 0..ROUNDS {
            let mut site = Site::new(&gate, &options).with_names(target.place.names());
            let mut seen = BreakableLock::at(&target.place, &options);
            if seen.look().verdict == Verdict::Free && seen.look().side_file {
                // A crash has left a lock aside.
                let _ = site.settle();
                seen = BreakableLock::at(&target.place, &options);
            }
            let look = seen.look();
            let Some(record) = to_be_broken(look, licence, &target)? else {
                return Ok(None);
            };
            match site.break_lock(&seen, licence)? {
                Broken::Kept { file, .. } => return Ok(Some(BrokenLock { record, kept: file })),
                Broken::Gone => return Ok(None),
                Broken::Changed | Broken::Contended => {}
            }
        }
        let path = escaped_path(&target.path());
        let message = format!(
            "{path} is being changed by somebody all the time; it was not touched; try again"
        );
        Err(Error::new(Code::LockHeld, message).retry_on_a_lock_of(None))
    }
}

/// The record of the lock that was looked at; `None`: there is none.
fn to_be_broken(look: &Look, licence: Licence, target: &Target) -> Result<Option<Record>, Error> {
    let path = escaped_path(&target.path());
    match (look.verdict, &look.record) {
        (Verdict::Free, _) => Ok(None),
        (Verdict::Held(reason), Some(record)) if licence == Licence::UnlessHeld => {
            let holder = target.holder(look).unwrap_or_default();
            let message = format!("{path} is held by {holder} ({reason}); it was not touched");
            Err(Error::new(Code::LockHeld, message).held_by(
                beadlock_claim::error::holder_of_record(
                    &target.path(),
                    record,
                    words::known_age(look),
                ),
            ))
        }
        (Verdict::Held(_) | Verdict::Stale(_), Some(record)) => Ok(record.as_memory().cloned()),
        _ => {
            let message = format!(
                "{path} cannot be understood: {}; it was not touched",
                look.detail()
            );
            Err(Error::new(Code::LockUnreadable, message))
        }
    }
}
