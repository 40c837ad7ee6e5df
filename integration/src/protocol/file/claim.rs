//! The claim of a session on a file. The flock belongs to beadlock, so that there is no work without it: when beadlock
//! is killed, the command and all that it has started are ended (docs/design.md#loss), and only then is the lock free.

use std::ffi::OsString;
use std::os::fd::AsFd;

use super::lock::{FileLock, take};
use super::open::LockFile;
use super::target::FileTarget;
use super::{LockId, Mode, Watch, ending, nested, said};
use crate::claim::attendant::{Attending, Stopped};
use crate::claim::keeping::Guard;
use crate::claim::leaving::Why;
use crate::claim::loss::Loss;
use crate::claim::nested::ids_with;
use crate::claim::session_claim::{CommandProcess, End, SessionClaim, Watchfulness};
use crate::claim::signals::Signals;
use crate::claim::target::Target;
use crate::error::Error;
use crate::output::trail::Trail;
use crate::settings::environment::Environment;
use crate::settings::wait::Wait;

/// A claim whose lock is an flock.
#[derive(Debug)]
pub struct FlockClaim<'a> {
    target: Target,
    file: FileTarget,
    mode: Mode,
    wait: Wait,
    trail: &'a Trail<'a>,
    environment: &'a Environment,
    /// Before the lock is taken, what the command's environment says.
    id: LockId,
    is_nested: bool,
    lock: Option<FileLock>,
}

impl<'a> FlockClaim<'a> {
    /// On the file of `target`. The lock file is made, where it does not exist: the command's environment names it.
    ///
    /// # Errors
    /// When the lock file cannot be opened, and inside the filter of an update of the file.
    pub fn new(
        target: Target,
        mode: Mode,
        wait: Wait,
        trail: &'a Trail<'a>,
        environment: &'a Environment,
    ) -> Result<Self, Error> {
        let file = FileTarget::of_target(&target);
        said::note(&file, trail.talk());
        let (device, inode) = LockFile::open(&file)?.inode();
        let outer = nested::outer(&file, (device, inode), mode, environment)?;
        let id = outer.unwrap_or(LockId { device, inode, pid: std::process::id().cast_signed() });
        let is_nested = outer.is_some();
        Ok(Self { target, file, mode, wait, trail, environment, id, is_nested, lock: None })
    }
}

impl SessionClaim for FlockClaim<'_> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn id(&self) -> Option<String> {
        Some(self.lock.as_ref().map_or(self.id, FileLock::id).to_string())
    }

    fn is_nested(&self) -> bool {
        self.lock.as_ref().map_or(self.is_nested, FileLock::is_nested)
    }

    fn variables(&self) -> Vec<(&'static str, OsString)> {
        let id = self.id.to_string();
        vec![
            ("BEADLOCK_HELD_TARGET", self.file.exported()),
            ("BEADLOCK_HELD_IDS", ids_with(&id, self.environment).into()),
            ("BEADLOCK_HELD_ID", id.into()),
        ]
    }

    fn ends_with_us(&self) -> bool {
        true
    }

    fn obtain(&mut self, _child: CommandProcess<'_>, attending: &mut Attending<'_>) -> Result<(), Stopped> {
        let (trail, talk) = (self.trail, self.trail.talk());
        let taken = take(&self.file, self.mode, self.wait, Some(self.environment), attending);
        talk.end_live();
        let lock = taken.inspect_err(|stopped| said::blocked(stopped, trail))?;
        let (given, id) = (&self.target.given, lock.id());
        match lock.is_nested() {
            true => talk.say_more(&format!("{given} is held by an outer claim ({id}); running under it")),
            false => said::acquired(&lock, &id.to_string(), trail),
        }
        self.lock = Some(lock);
        Ok(())
    }

    fn watched_by(&self) -> Option<Watchfulness<'_>> {
        let file = self.lock.as_ref()?.file()?;
        Some(Watchfulness { lease: None, shares: Some(file.as_fd()) })
    }

    fn guard(&self) -> Option<Guard<'_>> {
        self.lock.as_ref().map(|lock| Guard::Other(Box::new(Watch::over(lock))))
    }

    fn end(&mut self, lost: Option<Loss>, why: Why, _failed_step: Option<&str>, _: &mut Signals) -> End {
        let Some(lock) = self.lock.take() else { return End::default() };
        let is_ours = !lock.is_nested();
        let held = is_ours.then(|| lock.age());
        let lost = ending::end(lock, lost, why, self.trail);
        End { held, released: is_ours && lost.is_none(), lost }
    }
}
