//! The claim of a session on a lock with a record.

use std::{ffi::OsString, fmt, time::Duration};

use beadlock_base::filesystem::shared_file_system;
use beadlock_core::Options;
use beadlock_core::take::Held;

use super::attendant::{Attending, Stopped};
use super::keeping::{Guard, Keeping};
use super::leaving::{Enders, Leaving, Left, Why};
use super::loss::{Loss, Watch, WatchStart};
use super::session_claim::{CommandProcess, End, SessionClaim, Watchfulness};
use super::{
    claiming::Claiming, lease::HearHeartbeats, nested, protocol::MakeRecord, signals::Signals,
    target::Target,
};
use crate::{
    error::Error, output::trail::Trail, settings::environment::Environment, settings::wait::Wait,
};

pub struct ClaimOrder<'a> {
    pub target: Target,
    pub holder: String,
    pub id: String,
    pub says: MakeRecord<'a>,
    pub wait: Wait,
    pub drain: Duration,
    pub options: Options,
    pub trail: &'a Trail<'a>,
    pub environment: &'a Environment,
}

pub struct RecordClaim<'a> {
    order: ClaimOrder<'a>,
    outer: Option<String>,
    state: State,
}

enum State {
    Wanted,
    Held(Held),
    Kept(Keeping),
    /// The outer claim, where this process can watch it.
    Nested(Option<Held>),
    Ended,
}

impl fmt::Debug for RecordClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordClaim")
            .field("target", &self.order.target)
            .finish_non_exhaustive()
    }
}

impl<'a> RecordClaim<'a> {
    /// To be obtained, or nested in the claim `outer`.
    pub fn new(order: ClaimOrder<'a>, outer: Option<String>) -> Self {
        Self {
            order,
            outer,
            state: State::Wanted,
        }
    }

    fn id(&self) -> &str {
        self.outer.as_ref().unwrap_or(&self.order.id)
    }

    fn leaving<'l>(&'l self, failure_step: Option<&'l str>) -> Leaving<'l> {
        let ClaimOrder {
            target,
            drain,
            trail,
            ..
        } = &self.order;
        let patience = (*drain).max(Duration::from_secs(10));
        Leaving {
            target,
            enders: Enders::Owner,
            patience,
            trail,
            failure_step,
        }
    }
}

impl SessionClaim for RecordClaim<'_> {
    fn target(&self) -> &Target {
        &self.order.target
    }

    fn id(&self) -> Option<String> {
        Some(self.id().to_owned())
    }

    fn holder(&self) -> Option<String> {
        Some(self.order.holder.clone())
    }

    fn is_nested(&self) -> bool {
        self.outer.is_some()
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let ClaimOrder {
            target,
            environment,
            ..
        } = &self.order;
        vec![
            ("BEADLOCK_HELD_TARGET", target.absolute()),
            ("BEADLOCK_HELD_ID", self.id().into()),
            (
                nested::HELD_IDS,
                nested::ids_inside(self.id(), target, environment).into(),
            ),
        ]
    }

    fn ends_with_us(&self) -> bool {
        self.order.target.place.dialect().is_judged_by_time()
    }

    fn wait(&self) -> Wait {
        self.order.wait
    }

    fn wait_at_most(&mut self, left: Duration) {
        self.order.wait = self.order.wait.at_most(left);
    }

    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        attending: &mut Attending<'_>,
    ) -> Result<(), Stopped> {
        let ClaimOrder {
            target,
            says,
            wait,
            drain,
            options,
            trail,
            ..
        } = &self.order;
        let talk = trail.talk();
        if let Some(outer) = &self.outer {
            talk.say_more(&format!(
                "{} is held by an outer claim ({outer}); running under it",
                target.given
            ));
            self.state = State::Nested(None);
            return Ok(());
        }
        if let Some(name) = shared_file_system(target.dir()).filter(|_| target.has_cycles()) {
            let given = &target.given;
            talk.note(&format!(
                "{given} is on {name}: a running cycle is waited for on this machine only"
            ));
        }
        let (wait, drain, options) = (*wait, *drain, *options);
        let claiming = Claiming {
            target,
            pid: child.pid.unsigned_abs(),
            says,
            wait,
            drain,
            options,
        };
        self.state = State::Held(claiming.claim_and_tell(attending, trail)?);
        Ok(())
    }

    fn keep_up(&mut self) -> Result<(), Error> {
        let target = &self.order.target;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Held(held) => {
                let lease = target.protocol.lease(&held);
                match Keeping::begin(held, lease, WatchStart::Later) {
                    Ok(keeping) => self.state = State::Kept(keeping),
                    Err(failed) => {
                        let (held, error) = *failed;
                        self.state = State::Held(held);
                        return Err(error);
                    }
                }
            }
            // An outer claim is watched too, and never released here.
            State::Nested(_) => self.state = State::Nested(nested::guard_of(self.id(), target)),
            state => self.state = state,
        }
        Ok(())
    }

    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        let State::Kept(keeping) = &self.state else {
            return None;
        };
        let lease = keeping.limits();
        lease.is_some().then_some(Watchfulness {
            lease,
            ..Watchfulness::default()
        })
    }

    fn tell(&self, pulse: Box<dyn HearHeartbeats>) {
        if let State::Kept(keeping) = &self.state {
            keeping.tell(pulse);
        }
    }

    fn guard(&self) -> Option<Guard<'_>> {
        match &self.state {
            State::Kept(keeping) => Some(keeping.guard(self.order.trail)),
            State::Nested(Some(outer)) => Some(Guard::Outer(Watch::over_outer(outer))),
            _ => None,
        }
    }

    fn end(
        &mut self,
        lost: Option<Loss>,
        why: Why,
        failed_step: Option<&str>,
        signals: &mut Signals,
    ) -> End {
        let held = match std::mem::replace(&mut self.state, State::Ended) {
            State::Held(held) => held,
            State::Kept(keeping) => match keeping.end() {
                Some(held) => held,
                None => {
                    self.leaving(failed_step).hangs(lost.as_ref(), self.id());
                    return End::default();
                }
            },
            State::Nested(outer) => {
                let error = |(outer, loss): (Held, Loss)| {
                    let (id, kept) = (outer.id(), outer.broken_as());
                    loss.error(id, kept.as_deref(), outer.age(), &self.order.target)
                };
                return End {
                    lost: outer.zip(lost).map(error),
                    ..End::default()
                };
            }
            State::Wanted | State::Ended => return End::default(),
        };
        let age = held.age();
        let leaving = self.leaving(failed_step);
        let mut attending = Attending::wait_of(signals, self.order.trail.talk(), None);
        match leaving.end(held, lost, why, &mut attending) {
            Left::Released | Left::ByAnother => End {
                held: Some(age),
                released: true,
                lost: None,
            },
            Left::Stuck => End {
                held: Some(age),
                released: false,
                lost: None,
            },
            Left::Lost(error) => End {
                held: Some(age),
                released: false,
                lost: Some(error),
            },
        }
    }
}
