//! The claim of a database that has joined a fleet (docs/design.md#the-fleet): the claim of its lock, and as the second
//! step the claim in the fleet.
//!
//! 1. The lock is claimed as ever, with the drain of this machine's gate.
//! 2. The claim in the fleet is raised, and waits until the agents of all machines have given their rights back.
//! 3. The command runs. The session is renewed; what it is good for is told to the watchdog.
//! 4. After the work the lock is released, then the claim in the fleet ends. A claim that is given up ends the other
//!    way round.

pub mod config;
pub mod doctor;
pub mod error;
pub mod look;
pub mod right;
mod wait;
mod watch;

use beadlock_claim::error::Problem;
use std::{cell::OnceCell, ffi::OsString, fmt, os::fd::BorrowedFd, time::Duration};

use beadlock_base::{deadline::WorkDeadline, duration::shown};
use beadlock_core::{audit::Event, facts};
use beadlock_fleet::{Config, FleetClaim, FleetClaimRequest, Mark, Name, Who, mark};

use crate::fleet::error::fleet_error;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::event::failed_to;
use beadlock_claim::fleet::has_joined;
use beadlock_claim::kept_lock::LossAlarm;
use beadlock_claim::observe::{Claimed, ClaimedInFleet, Notice};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::{audit_trail::AuditTrail, words::to_type};
use beadlock_claim::{environment::Environment, wait::Wait};
use beadlock_claim::{loss::Loss, release_request::ReleaseReason, target::Target};
use beadlock_session::on_loss::OnLoss;
use beadlock_session::session_claim::{ClaimEnd, CommandProcess, SessionClaim, Watchfulness};
use beadlock_supervise::signals::Signals;
use beadlock_supervise::watchdog::OnRenewal;
use config::config;
use wait::{FleetTimeouts, StandingClaim};
use watch::{FleetSession, FleetWatch};

/// The variable with the name and the id of the claim in the fleet that a command runs under: `NAME:ID`.
pub const HELD_FLEET: &str = "BEADLOCK_HELD_FLEET";
/// The variable with the name in the fleet of the cycle that a command runs in.
pub const CYCLE_FLEET: &str = "BEADLOCK_CYCLE_FLEET";
const FENCING_TOKEN: &str = "BEADLOCK_FENCING_TOKEN";

/// The fleet that a database has joined: the mark in the database, and the configuration of the fleet.
#[derive(Debug, Clone)]
pub struct Joined {
    pub mark: Mark,
    pub config: Config,
}

impl Joined {
    /// The fleet of a target's database; `None` if it has not joined one.
    pub fn of(target: &Target, environment: &Environment) -> Result<Option<Self>, Error> {
        if !has_joined(target)? {
            return Ok(None);
        }
        let Some(mark) = mark::read_in(target.dir()).map_err(fleet_error)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            mark,
            config: config(environment)?,
        }))
    }

    /// Refuses a claim that would wait for itself, and one whose command would live on without it.
    pub fn refuse_claim(&self, on_loss: OnLoss, environment: &Environment) -> Result<(), Error> {
        let name = &self.mark.name;
        if on_loss != OnLoss::Kill {
            return Err(Error::usage(format!(
                "{name} is claimed in a fleet, where a command that lives on after a loss would work beside others; \
                 leave --on-loss out"
            )));
        }
        let is_ours = |text: &str| Name::parse(text).is_ok_and(|given| given == *name);
        let variable = |variable| environment.get(variable).and_then(|value| value.to_str());
        if variable(CYCLE_FLEET).is_some_and(is_ours) {
            return Err(Error::new(
                Code::DrainTimeout,
                format!(
                    "this runs inside a sync cycle of {name}, which a claim in the fleet would wait for: it would wait \
                     for itself; leave the claim out here, or run it outside of the cycle"
                ),
            ));
        }
        let held = variable(HELD_FLEET).and_then(|held| held.rsplit_once(':'));
        if held.is_some_and(|(held, _)| is_ours(held)) {
            return Err(Error::new(
                Code::LockHeld,
                format!(
                    "this runs under a claim of {name} in the fleet already, by another clone of it: it would wait for \
                     itself; leave the claim out here"
                ),
            ));
        }
        Ok(())
    }
}

/// A claim of a lock, and of the same database in its fleet.
pub struct InFleet<'a> {
    local: Box<dyn SessionClaim + 'a>,
    joined: Joined,
    holder: String,
    id: String,
    patience: FleetTimeouts,
    trail: &'a AuditTrail<'a>,
    held: OnceCell<Held>,
}

/// The claim in the fleet stands.
struct Held {
    watch: FleetWatch,
    standing: StandingClaim,
    since: Duration,
}

impl fmt::Debug for InFleet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFleet")
            .field("local", &self.local)
            .field("joined", &self.joined)
            .finish_non_exhaustive()
    }
}

impl<'a> InFleet<'a> {
    /// Around the claim `local` of the holder with this name and id, who has this patience.
    pub fn around(
        local: Box<dyn SessionClaim + 'a>,
        joined: Joined,
        (holder, id): (String, String),
        (wait, drain): (Wait, Duration),
        trail: &'a AuditTrail<'a>,
    ) -> Self {
        Self {
            local,
            joined,
            holder,
            id,
            patience: FleetTimeouts { wait, drain },
            trail,
            held: OnceCell::new(),
        }
    }

    fn name(&self) -> &Name {
        &self.joined.mark.name
    }

    /// The error that a command ends with whose claim in the fleet is lost.
    fn lost(&self, why: &str, age: Duration) -> Error {
        let name = self.name();
        let message = format!(
            "lost the claim of {name} in the fleet after {}: {why}; what was done since is not protected: look at it, \
             then {}",
            shown(age),
            to_type("beadlock fleet status", &[])
        );
        let error = Error::new(Code::LockLost, message).detailed(format!("fleet={name}"));
        self.trail.write(Event::LockLost, |entry| {
            entry.reason("fleet_lost").detail(&error).held_for(age)
        });
        error
    }

    /// Ends the claim in the fleet; the answer is its loss, where the work has run and one is seen now.
    fn leave(&self, held: Held, has_worked: bool) -> Option<Error> {
        let age = facts::boottime().saturating_sub(held.since);
        let over = held.watch.over().filter(|_| has_worked);
        if let Err(error) = held.watch.end() {
            self.trail.observer().notice(&Notice::FleetClaimLingers {
                name: self.name().as_str(),
                why: &error.to_string(),
            });
        }
        over.map(|why| self.lost(&why, age))
    }
}

impl SessionClaim for InFleet<'_> {
    fn target(&self) -> &Target {
        self.local.target()
    }

    fn id(&self) -> Option<String> {
        self.local.id()
    }

    fn holder(&self) -> Option<String> {
        self.local.holder()
    }

    fn is_nested(&self) -> bool {
        self.local.is_nested()
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = self.local.variables();
        variables.push((HELD_FLEET, format!("{}:{}", self.name(), self.id).into()));
        variables
    }

    fn late_variables(&self) -> Vec<(&'static str, OsString)> {
        let token = self
            .held
            .get()
            .map(|held| (FENCING_TOKEN, held.standing.0.token.to_string().into()));
        token.into_iter().collect()
    }

    fn ends_with_us(&self) -> bool {
        true
    }

    fn wait(&self) -> Wait {
        self.local.wait()
    }

    fn wait_at_most(&mut self, left: Duration) {
        self.local.wait_at_most(left);
        self.patience.wait = self.patience.wait.at_most(left);
    }

    fn inherited(&self) -> Option<BorrowedFd<'_>> {
        self.local.inherited()
    }

    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        self.local.obtain(child, control)
    }

    fn second_step(&self) -> Option<&str> {
        Some(self.name().as_str())
    }

    fn take_second_step(
        &self,
        child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        let Joined { mark, config } = self.joined.clone();
        if mark::read_in(self.target().dir())
            .map_err(fleet_error)?
            .as_ref()
            != Some(&mark)
        {
            let message = format!(
                "{} has left its fleet, or joined another, just now; try again",
                self.target().given
            );
            return Err(Error::new(Code::LockUnreadable, message)
                .retry_after(Duration::from_secs(1))
                .into());
        }
        let who = Who {
            pid: child.pid.unsigned_abs(),
            ..Who::this_process()
        };
        let request = FleetClaimRequest {
            mark,
            holder: self.holder.clone(),
            id: self.id.clone(),
            who,
        };
        let claim = FleetClaim::begin(config, request).map_err(fleet_error)?;
        match self.patience.until_held(&claim, self.name(), control) {
            Ok(standing) => {
                let watch = FleetWatch::of(FleetSession::Claim(claim))
                    .map_err(|error| failed_to_watch(&error))?;
                self.held.get_or_init(|| Held {
                    watch,
                    standing,
                    since: facts::boottime(),
                });
                Ok(())
            }
            Err(stopped) => {
                // What does not answer now ends by itself.
                let _ = claim.end();
                if let NotAcquired::Failed(error) = &stopped {
                    self.trail.blocked(error, &self.target().place);
                }
                Err(stopped)
            }
        }
    }

    fn keep_up(&mut self) -> Result<(), Error> {
        self.local.keep_up()
    }

    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        let deadline = self.held.get().map(|held| held.watch.deadline());
        match self.local.watched_by() {
            Some(watched) => Some(Watchfulness {
                deadline,
                ..watched
            }),
            None => deadline.map(|_| Watchfulness {
                deadline,
                ..Watchfulness::default()
            }),
        }
    }

    fn tell(&self, pulse: Box<dyn OnRenewal>) {
        self.local.tell(pulse);
    }

    fn tell_deadlines(&mut self, hear: Box<dyn FnMut(WorkDeadline)>) {
        if let Some(held) = self.held.get() {
            held.watch.tell(hear);
        }
    }

    fn may_begin(&self) -> Result<(), Error> {
        let Some(why) = self.held.get().and_then(|held| held.watch.over()) else {
            return Ok(());
        };
        let message = format!(
            "the claim of {} in the fleet was lost before the command began: {why}",
            self.name()
        );
        Err(Error::new(Code::FleetUnreachable, message).retry_after(Duration::from_secs(5)))
    }

    fn announcement<'a>(&'a self, holder: &'a str, pid: i32) -> Claimed<'a> {
        let local = self.local.announcement(holder, pid);
        let fleet = self.held.get().map(|held| ClaimedInFleet {
            name: self.name().as_str(),
            agents: held.standing.0.agents,
            standing: held.standing.to_string(),
        });
        Claimed { fleet, ..local }
    }

    fn helper(&self) -> Option<i32> {
        self.local.helper()
    }

    fn guard(&self) -> Option<LossAlarm<'_>> {
        self.local.guard()
    }

    fn second_guard(&self) -> Option<LossAlarm<'_>> {
        self.held.get().map(|held| LossAlarm::Fleet(&held.watch))
    }

    fn left_behind(&self, names: &str) -> String {
        self.local.left_behind(names)
    }

    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        failed_step: Option<&str>,
        signals: &mut Signals,
    ) -> ClaimEnd {
        let has_worked = why.reason == ReleaseReason::COMMAND_ENDED;
        let held = self.held.take();
        let (of_fleet, of_lock) = match lost {
            Some(Loss::Fleet { why, .. }) => (Some(why), None),
            lost => (None, lost),
        };
        let age = held
            .as_ref()
            .map(|held| facts::boottime().saturating_sub(held.since))
            .unwrap_or_default();
        let (ended, over) = if has_worked {
            let ended = self.local.end(of_lock, why, failed_step, signals);
            (
                ended,
                held.and_then(|held| self.leave(held, of_fleet.is_none())),
            )
        } else {
            let over = held.and_then(|held| self.leave(held, false));
            (self.local.end(of_lock, why, failed_step, signals), over)
        };
        let of_fleet = of_fleet.map(|why| self.lost(&why, age));
        ClaimEnd {
            lost: ended.lost.or(of_fleet).or(over),
            ..ended
        }
    }
}

fn failed_to_watch(error: &std::io::Error) -> Error {
    failed_to("watch over the claim in the fleet", error)
}
