//! A claim on a lock without a record: it is taken here and kept by a process of its own, the lease keeper, which
//! shares the open lock file. A lock of the kernel needs a process that lives.

use beadlock_claim::error::Problem;
use std::time::Instant;

use beadlock_core::record::file::Mode;

use super::Acquiring;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NotAcquired, WaitControl};
use beadlock_claim::report::Report;
use beadlock_claim::{kernel_lock::WithoutRecord, request::ClaimRequest};
use beadlock_session::interactive_wait::InteractiveWait;
use beadlock_session::lease_keeper::{KeptLease, LeaseKeeper};
use beadlock_supervise::signals::Signals;

impl Acquiring<'_> {
    /// Takes the lock, hands it to a keeper, and prints what names it.
    pub fn without_record(
        &self,
        request: &ClaimRequest,
        (kernel, mode): (&dyn WithoutRecord, Mode),
        subject: Result<Option<i32>, Error>,
        report: &mut Report,
    ) -> Result<(), NotAcquired> {
        let target = &request.target;
        let (talk, given) = (&self.common.talk, &target.given);
        let trail = &target.trail(
            self.settings.audit.as_deref(),
            (None, None),
            &self.common.request,
            talk,
        )?;
        let subject = subject?;
        self.warn_of_a_wrapper(subject);
        *report = Report::of(target);
        kernel.note(target, talk);
        let begun = Instant::now();
        let mut signals = Signals::block().map_err(Error::of_signals)?;
        let mut control = InteractiveWait::wait_of(&mut signals, talk, None);
        if let Some((outer, pid)) = kernel.outer(target, mode, self.environment)? {
            return Ok(self.tell_of_outer(target, &outer, pid, report)?);
        }
        let lock = kernel.take(
            target,
            mode,
            request.wait,
            self.environment,
            &mut control,
            trail,
        )?;
        report.waited = Some(begun.elapsed());
        let Some(file) = lock.file() else {
            return Err(Error::new(Code::Io, "there is no lock to keep").into());
        };
        let keeper_request = self.keeper_request(target, KeptLease::Kernel { mode }, subject);
        let mut keeper = LeaseKeeper::sharing(self.helpers, file, &keeper_request)?;
        keeper.start()?;
        let (pid, id) = (keeper.pid(), lock.id_of(keeper.pid()));
        report.id = Some(id.clone());
        report.pid = Some(pid);
        if let Some(stopped) = control.stop_reason() {
            return Err(stopped);
        }
        lock.acquired(&id, trail);
        self.tell(report, target, &id, pid)?;
        keeper.leave()?;
        lock.leave();
        talk.say(&format!("claimed {given}, kept by PID {pid}"));
        Ok(())
    }
}
