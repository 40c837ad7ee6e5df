//! The end of a claim: the release, and what is said of it (docs/design.md#end).

use std::time::Duration;

use beadlock_core::audit::WorkOutcome;
use beadlock_core::take::{Held, Release, Whereabouts};

use super::{loss::Loss, release::release, target::Target};
use crate::observe::WaitControl;
use crate::{audit_trail::AuditTrail, error::Error, observe::Notice};
use beadlock_supervise::process_tree::CommandEnd;

/// How a claim is to end: [`ReleaseRequest::end`] ends it.
pub struct ReleaseRequest<'a> {
    /// The target whose claim is to end.
    pub target: &'a Target,
    /// Who may end the claim, which tells an end by another process from a loss.
    pub enders: Enders,
    /// How long the release waits for the gate, at most.
    pub patience: Duration,
    /// The trail that the end is written to, with the observer that hears of it.
    pub trail: &'a AuditTrail<'a>,
    /// Which step of the work has failed, where that is known.
    pub failure_step: Option<&'a str>,
}

/// Which processes may end the claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enders {
    /// This one. Where the lock is gone or changed at the end, it is lost.
    Owner,
    /// Its keeper, and any process that has its id. A lock that was there when its end began, and is not any more, was
    /// ended by another one.
    Several,
}

/// How a claim has ended.
#[derive(Debug)]
pub enum ReleaseOutcome {
    /// Its lock was removed.
    Released,
    /// Another process has ended it in the same moment, and has written that down.
    ByAnother,
    /// The lock was lost before its end; the error to end with.
    Lost(Error),
    /// The lock could not be removed; the observer and the trail have heard why.
    Stuck,
}

/// Why a claim ends, and what became of the work, for the audit.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseReason {
    /// The reason of the audit entry, in one word.
    pub reason: &'static str,
    /// The outcome of the work: a success or a failure.
    pub result: WorkOutcome,
}

impl ReleaseReason {
    /// A signal ended it before the command was there.
    pub const SIGNAL: Self = Self {
        reason: "signal",
        result: WorkOutcome::Failure,
    };
    /// The command was not started, and no signal was the cause.
    pub const NOT_STARTED: Self = Self {
        reason: "command_not_started",
        result: WorkOutcome::Failure,
    };
    /// Nobody has got to know of the claim.
    pub const NOT_HANDED_OVER: Self = Self {
        reason: "not_handed_over",
        result: WorkOutcome::Failure,
    };
    /// `release` was told its id.
    pub const RELEASED: Self = Self {
        reason: "released",
        result: WorkOutcome::Success,
    };
    /// `release` was told the claim's id, and that the work has failed.
    pub const RELEASED_AFTER_FAILURE: Self = Self {
        reason: "released",
        result: WorkOutcome::Failure,
    };
    /// The keeper's time was over.
    pub const MAX_HOLD: Self = Self {
        reason: "max_hold",
        result: WorkOutcome::Success,
    };
    /// The process that it was kept for has ended, and nobody has said that its work is done.
    pub const PROCESS_ENDED: Self = Self {
        reason: "process_ended",
        result: WorkOutcome::Failure,
    };
    /// A signal ended its keeper. A keeper that has seen a loss ends with this too.
    pub const KEEPER_SIGNAL: Self = Self {
        reason: "signal",
        result: WorkOutcome::Success,
    };

    /// The reason of a claim whose command was started and has ended.
    pub const COMMAND_ENDED: &'static str = "command_ended";

    /// The command has ended: a success where its exit code is 0.
    pub fn ended(ending: CommandEnd) -> Self {
        let result = if ending == CommandEnd::Exited(0) {
            WorkOutcome::Success
        } else {
            WorkOutcome::Failure
        };
        Self {
            reason: Self::COMMAND_ENDED,
            result,
        }
    }
}

impl ReleaseRequest<'_> {
    /// Releases, and says so; a failure is a warning that says what to type. A signal ends the wait for the gate: the
    /// lock is stale the moment its process is reaped. `known` is a loss that was seen before: then there is nothing to
    /// release, unless it is in the directory that was replaced.
    pub fn end(
        &self,
        held: Held,
        known: Option<Loss>,
        why: ReleaseReason,
        control: &mut dyn WaitControl,
    ) -> ReleaseOutcome {
        let (age, record, id) = (held.age(), held.record().clone(), held.id().to_owned());
        let is_in_place = known.is_none() && held.whereabouts() == Whereabouts::InPlace;
        let kept = (!is_in_place).then(|| held.broken_as()).flatten();
        // Before a release, which may hang.
        let lost = |loss: &Loss| {
            let error = loss.error(&id, kept.as_deref(), age, self.target);
            self.trail.lost(loss.as_str(), age, &record, &error);
            error
        };
        let lost_before = known.as_ref().map(lost);
        let done = match &known {
            Some(loss) if !loss.may_be_ours() => Ok(Release::Gone),
            _ => release(held, self.target.dir(), self.patience, control),
        };
        let rules = self.target.rules();
        match &done {
            _ if known.is_some() && !rules.lost_is_released => {}
            Ok(Release::Released) => {
                if known.is_none() {
                    let observer = self.trail.observer();
                    observer.notice(&Notice::WaitEnded);
                    observer.notice(&Notice::Released {
                        given: &self.target.given,
                        held: Some(age),
                        // The age of the claim is not in every lock; the words are its document's then.
                        document: rules
                            .released
                            .filter(|_| why.reason == ReleaseReason::RELEASED.reason),
                    });
                }
                // Work that goes on after a loss is not a success.
                let result = if known.is_some() {
                    WorkOutcome::Failure
                } else {
                    why.result
                };
                self.trail
                    .released((why.reason, result), age, &record, self.failure_step);
            }
            Ok(Release::Gone | Release::NotOurs(_)) => {}
            Err(failed) => {
                let error = &failed.1;
                let then = self.target.not_released(&record, error);
                self.trail
                    .observer()
                    .notice(&Notice::NotReleased { then: &then });
                self.trail.not_released(why.reason, age, &record, error);
            }
        }
        let error = match (lost_before, done) {
            (Some(error), _) => error,
            (None, Ok(Release::Gone | Release::NotOurs(_)))
                if is_in_place && self.enders == Enders::Several =>
            {
                return ReleaseOutcome::ByAnother;
            }
            (None, Ok(Release::Gone)) => lost(&Loss::Vanished),
            (None, Ok(Release::NotOurs(now))) => lost(&Loss::Changed(now)),
            (None, Ok(Release::Released)) => return ReleaseOutcome::Released,
            (None, Err(_)) => return ReleaseOutcome::Stuck,
        };
        self.trail.observer().notice(&Notice::WaitEnded);
        ReleaseOutcome::Lost(error)
    }

    /// Reports that the release hangs: the guard of the claim is blocked on the lock's file. `known` is a loss that was
    /// seen before, of the claim `id`.
    pub fn hangs(&self, known: Option<&Loss>, id: &str) {
        let then = self.target.rules().then_stale;
        self.trail.observer().notice(&Notice::ReleaseHangs {
            path: &self.target.path(),
            then,
        });
        let why = known
            .map(|loss| loss.cause(&self.target.path(), id, None))
            .unwrap_or_default();
        self.trail
            .hangs(known.map(|loss| (loss.as_str(), why.as_str())));
    }
}
