//! A claim on a lock without a record: it is taken here and kept by a process of its own, the lease keeper, which
//! shares the open lock file. A lock of the kernel needs a process that lives.

use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::LockMode;

use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::{
    kernel_lock::KernelLock, known_process::KnownProcess, nested::name_of, report::Report, signals::Signals,
    target::Target,
};
use crate::error::{Code, Error};
use crate::output::trail::Trail;
use crate::run::{lease_keeper, lease_keeper::LeaseKeeper, request::KeptLease, request::LeaseKeeperRequest};
use crate::settings::{Claim, environment::Environment};

/// What is to be kept, and for which process.
#[derive(Debug)]
pub struct KernelClaim<'a> {
    pub target: &'a Target,
    pub mode: LockMode,
    pub settings: &'a Claim,
    pub max_hold: Duration,
    /// The process that it is kept for; `None`: only time ends it.
    pub subject: Option<i32>,
    pub request: &'a str,
}

impl KernelClaim<'_> {
    /// Takes the lock, hands it to a keeper, and prints what names it by `tell`, which gets the id and the keeper's
    /// PID.
    pub fn acquire(
        &self,
        environment: &Environment,
        trail: &Trail<'_>,
        report: &mut Report,
        tell: impl FnOnce(&mut Report, &str, i32) -> Result<(), Error>,
    ) -> Result<(), Stopped> {
        let Self { target, mode, settings, .. } = *self;
        let (talk, given) = (trail.talk(), &target.given);
        let Some(kernel) = target.protocol.without_record() else { return Ok(()) };
        report.target = Some((target.name(), target.path()));
        kernel.note(target, talk);
        let begun = Instant::now();
        let mut signals = Signals::block()?;
        let mut attending = Attending::wait_of(&mut signals, talk, None);
        if let Some((outer, pid)) = kernel.outer(target, mode, environment)? {
            report.nested = true;
            report.waited = Some(Duration::ZERO);
            let id = name_of(&outer);
            report.id = Some(id.clone());
            talk.say_more(&format!("{given} is held by an outer claim ({outer}); this one releases nothing"));
            return Ok(tell(report, &id, pid)?);
        }
        let (wait, _) = settings.patience(target.protocol.default_wait());
        let lock = kernel.take(target, mode, wait, environment, &mut attending, trail)?;
        report.waited = Some(begun.elapsed());
        let keeper = self.keeper(&*lock)?;
        let (pid, id) = (keeper.pid(), lock.id_of(keeper.pid()));
        report.id = Some(id.clone());
        report.pid = Some(pid);
        if let Some(stopped) = attending.stopped() {
            return Err(stopped);
        }
        lock.acquired(&id, trail);
        tell(report, &id, pid)?;
        keeper.leave()?;
        lock.leave();
        talk.say(&format!("claimed {given}, kept by PID {pid}"));
        Ok(())
    }

    /// A keeper that shares the open lock file.
    fn keeper(&self, lock: &dyn KernelLock) -> Result<LeaseKeeper, Error> {
        let Some(file) = lock.file() else { return Err(Error::new(Code::Io, "there is no lock to keep")) };
        let request = LeaseKeeperRequest {
            lease: KeptLease::Kernel { mode: self.mode },
            target: self.target.absolute(),
            given: self.target.given.clone(),
            max_hold: self.max_hold,
            subject: self.subject.map(KnownProcess::of),
            request_id: self.request.to_owned(),
            audit: lease_keeper::absolute(self.settings.audit.as_deref()),
        };
        let mut keeper = LeaseKeeper::sharing(file, request)?;
        keeper.start()?;
        Ok(keeper)
    }
}
