//! The loop of a claim: the gate, one attempt under it, and the wait for the holder (docs/design.md#the-drain,
//! docs/design.md#waiting).

use beadlock_core::gate::Gate;
use beadlock_core::take::{self, Attempt, Held, Site};
use beadlock_core::{Options, Removed};

use super::{fleet, gate, request::ClaimRequest, retry::Retry};
use crate::observe::{NotAcquired, WaitControl};
use crate::{audit_trail::AuditTrail, error::Error, observe::Notice};

impl ClaimRequest {
    /// Claims for the process `pid`, which the record names, or says why not. On `Ok` the lock stands and the gate is
    /// open again. `removed` hears of each stale lock that was removed to make room, also when another one came before
    /// ours.
    pub fn acquire(
        &self,
        pid: u32,
        control: &mut dyn WaitControl,
        removed: impl Fn(&Removed),
    ) -> Result<Held, NotAcquired> {
        let dir = self.target.dir();
        let mut retry = Retry::new(&self.target, self.wait, self.drain, self.options);
        let mut gate_is_missed = false;
        loop {
            let attempt = match gate::take(dir, dir, self.drain, control)? {
                Ok(gate) => {
                    self.refuse_in_fleet()?;
                    self.attempt(pid, &gate, &retry.options())?
                }
                Err(why) => {
                    self.refuse_in_fleet()?;
                    if !std::mem::replace(&mut gate_is_missed, true) {
                        control.no_gate(&why);
                    }
                    take::claim_without_gate(
                        &self.target.place,
                        self.record(pid)?,
                        &self.options,
                        self.durability,
                    )?
                }
            };
            let (refused, dead) = match attempt {
                Attempt::Claimed(held, dead) => (Ok(held), dead),
                Attempt::Refused(skip, dead) => (Err(skip), dead),
            };
            dead.iter().for_each(&removed);
            match refused {
                Ok(held) => {
                    control.waited(retry.for_holder());
                    return Ok(held);
                }
                Err(skip) => retry.after(skip, control)?,
            }
        }
    }

    /// [`ClaimRequest::acquire`], which says and writes down what came of it.
    pub fn acquire_audited(
        &self,
        pid: u32,
        control: &mut dyn WaitControl,
        trail: &AuditTrail<'_>,
    ) -> Result<Held, NotAcquired> {
        let observer = trail.observer();
        let claimed = self.acquire(pid, control, |removed| {
            if let Some(words) = self.target.removed(removed) {
                let words = &words;
                observer.notice(&Notice::RemovedStale { removed, words });
            }
            trail.removed(removed);
        });
        observer.notice(&Notice::WaitEnded);
        let held = claimed.inspect_err(|stopped| {
            if let NotAcquired::Failed(error) = stopped {
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
            fleet::refuse_joined(&self.target)
        }
    }

    /// Makes one attempt under the gate, with a new record.
    fn attempt(&self, pid: u32, gate: &Gate, options: &Options) -> Result<Attempt, NotAcquired> {
        let site = Site::new(gate, options)
            .with_names(self.target.place.names())
            .with_durability(self.durability);
        Ok(site.claim(self.record(pid)?)?)
    }
}
