//! The claim of a session on a lock without a record. The lock belongs to beadlock, so that there is no work without
//! it: when beadlock is killed, the command and all that it has started are ended (docs/design.md#loss), and only then
//! is the lock free.

use std::{ffi::OsString, time::Duration};

use beadlock_core::record::file::Mode;

use super::session_claim::{ClaimEnd, CommandProcess, SessionClaim, Watchfulness};
use beadlock_claim::kernel_lock::{KernelLock, WithoutRecord};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::{
    audit_trail::AuditTrail, environment::Environment, error::Error, observe::Notice, wait::Wait,
};
use beadlock_claim::{
    kept_lock::LossAlarm,
    loss::Loss,
    outer::{HELD_IDS, ids_with},
    release_request::ReleaseReason,
    request::ClaimRequest,
    target::Target,
};
use beadlock_supervise::signals::Signals;

/// The claim of a session on a lock that the kernel keeps.
#[derive(Debug)]
pub struct KernelClaim<'a> {
    request: ClaimRequest,
    kernel: &'static dyn WithoutRecord,
    mode: Mode,
    trail: &'a AuditTrail<'a>,
    environment: &'a Environment,
    /// The id of the claim. Before the lock is taken it is the id that the command's environment gets.
    id: String,
    is_nested: bool,
    lock: Option<Box<dyn KernelLock>>,
}

impl<'a> KernelClaim<'a> {
    /// A claim on a lock of `kernel`. The lock file is made where it does not exist: the command's environment names
    /// it. Fails where the lock would wait for itself.
    pub fn new(
        request: ClaimRequest,
        kernel: &'static dyn WithoutRecord,
        mode: Mode,
        trail: &'a AuditTrail<'a>,
        environment: &'a Environment,
    ) -> Result<Self, Error> {
        let target = &request.target;
        kernel.note(target, trail.observer());
        let outer = kernel.outer(target, mode, environment)?;
        let is_nested = outer.is_some();
        let id = match outer {
            Some((id, _)) => id,
            None => kernel.id_to_be(target)?,
        };
        Ok(Self {
            request,
            kernel,
            mode,
            trail,
            environment,
            id,
            is_nested,
            lock: None,
        })
    }
}

impl SessionClaim for KernelClaim<'_> {
    fn target(&self) -> &Target {
        &self.request.target
    }

    fn id(&self) -> Option<String> {
        Some(self.id.clone())
    }

    fn is_nested(&self) -> bool {
        self.is_nested
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        vec![
            ("BEADLOCK_HELD_TARGET", self.request.target.exported.clone()),
            ("BEADLOCK_HELD_ID", self.id.clone().into()),
            (HELD_IDS, ids_with(&self.id, self.environment).into()),
        ]
    }

    fn ends_with_us(&self) -> bool {
        true
    }

    fn wait(&self) -> Wait {
        self.request.wait
    }

    fn wait_at_most(&mut self, left: Duration) {
        self.request.wait = self.request.wait.at_most(left);
    }

    fn obtain(
        &mut self,
        _child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        let Self {
            request: ClaimRequest { target, wait, .. },
            kernel,
            mode,
            trail,
            environment,
            ..
        } = self;
        let lock = kernel.take(target, *mode, *wait, environment, control, trail)?;
        (self.id, self.is_nested) = (lock.id(), lock.is_nested());
        if self.is_nested {
            let (given, id) = (&target.given, &self.id);
            trail.observer().notice(&Notice::Nested { given, id });
        } else {
            lock.acquired(&self.id, trail);
        }
        self.lock = Some(lock);
        Ok(())
    }

    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        let shares = self.lock.as_ref()?.file()?;
        Some(Watchfulness {
            shares: Some(shares),
            ..Watchfulness::default()
        })
    }

    fn guard(&self) -> Option<LossAlarm<'_>> {
        self.lock.as_ref().map(|lock| lock.guard())
    }

    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        _failed_step: Option<&str>,
        _: &mut Signals,
    ) -> ClaimEnd {
        let Some(lock) = self.lock.take() else {
            return ClaimEnd::default();
        };
        let held = (!lock.is_nested()).then(|| lock.age());
        let lost = lock.end(lost, why, self.trail);
        ClaimEnd {
            held,
            released: held.is_some() && lost.is_none(),
            lost,
        }
    }
}
