//! A claim that a command runs under: what is done for it before the command starts, while it runs, and at its end.

use std::{ffi::OsString, fmt, os::fd::BorrowedFd, time::Duration};

use beadlock_base::deadline::WorkDeadline;
use beadlock_claim::observe::{NotAcquired, WaitControl};

use beadlock_claim::lease::LeaseTimes;
use beadlock_claim::{error::Error, observe::Claimed, wait::Wait};
use beadlock_claim::{
    kept_lock::LossAlarm, loss::Loss, release_request::ReleaseReason, target::Target,
};
use beadlock_supervise::signals::Signals;
use beadlock_supervise::watchdog::OnRenewal;

/// One claim of a session. The session calls these in the order in which they stand here; of several claims each is
/// kept up before the next one is obtained.
pub trait SessionClaim: fmt::Debug {
    /// The target whose lock is claimed.
    fn target(&self) -> &Target;
    /// Whether the claim stands already before the command's process is made.
    fn stands(&self) -> bool {
        false
    }
    /// The id of the claim; the outer claim's where it is nested.
    fn id(&self) -> Option<String>;
    /// The name of the holder in the record.
    fn holder(&self) -> Option<String> {
        None
    }
    /// Whether the claim is a part of a claim that this process runs in already.
    fn is_nested(&self) -> bool;
    /// The variables that the claim adds to the command's environment.
    fn variables(&self) -> Vec<(&'static str, OsString)>;
    /// The added variables that are known only once the claim stands.
    fn late_variables(&self) -> Vec<(&'static str, OsString)> {
        Vec::new()
    }
    /// Whether the command must end when this process dies: there must be no work without beadlock.
    fn ends_with_us(&self) -> bool;
    /// How long the claim waits for another holder.
    fn wait(&self) -> Wait {
        Wait::No
    }
    /// From now on the claim waits for a holder no longer than this: other claims of the session have waited before.
    fn wait_at_most(&mut self, _left: Duration) {}
    /// An open file that the command inherits besides its streams; `None`: there is none.
    fn inherited(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Waits for the lock and takes it for the process that is to become the command. Nothing is held after an error.
    fn obtain(
        &mut self,
        child: CommandProcess<'_>,
        control: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired>;
    /// The key that orders the second steps of a session's claims; `None`: this claim has no second step.
    fn second_step(&self) -> Option<&str> {
        None
    }
    /// Takes the second step, once every claim of the session stands and is kept up. After an error the claim still
    /// stands.
    fn take_second_step(
        &self,
        _child: CommandProcess<'_>,
        _attending: &mut dyn WaitControl,
    ) -> Result<(), NotAcquired> {
        Ok(())
    }
    /// Keeps the claim up from now on. After an error the claim still stands.
    fn keep_up(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// The facts that the watchdog needs; `None`: the command needs no watchdog.
    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        None
    }
    /// From now on the watchdog is told of each heartbeat.
    fn tell(&self, _pulse: Box<dyn OnRenewal>) {}
    /// From now on the watchdog is told of each new deadline.
    fn tell_deadlines(&mut self, _hear: Box<dyn FnMut(WorkDeadline)>) {}
    /// Whether the command may execute now; the error says why not. Asked last, when everything else is ready.
    fn may_begin(&self) -> Result<(), Error> {
        Ok(())
    }
    /// The notice that the claim stands, for a holder with this PID.
    fn announcement<'a>(&'a self, holder: &'a str, pid: i32) -> Claimed<'a> {
        self.target().claimed(holder, pid)
    }
    /// A process of the claim itself, which does not belong to the command's tree.
    fn helper(&self) -> Option<i32> {
        None
    }
    /// The guard that tells of a loss of the claim while the command runs.
    fn guard(&self) -> Option<LossAlarm<'_>>;
    /// The guard that tells of a loss of the lock that the second step has taken; `None`: there is none.
    fn second_guard(&self) -> Option<LossAlarm<'_>> {
        None
    }
    /// The message about processes that the command has left behind, by their `names`.
    fn left_behind(&self, names: &str) -> String {
        format!(
            "the command left processes behind, and the lock is released now: {names}; to wait for them: --wait-group"
        )
    }
    /// Ends the claim; `lost` is a loss that was seen before, and `failed_step` the step of the work that has failed.
    fn end(
        &mut self,
        lost: Option<Loss>,
        why: ReleaseReason,
        failed_step: Option<&str>,
        signals: &mut Signals,
    ) -> ClaimEnd;
}

/// The process that is to become the command.
#[derive(Debug, Clone, Copy)]
pub struct CommandProcess<'a> {
    /// The PID, which the record of a claim gets.
    pub pid: i32,
    /// Whether the process leads a process group of its own.
    pub leads: bool,
    /// The command's name as a record has it where no other name is given.
    pub name: &'a str,
}

/// How a watchdog watches over a claim.
#[derive(Debug, Default)]
pub struct Watchfulness<'a> {
    /// The times of the heartbeats; `None`: there are none.
    pub lease: Option<LeaseTimes>,
    /// The deadline of its session in a fleet: from then on there must be no work.
    pub deadline: Option<WorkDeadline>,
    /// The open file that the watchdog shares, whose lock ends with the work.
    pub shares: Option<BorrowedFd<'a>>,
}

/// How a claim has ended.
#[derive(Debug, Default)]
pub struct ClaimEnd {
    /// How long the lock was held; `None`: the claim was nested, or had no lock to release.
    pub held: Option<Duration>,
    /// Whether the lock was released, here or by another process.
    pub released: bool,
    /// How the claim was lost, or its right in a fleet; `None`: it stood to its end.
    pub lost: Option<Error>,
}
