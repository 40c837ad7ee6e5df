//! `beadlock acquire file:PATH`: the lock is taken here and kept by a process of its own, the keeper, which shares
//! the open lock file. An flock needs a process that lives.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use beadlock_checker::internal::dialect::file::{LockId, Mode, WAIT};
use beadlock_checker::internal::system_words;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::Subject;
use crate::claim::attendant::{Attendant, Attending, Stopped};
use crate::claim::nested::name_of;
use crate::claim::report::Report;
use crate::claim::signals::Signals;
use crate::claim::target::Target;
use crate::error::{Code, Error};
use crate::output::trail::Trail;
use crate::protocol::file::{FileLock, FileTarget, KEEPER, LockFile, nested, said, take};
use crate::settings::Claim;
use crate::settings::environment::Environment;
use crate::settings::wait::{Deadline, Wait};
use crate::words::{self, millis};

/// How long a keeper may take to be on its own.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is to be kept, and for whom.
#[derive(Debug)]
pub struct Order<'a> {
    pub target: &'a Target,
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
    let Order { mode, settings, .. } = *order;
    let target = &FileTarget::of_target(order.target);
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
    let mut keeper = Keeper::start(order, &lock)?;
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

/// A keeper that waits to be told that it is known. Dropped before that it is ended.
#[derive(Debug)]
struct Keeper {
    child: Child,
    /// The pipe that is its stdin.
    known: File,
    is_left: bool,
}

impl Keeper {
    fn start(order: &Order<'_>, lock: &FileLock) -> Result<Self, Error> {
        let failed = |error: io::Error| {
            Error::io(format!("failed to make the keeper: {}", words::of_no_process(&error)), error.kind())
        };
        let Some(file) = lock.file() else { return Err(Error::new(Code::Io, "there is no lock to keep")) };
        let (stdin, known) = io::pipe().map_err(failed)?;
        let (ready, stdout) = io::pipe().map_err(failed)?;
        let shared = file.as_fd().try_clone_to_owned().map_err(failed)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("beadlock").arg(KEEPER).args(words_of(order));
        command.stdin(Stdio::from(stdin)).stdout(stdout).stderr(Stdio::from(shared));
        let child = command.spawn().map_err(failed)?;
        drop(command); // It has the pipes' other ends.
        let known = File::from(std::os::fd::OwnedFd::from(known));
        let keeper = Self { child, known, is_left: false };
        has_begun(ready).map_err(failed)?;
        Ok(keeper)
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// It is known: from here on the lock is the keeper's alone. Returns once it has let the pipe go.
    fn leave(&mut self) -> Result<(), Error> {
        let told = self.known.write_all(&[1]);
        let deadline = Deadline::after(PATIENCE);
        let mut writer = [PollFd::new(self.known.as_fd(), PollFlags::empty())];
        while told.is_ok() && poll(&mut writer, PollTimeout::from(100_u8)) != Ok(1) && !deadline.is_over() {}
        if told.is_err() || !matches!(self.child.try_wait(), Ok(None)) {
            return Err(Error::new(Code::Io, "the keeper has ended, so nothing is claimed"));
        }
        self.is_left = true;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_left {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits for the one byte; it may take its time, and its end is the pipe's.
fn has_begun(mut ready: PipeReader) -> io::Result<()> {
    ready
        .read_exact(&mut [0])
        .map_err(|error| io::Error::other(format!("it has ended ({})", system_words(&error))))
}

/// As [`file_keeper`](super::file_keeper) reads them.
fn words_of(order: &Order<'_>) -> [OsString; 7] {
    let audit = order.settings.audit.as_deref().map(|path: &Path| std::path::absolute(path));
    let audit = audit.and_then(Result::ok).unwrap_or_default();
    let subject = order.subject.map(|pid| Subject::of(pid).to_string()).unwrap_or_default();
    [
        FileTarget::of_target(order.target).file().into(),
        order.target.typed.clone().into(),
        order.mode.as_str().into(),
        millis(order.max_hold).to_string().into(),
        subject.into(),
        order.request.into(),
        audit.into(),
    ]
}
