//! The claim of a session on a lock with a record.

use std::{ffi::OsString, fmt, time::Duration};

use beadlock_base::filesystem::shared_file_system;
use beadlock_core::take::Held;

use super::interactive_wait::InteractiveWait;
use super::session_claim::{ClaimEnd, CommandProcess, SessionClaim, Watchfulness};
use beadlock_claim::kept_lock::{KeptLock, LossAlarm};
use beadlock_claim::loss::{Loss, LossWatcher, WatchStart};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::release_request::{Enders, ReleaseOutcome, ReleaseReason, ReleaseRequest};
use beadlock_claim::{
    audit_trail::AuditTrail,
    environment::Environment,
    error::Error,
    observe::{GateReach, Notice},
    wait::Wait,
};
use beadlock_claim::{outer, request::ClaimRequest, target::Target};
use beadlock_supervise::{signals::Signals, watchdog::OnRenewal};

/// The claim of a session on a lock with a record.
pub struct RecordClaim<'a> {
    request: ClaimRequest,
    trail: &'a AuditTrail<'a>,
    environment: &'a Environment,
    state: State,
}

enum State {
    Wanted,
    Held(Held),
    Kept(KeptLock),
    /// The outer claim, where this process can watch it.
    Nested(Option<Held>),
    Ended,
}

impl fmt::Debug for RecordClaim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordClaim")
            .field("target", &self.request.target)
            .finish_non_exhaustive()
    }
}

impl<'a> RecordClaim<'a> {
    /// A claim that is to be obtained, or is nested in the claim that the request stands under. Fails inside a cycle of
    /// its own target, since the claim would wait for itself; `trail` gets the error.
    pub fn new(
        request: ClaimRequest,
        trail: &'a AuditTrail<'a>,
        environment: &'a Environment,
    ) -> Result<Self, Error> {
        let target = &request.target;
        outer::refuse_inside_a_cycle(target, environment)
            .inspect_err(|error| trail.blocked(error, &target.place))?;
        Ok(Self {
            request,
            trail,
            environment,
            state: State::Wanted,
        })
    }

    fn id(&self) -> &str {
        self.request.outer.as_ref().unwrap_or(&self.request.id)
    }

    fn leaving<'l>(&'l self, failure_step: Option<&'l str>) -> ReleaseRequest<'l> {
        let patience = self.request.drain.max(Duration::from_secs(10));
        ReleaseRequest {
            target: &self.request.target,
            enders: Enders::Owner,
            patience,
            trail: self.trail,
            failure_step,
        }
    }
}

impl SessionClaim for RecordClaim<'_> {
    fn target(&self) -> &Target {
        &self.request.target
    }

    fn id(&self) -> Option<String> {
        Some(self.id().to_owned())
    }

    fn holder(&self) -> Option<String> {
        Some(self.request.holder.clone())
    }

    fn is_nested(&self) -> bool {
        self.request.outer.is_some()
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let target = &self.request.target;
        vec![
            ("BEADLOCK_HELD_TARGET", target.absolute()),
            ("BEADLOCK_HELD_ID", self.id().into()),
            (
                outer::HELD_IDS,
                outer::ids_inside(self.id(), target, self.environment).into(),
            ),
        ]
    }

    fn ends_with_us(&self) -> bool {
        self.request.target.place.record_kind().is_judged_by_time()
    }

    fn wait(&self) -> Wait {
        self.request.wait
    }

    fn wait_at_most(&mut self, left: Duration) {
        self.request.wait = self.request.wait.at_most(left);
    }

    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        let target = &self.request.target;
        let (observer, given) = (self.trail.observer(), &target.given);
        if let Some(id) = &self.request.outer {
            observer.notice(&Notice::Nested { given, id });
            self.state = State::Nested(None);
            return Ok(());
        }
        if let Some(name) = shared_file_system(target.dir()).filter(|_| target.has_cycles()) {
            let reach = GateReach::Cycles;
            observer.notice(&Notice::SharedFs { given, name, reach });
        }
        let pid = child.pid.unsigned_abs();
        let held = self.request.acquire_audited(pid, control, self.trail)?;
        self.state = State::Held(held);
        Ok(())
    }

    fn keep_up(&mut self) -> Result<(), Error> {
        let target = &self.request.target;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Held(held) => {
                let lease = target.lease(&held);
                match KeptLock::begin(held, lease, WatchStart::Later) {
                    Ok(keeping) => self.state = State::Kept(keeping),
                    Err(failed) => {
                        let (held, error) = *failed;
                        self.state = State::Held(held);
                        return Err(error);
                    }
                }
            }
            // An outer claim is watched too, and never released here.
            State::Nested(_) => self.state = State::Nested(outer::guard_of(self.id(), target)),
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

    fn tell(&self, pulse: Box<dyn OnRenewal>) {
        if let State::Kept(keeping) = &self.state {
            keeping.tell(pulse);
        }
    }

    fn guard(&self) -> Option<LossAlarm<'_>> {
        match &self.state {
            State::Kept(keeping) => Some(keeping.guard(self.trail)),
            State::Nested(Some(outer)) => Some(LossAlarm::Outer(LossWatcher::over_outer(outer))),
            _ => None,
        }
    }

    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        failed_step: Option<&str>,
        signals: &mut Signals,
    ) -> ClaimEnd {
        let held = match std::mem::replace(&mut self.state, State::Ended) {
            State::Held(held) => held,
            State::Kept(keeping) => match keeping.end() {
                Some(held) => held,
                None => {
                    self.leaving(failed_step).hangs(lost.as_ref(), self.id());
                    return ClaimEnd::default();
                }
            },
            State::Nested(outer) => {
                let error = |(outer, loss): (Held, Loss)| {
                    let (id, kept) = (outer.id(), outer.broken_as());
                    loss.error(id, kept.as_deref(), outer.age(), &self.request.target)
                };
                return ClaimEnd {
                    lost: outer.zip(lost).map(error),
                    ..ClaimEnd::default()
                };
            }
            State::Wanted | State::Ended => return ClaimEnd::default(),
        };
        let age = held.age();
        let leaving = self.leaving(failed_step);
        let mut control = InteractiveWait::wait_of(signals, self.trail.observer(), None);
        match leaving.end(held, lost, why, &mut control) {
            ReleaseOutcome::Released | ReleaseOutcome::ByAnother => ClaimEnd {
                held: Some(age),
                released: true,
                lost: None,
            },
            ReleaseOutcome::Stuck => ClaimEnd {
                held: Some(age),
                released: false,
                lost: None,
            },
            ReleaseOutcome::Lost(error) => ClaimEnd {
                held: Some(age),
                released: false,
                lost: Some(error),
            },
        }
    }
}
