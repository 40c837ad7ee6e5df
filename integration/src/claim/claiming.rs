//! The loop of a claim: the gate, one attempt under it, and the wait for the holder (docs/design.md#the-drain,
//! docs/design.md#waiting).

use std::time::Duration;

use beadlock_core::take::{self, Attempt, Held, Site};
use beadlock_core::{Options, Removed};
use beadlock_core::{dialect::Record, gate::Gate};

use super::attendant::{Attendant, Stopped};
use super::{fleet, gate, patience::Patience, protocol::MakeRecord, target::Target};
use crate::{error::Error, output::trail::Trail, settings::wait::Wait};

pub struct Claiming<'a> {
    pub target: &'a Target,
    /// The process that the record names.
    pub pid: u32,
    pub says: &'a MakeRecord<'a>,
    /// For how long a holder is waited for.
    pub wait: Wait,
    /// For how long the gate is waited for.
    pub drain: Duration,
    pub options: Options,
}

impl Claiming<'_> {
    /// Claims, or says why not. On `Ok` the lock stands and the gate is open again. `removed` hears of each stale
    /// lock that was removed to make room, also when another one came before ours.
    pub fn claim(
        &self,
        attendant: &mut impl Attendant,
        removed: impl Fn(&Removed),
    ) -> Result<Held, Stopped> {
        let dir = self.target.dir();
        let mut patience = Patience::new(self.target, self.wait, self.drain, self.options);
        let mut gate_is_missed = false;
        loop {
            let attempt = match gate::take(dir, dir, self.drain, attendant)? {
                Ok(gate) => {
                    self.refuse_in_fleet()?;
                    self.attempt(&gate, &patience.options())?
                }
                Err(why) => {
                    self.refuse_in_fleet()?;
                    if !std::mem::replace(&mut gate_is_missed, true) {
                        attendant.no_gate(&why);
                    }
                    take::claim_without_gate(&self.target.place, self.record()?, &self.options)?
                }
            };
            let (refused, dead) = match attempt {
                Attempt::Claimed(held, dead) => (Ok(held), dead),
                Attempt::Refused(skip, dead) => (Err(skip), dead),
            };
            dead.iter().for_each(&removed);
            match refused {
                Ok(held) => {
                    attendant.waited(patience.for_holder());
                    return Ok(held);
                }
                Err(skip) => patience.after(skip, attendant)?,
            }
        }
    }

    /// The same, and says and writes down what came of it.
    pub fn claim_and_tell(
        &self,
        attendant: &mut impl Attendant,
        trail: &Trail<'_>,
    ) -> Result<Held, Stopped> {
        let talk = trail.talk();
        let claimed = self.claim(attendant, |removed| {
            self.target
                .protocol
                .removed(removed)
                .iter()
                .for_each(|words| talk.say(words));
            trail.removed(removed);
        });
        talk.end_live();
        let held = claimed.inspect_err(|stopped| {
            if let Stopped::Failed(error) = stopped {
                trail.blocked(error, &self.target.place);
            }
        })?;
        trail.acquired(&held);
        Ok(held)
    }

    /// Under the gate, where there is one: a clone joins a fleet between two claims.
    fn refuse_in_fleet(&self) -> Result<(), Error> {
        if self.options.has_fleet_right {
            Ok(())
        } else {
            fleet::refuse_joined(self.target)
        }
    }

    fn attempt(&self, gate: &Gate, options: &Options) -> Result<Attempt, Stopped> {
        let site = Site::new(gate, options).with_names(self.target.place.names());
        Ok(site.claim(self.record()?)?)
    }

    /// Made anew for every attempt: it says when the lock was acquired, not when the wait began.
    fn record(&self) -> Result<Record, Error> {
        (self.says)(self.pid)
    }
}
