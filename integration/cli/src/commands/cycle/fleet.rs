//! A cycle of a database that has joined a fleet: first the right in the fleet, then the gate. Both come when the
//! command's process is there: from the right on this process has threads, and does not fork any more. That process
//! inherits the directory before its gate is taken: the lock is the open file's.

use beadlock_claim::error::Problem;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::{ffi::OsString, fmt, time::Duration};

use beadlock_base::deadline::WorkDeadline;
use beadlock_base::helper::Helpers;
use beadlock_base::{open_directory::OpenDirectory, sys};
use beadlock_core::audit::Event;
use beadlock_core::{Cycle, Decision, Entered, Options};

use super::{CycleClaim, say_entered, skipped};
use crate::fleet::right::{HeldRight, NoRight};
use crate::fleet::{CYCLE_FLEET, Joined};
use beadlock_claim::audit_trail::AuditTrail;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::target::Target;
use beadlock_claim::{
    kept_lock::LossAlarm,
    loss::Loss,
    observe::{NotAcquired, WaitControl},
    release_request::ReleaseReason,
};
use beadlock_session::session_claim::{ClaimEnd, CommandProcess, SessionClaim, Watchfulness};
use beadlock_supervise::signals::Signals;

pub struct FleetCycle<'a> {
    target: Target,
    joined: Joined,
    options: Options,
    trail: &'a AuditTrail<'a>,
    helpers: Helpers,
    opened: Option<OpenDirectory>,
    inherited: Option<OwnedFd>,
    right: Option<HeldRight>,
    cycle: Option<CycleClaim<'a>>,
    skipped: Rc<RefCell<Option<Decision>>>,
}

impl fmt::Debug for FleetCycle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetCycle")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl<'a> FleetCycle<'a> {
    pub fn new(
        target: Target,
        joined: Joined,
        options: Options,
        trail: &'a AuditTrail<'a>,
        helpers: Helpers,
    ) -> Result<Self, Error> {
        let opened = OpenDirectory::open(target.dir())?;
        let failed = |error| Error::failed("make a descriptor for the command", &error);
        let inherited = Some(sys::to_pass_on(&opened).map_err(failed)?);
        let options = Options {
            has_fleet_right: true,
            ..options
        };
        let (opened, right, cycle, skipped) = (Some(opened), None, None, Rc::default());
        Ok(Self {
            target,
            joined,
            options,
            trail,
            helpers,
            opened,
            inherited,
            right,
            cycle,
            skipped,
        })
    }

    /// The cell that receives the decision when the cycle is skipped; empty until then.
    pub fn decision(&self) -> Rc<RefCell<Option<Decision>>> {
        Rc::clone(&self.skipped)
    }

    fn skip(&self, decision: Decision) -> NotAcquired {
        if let Decision::Skip(skip) = &decision {
            self.trail
                .write(Event::LockBlocked, |entry| entry.skip(skip));
        }
        let error = skipped(&decision);
        self.skipped.replace(Some(decision));
        error.into()
    }
}

impl SessionClaim for FleetCycle<'_> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn stands(&self) -> bool {
        self.cycle.is_some()
    }

    fn id(&self) -> Option<String> {
        None
    }

    fn is_nested(&self) -> bool {
        false
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let dir = || self.target.dir().into();
        let name = self.joined.mark.name.as_str().into();
        vec![
            ("BEADS_DIR", dir()),
            ("BEADLOCK_CYCLE", dir()),
            (CYCLE_FLEET, name),
        ]
    }

    fn ends_with_us(&self) -> bool {
        true
    }

    fn inherited(&self) -> Option<BorrowedFd<'_>> {
        self.inherited.as_ref().map(AsFd::as_fd)
    }

    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        // The command's process has it.
        self.inherited = None;
        let right = match HeldRight::obtain(&self.joined, control) {
            Ok(right) => right,
            Err(NoRight::Skipped(decision)) => return Err(self.skip(decision)),
            Err(NoRight::NotAcquired(stopped)) => return Err(stopped),
        };
        let right = self.right.insert(right);
        let Some(opened) = self.opened.take() else {
            return Ok(());
        };
        let cycle = match Cycle::enter_opened(Ok(opened), &self.options) {
            Entered::Cycle(cycle) => cycle,
            Entered::Skipped(decision) => return Err(self.skip(decision)),
        };
        if !right.is_of(&cycle) {
            let message = format!(
                "{} has left its fleet, or joined another, just now; try again",
                self.target.given
            );
            return Err(Error::new(Code::LockUnreadable, message)
                .retry_after(Duration::from_secs(1))
                .into());
        }
        say_entered(&cycle, self.trail);
        let cycle = CycleClaim::new(self.target.clone(), cycle, self.trail, self.helpers)?;
        self.cycle.insert(cycle).obtain(child, control)
    }

    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        let deadline = self.right.as_ref().map(HeldRight::deadline);
        deadline.map(|_| Watchfulness {
            deadline,
            ..Watchfulness::default()
        })
    }

    fn tell_deadlines(&mut self, hear: Box<dyn FnMut(WorkDeadline)>) {
        if let Some(right) = &self.right {
            right.tell_deadlines(hear);
        }
    }

    fn may_begin(&self) -> Result<(), Error> {
        let Some(why) = self.right.as_ref().and_then(HeldRight::over) else {
            return Ok(());
        };
        let message = format!(
            "the right to sync {} was lost before the cycle began: {why}",
            self.joined.mark.name
        );
        Err(Error::new(Code::FleetUnreachable, message).retry_after(Duration::from_secs(5)))
    }

    fn helper(&self) -> Option<i32> {
        self.cycle.as_ref().and_then(SessionClaim::helper)
    }

    fn guard(&self) -> Option<LossAlarm<'_>> {
        self.cycle.as_ref().and_then(SessionClaim::guard)
    }

    fn second_guard(&self) -> Option<LossAlarm<'_>> {
        self.right
            .as_ref()
            .map(|right| LossAlarm::Fleet(right.guard()))
    }

    fn left_behind(&self, names: &str) -> String {
        self.cycle
            .as_ref()
            .map_or_else(String::new, |cycle| cycle.left_behind(names))
    }

    /// The gate, then the right, are let go.
    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        failed_step: Option<&str>,
        signals: &mut Signals,
    ) -> ClaimEnd {
        let has_worked = why.reason == ReleaseReason::COMMAND_ENDED;
        let (of_fleet, of_gate) = match lost {
            Some(Loss::Fleet { why, .. }) => (Some(why), None),
            lost => (None, lost),
        };
        let ended = self
            .cycle
            .take()
            .map(|mut cycle| cycle.end(of_gate, why, failed_step, signals));
        let ended = ended.unwrap_or_default();
        let lost = self
            .right
            .take()
            .and_then(|right| right.end(of_fleet, has_worked, self.trail));
        ClaimEnd {
            lost: ended.lost.or(lost),
            ..ended
        }
    }
}
