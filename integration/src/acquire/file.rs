//! `beadlock acquire file:PATH`: the lock is taken here and kept by a process of its own, the keeper, which shares
//! the open lock file. An flock needs a process that lives.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::file::{LockId, Mode, WAIT};

use super::keeper::{self, LeaseKeeper};
use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::known_process::KnownProcess;
use crate::claim::nested::name_of;
use crate::claim::report::Report;
use crate::claim::signals::Signals;
use crate::error::{Code, Error};
use crate::file::{FileLock, FileTarget, LockFile, nested, said, take};
use crate::output::trail::Trail;
use crate::run::request::{KeptLease, LeaseKeeperRequest};
use crate::settings::Claim;
use crate::settings::environment::Environment;
use crate::settings::wait::Wait;

/// What is to be kept, and for whom.
#[derive(Debug)]
pub struct Order<'a> {
    pub target: &'a FileTarget,
    pub mode: Mode,
    pub settings: &'a Claim,
    pub max_hold: Duration,
    /// The process that it is kept for; `None`: nobody but time ends it.
    pub subject: Option<i32>,
    pub request: &'a str,
}

/// Takes the lock, hands it to a keeper, and prints what names it by `tell`, which gets the id and the keeper's PID.
pub fn acquire(
    order: &Order<'_>,
    environment: &Environment,
    trail: &Trail<'_>,
    report: &mut Report,
    tell: impl FnOnce(&mut Report, &str, i32) -> Result<(), Error>,
) -> Result<(), Stopped> {
    let Order { target, mode, settings, .. } = *order;
    let talk = trail.talk();
    report.target = Some((target.given(), target.lock().to_owned()));
    said::note(target, talk);
    let begun = Instant::now();
    let mut signals = Signals::block()?;
    let mut attending = Attending::wait_of(&mut signals, talk, None);
    let inode = LockFile::open(target)?.inode();
    if let Some(outer) = nested::outer(target, inode, mode, environment)? {
        report.nested = true;
        report.waited = Some(Duration::ZERO);
        let id = name_of(&outer.to_string());
        report.id = Some(id.clone());
        let given = target.given();
        talk.say_more(&format!("{given} is held by an outer claim ({outer}); this one releases nothing"));
        return Ok(tell(report, &id, outer.pid)?);
    }
    let (wait, _) = settings.patience(Wait::UpTo(WAIT));
    let taken = take(target, mode, wait, Some(environment), &mut attending);
    talk.end_live();
    let lock = taken.inspect_err(|stopped| said::blocked(stopped, trail))?;
    report.waited = Some(begun.elapsed());
    let keeper = order.keeper(&lock)?;
    let (device, inode) = lock.inode();
    let id = LockId { device, inode, pid: keeper.pid() }.to_string();
    report.id = Some(id.clone());
    report.pid = Some(keeper.pid());
    if let Some(stopped) = attending.stopped() {
        return Err(stopped);
    }
    said::acquired(&lock, &id, trail);
    tell(report, &id, keeper.pid())?;
    let pid = keeper.pid();
    keeper.leave()?;
    lock.leave();
    talk.say(&format!("claimed {}, kept by PID {pid}", target.given()));
    Ok(())
}

impl Order<'_> {
    /// A keeper that shares the open lock file.
    fn keeper(&self, lock: &FileLock) -> Result<LeaseKeeper, Error> {
        let Some(file) = lock.file() else { return Err(Error::new(Code::Io, "there is no lock to keep")) };
        let target = self.target;
        let lease =
            KeptLease::Flock { file: target.file().into(), named: target.named().into(), mode: self.mode };
        let request = LeaseKeeperRequest {
            lease,
            given: target.given(),
            max_hold: self.max_hold,
            subject: self.subject.map(KnownProcess::of),
            request_id: self.request.to_owned(),
            audit: keeper::absolute(self.settings.audit.as_deref()),
        };
        let mut keeper = LeaseKeeper::sharing(file.as_fd(), request)?;
        keeper.start()?;
        Ok(keeper)
    }
}
