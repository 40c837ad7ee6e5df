//! The end of a claim: the release, and what is said of it (DESIGN 7, "End").

use std::time::Duration;

use beadlock_checker::audit::{Event, Outcome};
use beadlock_checker::duration::shown;
use beadlock_checker::take::{Held, Release, Whereabouts};

use super::claim::Attendant;
use super::guard::release;
use super::loss::Loss;
use crate::failure::Error;
use crate::talk::Talk;
use crate::target::Found;
use crate::trail::Trail;

/// Ends claims on one target.
pub struct Leaving<'a> {
    /// What is claimed.
    pub target: &'a Found,
    /// For how long the gate is waited for.
    pub patience: Duration,
    /// Who is told.
    pub talk: &'a Talk,
    /// What is written down.
    pub trail: &'a Trail<'a>,
}

/// How a claim ended.
#[derive(Debug)]
pub enum Left {
    /// The lock is gone, by our hand.
    Released,
    /// It was lost before; the words to end with.
    Lost(Error),
    /// It could not be removed; that was said.
    Stuck,
}

impl Leaving<'_> {
    /// Releases for `reason`, and says so; a failure is a warning that says what to type. A signal ends the wait for
    /// the gate: the lock is stale the moment its process is reaped. `known` is a loss that was seen before.
    pub fn end(&self, held: Held, known: Option<Loss>, reason: &str, attendant: &mut impl Attendant) -> Left {
        let age = held.age();
        let record = held.record().clone();
        let is_in_place = known.is_none() && held.whereabouts() == Whereabouts::InPlace;
        let kept = (!is_in_place).then(|| held.broken_as()).flatten();
        let released = release(held, self.target.dir(), self.patience, attendant);
        self.talk.end_live();
        let loss = match (known, released) {
            (Some(loss), _) => loss,
            (None, Ok(Release::Released)) => {
                self.talk.say(&format!("released {} after {}", self.target.given, shown(age)));
                self.trail.write(Event::LockReleased, |entry| {
                    entry.reason(reason).held_for(age).result(Outcome::Success).lock(&record)
                });
                return Left::Released;
            }
            (None, Ok(Release::Gone)) => Loss::Vanished,
            (None, Ok(Release::NotOurs(now))) => Loss::Changed(now),
            (None, Err(failed)) => {
                let (_, error) = *failed;
                self.talk.warn(&format!(
                    "the lock was not released: {error}; once this has ended, type: beadlock check {}",
                    self.target.typed()
                ));
                self.trail.write(Event::LockReleased, |entry| {
                    let entry = entry.reason(reason).held_for(age).lock(&record);
                    entry.result(Outcome::Failure).error(&error)
                });
                return Left::Stuck;
            }
        };
        let error = loss.error(kept.as_deref(), age, self.target);
        self.trail.write(Event::LockLost, |entry| {
            entry.reason(loss.as_str()).detail(&error).held_for(age).lock(&record)
        });
        Left::Lost(error)
    }
}
