//! The right of `beadlock cycle` to run one cycle of a database that has joined a fleet.

use beadlock_claim::error::Problem;
use std::time::Duration;

use beadlock_base::{deadline::WorkDeadline, duration::shown};
use beadlock_core::{Cycle, Decision};
use beadlock_core::{audit::Event, facts};
use beadlock_fleet::{FleetAgent, Mark, PermitRefusal, Who, mark};

use super::watch::{FleetSession, FleetWatch};
use super::{Joined, failed_to_watch};
use crate::fleet::error::fleet_error;
use beadlock_base::poll::wait_for;
use beadlock_claim::audit_trail::AuditTrail;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::kept_lock::FleetGuard;
use beadlock_claim::observe::{NOTICE_AFTER, NotAcquired, TICK, WaitControl, WaitingFor};
use beadlock_claim::wait::Deadline;
use beadlock_claim::words::to_type;

/// How long to wait for etcd's answer, and for the right.
const TO_COME: Duration = Duration::from_secs(10);

/// A right that is held, for one cycle.
pub struct HeldRight {
    watch: FleetWatch,
    mark: Mark,
    since: Duration,
}

/// Why there is none.
pub enum NoRight {
    /// The cycle is skipped.
    Skipped(Decision),
    NotAcquired(NotAcquired),
}

impl HeldRight {
    /// Asks for it, and waits until it is there. It waits for no claim.
    pub fn obtain(joined: &Joined, control: &mut dyn WaitControl) -> Result<Self, NoRight> {
        let stopped = |error: Error| NoRight::NotAcquired(error.into());
        let Joined { mark, config } = joined.clone();
        let agent = FleetAgent::start(config, Who::this_process())
            .map_err(|error| stopped(fleet_error(error)))?;
        let deadline = Deadline::after(TO_COME);
        let mut notice = Deadline::after(NOTICE_AFTER);
        let permit = loop {
            drop(agent.hear());
            let refusal = match agent.permit(&mark) {
                Ok(permit) => break permit,
                Err(refusal) => refusal,
            };
            let comes_perhaps = matches!(
                refusal,
                PermitRefusal::Asking | PermitRefusal::Unreachable { .. }
            );
            if !comes_perhaps || deadline.is_over() {
                let _ = agent.end();
                return Err(match refusal {
                    PermitRefusal::Failed(error) => stopped(fleet_error(error)),
                    refusal => NoRight::Skipped(refusal.decision()),
                });
            }
            if notice.is_over() {
                let (what, left) = (refusal.to_string(), deadline.left());
                let waited = WaitingFor::Fleet {
                    name: mark.name.as_str(),
                    what: &what,
                    left,
                };
                control.waiting(&waited).map_err(NoRight::NotAcquired)?;
                notice = Deadline::after(TICK);
            }
            let limit = deadline.left().min(notice.left());
            let [_, signalled] = wait_for([Some(agent.bell()), control.signals()], limit);
            if signalled && let Some(stopped) = control.stop_reason() {
                let _ = agent.end();
                return Err(NoRight::NotAcquired(stopped));
            }
        };
        let watch = FleetWatch::of(FleetSession::Right(agent, permit));
        let watch = watch.map_err(|error| stopped(failed_to_watch(&error)))?;
        Ok(Self {
            watch,
            mark,
            since: facts::boottime(),
        })
    }

    /// The mark of the directory of this cycle is still the one that the right is for.
    pub fn is_of(&self, cycle: &Cycle) -> bool {
        cycle
            .gate()
            .is_some_and(|gate| matches!(mark::read(gate), Ok(Some(mark)) if mark == self.mark))
    }

    pub fn deadline(&self) -> WorkDeadline {
        self.watch.deadline()
    }

    pub fn tell_deadlines(&self, hear: Box<dyn FnMut(WorkDeadline)>) {
        self.watch.tell(hear);
    }

    pub fn guard(&self) -> &dyn FleetGuard {
        &self.watch
    }

    /// Why the work must not begin.
    pub fn over(&self) -> Option<String> {
        self.watch.over()
    }

    /// Gives it back, after the gate was let go. The answer is its loss, where `lost` says that it was seen, or the
    /// work has run and it is seen now.
    pub fn end(
        self,
        lost: Option<String>,
        has_worked: bool,
        trail: &AuditTrail<'_>,
    ) -> Option<Error> {
        let Self { watch, mark, since } = self;
        let age = facts::boottime().saturating_sub(since);
        let over = watch.over().filter(|_| has_worked);
        // What does not answer now ends by itself.
        let _ = watch.end();
        let why = lost.or(over)?;
        let message = format!(
            "lost the right to sync {} in the fleet after {}: {why}; what was done since is not protected: look at it, \
             then {}",
            mark.name,
            shown(age),
            to_type("beadlock fleet status", &[])
        );
        let error = Error::new(Code::LockLost, message).detailed(format!("fleet={}", mark.name));
        trail.write(Event::LockLost, |entry| {
            entry.reason("fleet_lost").detail(&error).held_for(age)
        });
        Some(error)
    }
}
