//! A file's lock, as a guard, and how it is taken.

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs::File, path::Path};

use beadlock_base::sys::process_id;
use beadlock_core::record::file::{LockId, Mode, WAIT};

use super::blocked::{Blocked, Got, WaitTarget};
use super::open::{FileId, Flocked, KernelWait, OpenLockFile, failed, named_inode};
use super::queue::Place;
use super::turn::{self, InTurn, Turn};
use super::{outer, refused, target::FileTarget};
use crate::observe::{NOTICE_AFTER, NotAcquired, TICK, Uninterrupted, WaitControl, WaitingFor};
use crate::released::{ReleaseError, Released};
use crate::wait::{Deadline, Wait};
use crate::{
    cancel_check::CancelCheck,
    environment::Environment,
    error::Error,
    loss::{self, Loss},
};
use beadlock_base::poll::wait_for;

#[cfg(doc)]
use crate::error::Code;

/// A file that is locked. [`FileLock::release`] ends it; dropping it is the net. It is `Send` and `Sync`: see
/// [`FileLock::detach`] for one that another thread than its maker's has.
#[derive(Debug)]
#[must_use = "dropping the lock lets it go at once"]
pub struct FileLock {
    target: FileTarget,
    mode: Mode,
    held: Held,
    wait: Wait,
    since: Instant,
    /// The thread that has the turn in this process.
    turns: Mutex<()>,
}

#[derive(Debug)]
enum Held {
    /// Held by this process. The flock ends first: who has the turn in this process then finds it free.
    Here(Flocked, Place),
    /// Held by the `hold` that this process runs in.
    There(LockId),
}

impl FileLock {
    /// A lock to be taken on the file at `path`, which need not be there. The file is found here and once: a symbolic
    /// link that leads elsewhere later, or another working directory, changes nothing for a [`Locking`] that was made
    /// before.
    pub fn on(path: impl AsRef<Path>) -> Locking {
        Locking::of(path.as_ref())
    }

    /// A lock to be taken on the file or the directory at `path` itself, as flock(1) takes it: `flock:PATH`. A file is made
    /// where none is, a directory is not. Under such a lock nothing is written: a write puts another file in the place of
    /// this one.
    pub fn itself(path: impl AsRef<Path>) -> Locking {
        Locking::itself(path.as_ref())
    }

    /// Takes the lock of the file at `path` for this process alone, as [`FileLock::on`] with its defaults. Fails as
    /// [`Locking::acquire`].
    pub fn exclusive(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::on(path).acquire()
    }

    /// Takes the lock of the file at `path` together with others that share it. Fails as [`Locking::acquire`].
    pub fn shared(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::on(path).shared().acquire()
    }

    /// The file: absolute, and no symbolic link itself. It need not be there.
    pub fn path(&self) -> &Path {
        self.target.file()
    }

    /// The lock file.
    pub fn lock_path(&self) -> &Path {
        self.target.lock()
    }

    /// How it is locked.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// `DEV:INODE:PID` of the lock file and of the process that has its flock: the outer hold's, when nested.
    pub fn id(&self) -> LockId {
        match &self.held {
            Held::Here(flocked, _) => id(flocked.file().inode(), process_id().cast_signed()),
            Held::There(outer) => *outer,
        }
    }

    /// Whether the lock belongs to the `hold` that this process runs in.
    pub fn is_nested(&self) -> bool {
        matches!(self.held, Held::There(_))
    }

    /// For how long it has been held here.
    pub fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// The lock file's device and inode.
    pub fn inode(&self) -> FileId {
        let LockId { device, inode, .. } = self.id();
        (device, inode)
    }

    /// Whether the lock still keeps others out: to be asked before a step that must not happen without it. Takes 100 ms
    /// when it does not. Fails with [`Code::LockLost`]: the lock file was deleted or replaced, or the outer hold is
    /// gone.
    pub fn still_held(&self) -> Result<(), Error> {
        match self.loss() {
            None => Ok(()),
            Some(loss) => Err(self.lost(&loss)),
        }
    }

    /// How the lock was lost; `None`: it still keeps others out. Takes 100 ms when it does not.
    pub fn loss(&self) -> Option<Loss> {
        loss::now(self)
    }

    /// The error of a loss.
    pub fn lost(&self, loss: &Loss) -> Error {
        loss.error("", None, self.age(), &self.target.to_target())
    }

    /// The lock, for another thread to have: this one may then wait for it. Without that, the thread that has taken a
    /// lock is refused a second one, for it would wait for itself.
    pub fn detach(self) -> Self {
        if let Held::Here(_, place) = &self.held {
            place.detach();
        }
        self
    }

    /// The claim that this one stands under.
    pub fn outer(&self) -> Option<LockId> {
        match &self.held {
            Held::Here(..) => None,
            Held::There(outer) => Some(*outer),
        }
    }

    /// Waits for this one's turn among all who work on the file under the same lock, in other processes of the same
    /// hold and in threads of this one: for each read-modify-write. Waits as long as the lock was to be waited for; for
    /// threads of this process without end.
    ///
    /// # Errors
    /// [`Code::LockFailed`] when the wait ran out, or where a nested one may not write the lock file;
    /// [`Code::LockLost`] when that is another by now.
    pub fn turn(&self) -> Result<Turn<'_>, Error> {
        let thread = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) =
            OpenLockFile::find(&self.target)?.filter(|file| file.inode() == self.inode())
        else {
            return Err(self.lost(&Loss::OtherFile));
        };
        if !file.is_writable() {
            return match self.held {
                Held::There(_) => Err(turn::not_writable(&self.target)),
                // What is nested here cannot take turns either.
                Held::Here(..) => Ok(Turn {
                    _file: None,
                    _thread: thread,
                }),
            };
        }
        let cannot = |error: std::io::Error| failed(&self.target, &error);
        let inode = file.inode();
        let file = match InTurn::take(file, KernelWait::Try).map_err(cannot)? {
            Ok(file) => file,
            Err(_) => self.wait_for_turn(inode)?,
        };
        Ok(Turn {
            _file: Some(file),
            _thread: thread,
        })
    }

    fn wait_for_turn(&self, inode: FileId) -> Result<InTurn, Error> {
        let deadline = Deadline::after(self.wait.limit());
        let blocked = Blocked::on(&self.target, WaitTarget::Turn(inode), inode)?;
        loop {
            match blocked.got() {
                Some(Ok(Got::Turn(file))) => return Ok(file),
                Some(Err(error)) => return Err(error),
                Some(Ok(Got::Lock(_))) | None => {}
            }
            if deadline.is_over() {
                return Err(refused::timed_out(&self.target, self.wait));
            }
            wait_for([Some(blocked.bell())], deadline.left());
        }
    }

    /// A lock that another process has taken and shares with this one as an open file.
    pub fn adopt(target: FileTarget, mode: Mode, file: File) -> Option<Self> {
        let file = OpenLockFile::of(file)?;
        let place = Place::alone(file.inode(), mode)?;
        let held = Held::Here(Flocked::of(file), place);
        let (wait, since) = (Wait::No, Instant::now());
        Some(Self {
            target,
            mode,
            held,
            wait,
            since,
            turns: Mutex::new(()),
        })
    }

    /// Leaves the lock to the process that shares the open file.
    pub fn leave(self) {
        if let Held::Here(flocked, _) = self.held {
            flocked.leave();
        }
    }

    /// The open lock file, to share it; `None`: it is another process's.
    pub fn file(&self) -> Option<&OpenLockFile> {
        match &self.held {
            Held::Here(flocked, _) => Some(flocked.file()),
            Held::There(_) => None,
        }
    }

    /// The file that is locked, and its lock file.
    pub fn target(&self) -> &FileTarget {
        &self.target
    }

    /// Ends the lock. It is gone in any case; a nested one goes on. Fails with [`Code::LockLost`], as
    /// [`FileLock::still_held`], where it had not stood until now.
    pub fn release(self) -> Result<Released, ReleaseError<Self>> {
        match self.still_held() {
            Ok(()) if self.is_nested() => Ok(Released::GoesOn),
            Ok(()) => Ok(Released::Ended),
            Err(lost) => Err(ReleaseError::of(lost, None)),
        }
    }
}

fn id((device, inode): FileId, pid: i32) -> LockId {
    LockId { device, inode, pid }
}

/// Takes the lock, waiting for its holder; `environment` tells of an outer hold, `None`: that of this process. Fails as
/// [`Locking::acquire`]; or the wait's control has stopped it.
pub fn take(
    target: &FileTarget,
    mode: Mode,
    wait: Wait,
    environment: Option<&Environment>,
    control: &mut dyn WaitControl,
) -> Result<FileLock, NotAcquired> {
    let locked = |held| {
        let (target, since, turns) = (target.clone(), Instant::now(), Mutex::new(()));
        FileLock {
            target,
            mode,
            held,
            wait,
            since,
            turns,
        }
    };
    // No clock is read where nobody is in the way.
    let mut begun = None;
    let begin = || (Instant::now(), Deadline::after(wait.limit()));
    let mut is_outer_known = false;
    loop {
        let file = OpenLockFile::open(target)?;
        let inode = file.inode();
        let Some(place) = Place::join(inode, mode) else {
            return Err(refused::twice(target).into());
        };
        if place.bell()?.is_some() {
            let begun = *begun.get_or_insert_with(begin);
            if !wait_for_turn(target, wait, (&place, inode), begun, control)? {
                continue;
            }
        }
        let pin = match file
            .flock(mode, KernelWait::Try)
            .map_err(|error| failed(target, &error))?
        {
            // Else somebody has deleted or replaced it in between.
            Ok(flocked) if flocked.file().is_named_by(target) => {
                begun
                    .into_iter()
                    .for_each(|(at, _): (Instant, _)| control.waited(at.elapsed()));
                place.holds();
                return Ok(locked(Held::Here(flocked, place)));
            }
            Ok(_) => continue,
            Err(busy) => busy,
        };
        if !is_outer_known {
            is_outer_known = true;
            let environment = environment.cloned().unwrap_or_else(Environment::read);
            if let Some(outer) = outer::outer(target, inode, mode, &environment)? {
                return Ok(locked(Held::There(outer)));
            }
        }
        let begun = *begun.get_or_insert_with(begin);
        let waited = wait_for_lock(target, (mode, wait), inode, begun, control)?;
        // It has kept the number taken that stands in the queue.
        drop(pin);
        if let Some(flocked) = waited {
            control.waited(begun.0.elapsed());
            let here = flocked.file().inode();
            let place = if here == inode {
                place.holds();
                place
            } else {
                Place::first(here, mode)
            };
            return Ok(locked(Held::Here(flocked, place)));
        }
    }
}

/// Waits until nobody in this process is before this place. False: another file has the lock file's name by now.
fn wait_for_turn(
    target: &FileTarget,
    wait: Wait,
    (place, inode): (&Place, FileId),
    (at, deadline): (Instant, Deadline),
    control: &mut dyn WaitControl,
) -> Result<bool, NotAcquired> {
    let mut notice = Deadline::after(NOTICE_AFTER.saturating_sub(at.elapsed()));
    while let Some(bell) = place.bell()? {
        if deadline.is_over() {
            return Err(refused::timed_out(target, wait).into());
        }
        if notice.is_over() {
            if named_inode(target) != Some(inode) {
                return Ok(false);
            }
            tell(target, at, deadline, control)?;
            notice = Deadline::after(TICK);
        }
        let limit = deadline.left().min(notice.left());
        let [_, signalled] = wait_for([Some(bell.as_fd()), control.signals()], limit);
        // Rung once: another one may have come in between.
        let _ = bell.read();
        control.check_stop(signalled)?;
    }
    Ok(true)
}

/// Tells the wait's control whom it waits for.
fn tell(
    target: &FileTarget,
    at: Instant,
    deadline: Deadline,
    control: &mut dyn WaitControl,
) -> Result<(), NotAcquired> {
    let (file, holders) = (target.shown(), refused::Holders(target));
    control.waiting(&WaitingFor::Kernel {
        file: &file,
        holders: &holders,
        since: at.elapsed(),
        left: deadline.left(),
    })
}

/// Waits for the holder of the lock file `inode`. `None`: another file has its name by now, which may be free.
fn wait_for_lock(
    target: &FileTarget,
    (mode, wait): (Mode, Wait),
    inode: FileId,
    (at, deadline): (Instant, Deadline),
    control: &mut dyn WaitControl,
) -> Result<Option<Flocked>, NotAcquired> {
    if deadline.is_over() {
        return Err(refused::timed_out(target, wait).into());
    }
    let blocked = Blocked::on(target, WaitTarget::Lock(mode), inode)?;
    let mut notice = Deadline::after(NOTICE_AFTER.saturating_sub(at.elapsed()));
    loop {
        match blocked.got() {
            Some(Ok(Got::Lock(flocked))) => return Ok(Some(flocked)),
            Some(Err(error)) => return Err(error.into()),
            Some(Ok(Got::Turn(_))) | None => {}
        }
        if deadline.is_over() {
            return Err(refused::timed_out(target, wait).into());
        }
        if notice.is_over() {
            if named_inode(target) != Some(blocked.inode()) {
                return Ok(None);
            }
            tell(target, at, deadline, control)?;
            notice = Deadline::after(TICK);
        }
        let limit = deadline.left().min(notice.left());
        let [_, signalled] = wait_for([Some(blocked.bell()), control.signals()], limit);
        control.check_stop(signalled)?;
    }
}

/// A lock to be taken: on which file, how, and how patiently. 30 seconds and [`Mode::Exclusive`] unless told otherwise.
/// It can be taken any number of times, one after the other.
#[derive(Debug, Clone)]
#[must_use = "nothing is locked before `acquire`"]
pub struct Locking {
    /// Found once, so that nothing but the lock itself is left to be done each time.
    target: Result<FileTarget, Error>,
    mode: Mode,
    wait: Wait,
}

impl Locking {
    pub(crate) fn of(path: &Path) -> Self {
        Self::found(FileTarget::of(path))
    }

    fn itself(path: &Path) -> Self {
        Self::found(FileTarget::itself(path))
    }

    fn found(target: Result<FileTarget, Error>) -> Self {
        Self {
            target,
            mode: Mode::Exclusive,
            wait: Wait::UpTo(WAIT),
        }
    }

    /// The permissions of a lock file that is made, such as `0o660`, whatever the umask is. One that is there keeps its
    /// own.
    pub fn permissions(mut self, mode: u32) -> Self {
        self.target = self.target.map(|target| target.with_permissions(mode));
        self
    }

    /// For how long a holder is waited for.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Takes the lock together with others that share it; for readers.
    pub fn shared(mut self) -> Self {
        self.mode = Mode::Shared;
        self
    }

    /// Takes the lock for this process, which has one at a time, or several that are shared: threads that ask for the
    /// same file wait for each other, first come, first served. Inside a `beadlock hold` of the same file that one's
    /// lock is used, and nothing is released by this guard.
    ///
    /// # Errors
    /// [`Code::LockFailed`] when the wait ran out, when the lock file cannot be opened, or, at once, when this thread
    /// has taken the lock and not released it; [`Code::NoTarget`] where there is no directory, [`Code::Usage`] for
    /// anything but a file.
    pub fn acquire(&self) -> Result<FileLock, Error> {
        Ok(take(
            self.target()?,
            self.mode,
            self.wait,
            None,
            &mut Uninterrupted,
        )?)
    }

    /// [`Locking::acquire`], and every 50 ms of a wait `is_over` is asked whether that is over. `None`: it said so, and
    /// nothing is locked. Fails as [`Locking::acquire`].
    pub fn acquire_unless(
        &self,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Option<FileLock>, Error> {
        match take(
            self.target()?,
            self.mode,
            self.wait,
            None,
            &mut CancelCheck::whether(&mut is_over),
        ) {
            Ok(lock) => Ok(Some(lock)),
            Err(NotAcquired::Signalled(_)) => Ok(None),
            Err(NotAcquired::Failed(error)) => Err(error),
        }
    }

    fn target(&self) -> Result<&FileTarget, Error> {
        self.target.as_ref().map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests;
