//! The lock of a file as the claim engine asks for it: how it is taken, awaited and ended, and what is said and written
//! down of that.

use crate::error::Problem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs};

use beadlock_base::filesystem::shared_file_system;
use beadlock_core::Verdict;
use beadlock_core::audit::{Event, WorkOutcome};
use beadlock_core::gate_holders::GateHolders;
use serde_json::{Value, json};

use super::{
    File, FileLock, FileTarget, LockId, Mode, OpenLockFile, look, outer, refused::names, release,
    take,
};
use crate::error::{Code, Error, Exit};
use crate::kernel_lock::{KernelLock, KernelRelease, Observation, WithoutRecord};
use crate::loss::{Loss, LossWatcher, WatchStart};
use crate::observe::{NotAcquired, WaitControl};
use crate::words::{Part, to_type};
use crate::{
    audit_trail::AuditTrail,
    environment::Environment,
    kept_lock::LossAlarm,
    observe::{GateReach, Notice, Observer},
    release_request::ReleaseReason,
    target::Target,
    wait::Wait,
};

impl WithoutRecord for File {
    fn look(&self, target: &Target, gates: &GateHolders) -> Observation {
        look::at(&FileTarget::of_target(target), gates)
    }

    fn note(&self, target: &Target, observer: &dyn Observer) {
        note(&FileTarget::of_target(target), observer);
    }

    fn outer(
        &self,
        target: &Target,
        mode: Mode,
        environment: &Environment,
    ) -> Result<Option<(String, i32)>, Error> {
        let target = FileTarget::of_target(target);
        let inode = OpenLockFile::open(&target)?.inode();
        let outer = outer::outer(&target, inode, mode, environment)?;
        Ok(outer.map(|outer| (outer.to_string(), outer.pid)))
    }

    fn id_to_be(&self, target: &Target) -> Result<String, Error> {
        let (device, inode) = OpenLockFile::open(&FileTarget::of_target(target))?.inode();
        Ok(LockId {
            device,
            inode,
            pid: std::process::id().cast_signed(),
        }
        .to_string())
    }

    fn take(
        &self,
        target: &Target,
        mode: Mode,
        wait: Wait,
        environment: &Environment,
        control: &mut dyn WaitControl,
        trail: &AuditTrail<'_>,
    ) -> Result<Box<dyn KernelLock>, NotAcquired> {
        let taken = take(
            &FileTarget::of_target(target),
            mode,
            wait,
            Some(environment),
            control,
        );
        trail.observer().notice(&Notice::WaitEnded);
        Ok(Box::new(
            taken.inspect_err(|stopped| blocked(stopped, trail))?,
        ))
    }

    fn adopt(&self, target: &Target, mode: Mode, shared: fs::File) -> Option<Box<dyn KernelLock>> {
        Some(Box::new(FileLock::adopt(
            FileTarget::of_target(target),
            mode,
            shared,
        )?))
    }

    fn wait(
        &self,
        target: &Target,
        wait: Wait,
        environment: &Environment,
        control: &mut dyn WaitControl,
    ) -> Result<Duration, NotAcquired> {
        let (target, begun) = (FileTarget::of_target(target), Instant::now());
        if OpenLockFile::find(&target)?.is_some() {
            let lock = take(&target, Mode::Exclusive, wait, Some(environment), control);
            // The same words, and the code of a wait: nothing was to be claimed.
            let lock = lock.map_err(|stopped| match stopped {
                NotAcquired::Failed(error) if error.exit == Exit::FileHeld => Error {
                    code: Code::LockHeld,
                    exit: Exit::Conflict,
                    ..error
                }
                .into(),
                stopped => stopped,
            })?;
            if lock.is_nested() {
                let (shown, pid) = (target.shown(), FileLock::id(&lock).pid);
                let message = format!(
                    "{shown} is held by the hold that this runs in (PID {pid}): it would wait for itself"
                );
                return Err(Error::new(Code::LockHeld, message).into());
            }
        }
        Ok(begun.elapsed())
    }

    fn stands(&self, target: &Target, id: &str) -> bool {
        let known = release::claim_of(id);
        known.is_some_and(|known| outer::standing(&FileTarget::of_target(target), known).is_some())
    }

    fn process_of(&self, id: &str) -> Option<i32> {
        release::claim_of(id).map(|known| known.pid)
    }

    fn release(
        &self,
        target: &Target,
        id: &str,
        observer: &dyn Observer,
    ) -> Result<KernelRelease, Error> {
        release::release(&FileTarget::of_target(target), id, observer)
    }

    /// An flock cannot be taken from the process that has it: the answer says which process to end.
    fn not_to_break(&self, target: &Target, seen: &Observation) -> Error {
        if !matches!(seen.verdict, Verdict::Held(_)) {
            return Error::new(Code::LockFailed, seen.detail.clone());
        }
        let (given, names) = (&target.given, names(&seen.holders));
        let pids: Vec<OsString> = seen
            .holders
            .iter()
            .map(|holder| holder.pid.to_string().into())
            .collect();
        let end = match pids.is_empty() {
            true => "root sees whose it is: sudo beadlock status".to_owned(),
            false => format!(
                "when it is to end: {}",
                to_type("kill {}", &[Part::Words(pids)])
            ),
        };
        let message = format!(
            "{given} is locked by {names}, and an flock cannot be taken away: it is gone when its process has ended; \
             {end}; or wait: {}",
            to_type("beadlock wait {}", &[target.part()])
        );
        Error::new(Code::LockHeld, message).retry_on_a_lock_of(None)
    }
}

#[doc(hidden)]
impl KernelLock for FileLock {
    fn id(&self) -> String {
        Self::id(self).to_string()
    }

    fn id_of(&self, pid: i32) -> String {
        LockId {
            pid,
            ..Self::id(self)
        }
        .to_string()
    }

    fn is_nested(&self) -> bool {
        Self::is_nested(self)
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Self::file(self).map(AsFd::as_fd)
    }

    fn guard(&self) -> LossAlarm<'_> {
        LossAlarm::Watch(LossWatcher::over(self, WatchStart::FirstLook))
    }

    fn age(&self) -> Duration {
        Self::age(self)
    }

    fn acquired(&self, id: &str, trail: &AuditTrail<'_>) {
        trail.write(Event::LockAcquired, |entry| entry.lock(&record(self, id)));
    }

    fn leave(self: Box<Self>) {
        Self::leave(*self);
    }

    fn end(
        self: Box<Self>,
        known: Option<Loss>,
        why: ReleaseReason,
        trail: &AuditTrail<'_>,
    ) -> Option<Error> {
        if FileLock::is_nested(&self) {
            return known.map(|loss| self.lost(&loss));
        }
        let (age, given) = (FileLock::age(&self), self.target().given());
        let written = record(&self, &FileLock::id(&self).to_string());
        let lost = known
            .or_else(|| self.loss())
            .map(|loss| (self.lost(&loss), loss));
        drop(self);
        let Some((error, loss)) = lost else {
            trail.observer().notice(&Notice::Released {
                given: &given,
                held: Some(age),
                document: None,
            });
            trail.write(Event::LockReleased, |entry| {
                entry
                    .reason(why.reason)
                    .held_for(age)
                    .result(why.result)
                    .lock(&written)
            });
            return None;
        };
        trail.write(Event::LockLost, |entry| {
            let entry = entry
                .reason(loss.as_str())
                .detail(&error)
                .held_for(age)
                .lock(&written);
            entry.result(WorkOutcome::Failure)
        });
        Some(error)
    }
}

/// Warns the observer of a network file system, on which an flock may reach this machine or this mount only.
pub fn note(target: &FileTarget, observer: &dyn Observer) {
    if let Some(name) = shared_file_system(target.dir()) {
        observer.notice(&Notice::SharedFs {
            given: &target.given(),
            name,
            reach: GateReach::Flock,
        });
    }
}

/// Writes down that the wait for the lock ran out; nothing where it was stopped by anything else.
pub fn blocked(stopped: &NotAcquired, trail: &AuditTrail<'_>) {
    if let NotAcquired::Failed(error) = stopped
        && error.exit == Exit::FileHeld
    {
        trail.write(Event::LockBlocked, |entry| {
            entry.reason("flock_held").error(error)
        });
    }
}

/// The JSON of `lock` in the audit trail, in place of a record: the claim's `id`, and the mode.
pub fn record(lock: &FileLock, id: &str) -> Value {
    record_of(id, lock.mode())
}

/// The JSON of a lock in the audit trail, in place of a record: the claim's `id`, and the mode.
pub fn record_of(id: &str, mode: Mode) -> Value {
    json!({ "id": id, "mode": mode.as_str() })
}
