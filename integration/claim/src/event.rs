//! The events that wake a wait: the database's directory, the holder's end, the gate's helper, a signal; else time.

use crate::error::Problem;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{io, os::unix::ffi::OsStrExt, path::PathBuf};

use beadlock_base::sys;
use beadlock_core::Place;
use beadlock_core::look::Look;
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};

use crate::{error::Error, words};

/// The error of a process, thread or descriptor that the system does not give.
pub fn failed_to(what: &str, error: &io::Error) -> Error {
    Error::io(
        format!("failed to {what}: {}", words::of_no_process(error)),
        error.kind(),
    )
}

/// An eventfd, readable once another thread has written to it. The error begins with "failed to" and `what`.
pub(crate) fn bell(what: &str) -> Result<EventFd, Error> {
    let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
    bell.map_err(|errno| failed_to(what, &errno.into()))
}

/// An inotify instance, or none where the kernel refused one: then nothing is watched.
///
/// Closing it takes the kernel some milliseconds, sometimes tens of them: it waits until nobody can be looking at the
/// watches any more. That is done aside, lest a claim or a release waits for it.
#[derive(Debug)]
pub(crate) struct Watcher(Option<Inotify>);

impl Watcher {
    /// Watches the first of the paths that can be watched; `None` where none can.
    pub fn over(paths: &[PathBuf], flags: AddWatchFlags) -> Option<Self> {
        let watcher = Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok());
        watcher.and_over(paths, flags).then_some(watcher)
    }

    /// Watches the first of these paths that can be watched as well, and returns whether there is one.
    pub fn and_over(&self, paths: &[PathBuf], flags: AddWatchFlags) -> bool {
        self.0.as_ref().is_some_and(|inotify| {
            paths
                .iter()
                .any(|path| inotify.add_watch(path, flags).is_ok())
        })
    }

    pub fn read(&self, mut see: impl FnMut(&InotifyEvent)) {
        while let Some(Ok(events)) = self.0.as_ref().map(Inotify::read_events)
            && !events.is_empty()
        {
            events.iter().for_each(&mut see);
        }
    }

    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let inotify = self.0.take();
        // Where there is no thread to be had it is closed here.
        let _ = std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || drop(inotify));
    }
}

/// The events that may mean that a lock has ended.
#[derive(Debug)]
pub(crate) struct Events {
    /// None where the directory cannot be watched: the backoff is all there is then.
    directory: Option<Watcher>,
    /// None when the holder is not of this machine, or once it has fired.
    holder: Option<OwnedFd>,
    lock: OsString,
}

impl Events {
    /// Begins to watch the lock's directory. What happens before is not seen: look again afterwards.
    pub fn watch(place: &Place) -> Self {
        let flags = AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let directory = Watcher::over(&[place.dir().to_owned()], flags);
        Self {
            directory,
            holder: None,
            lock: OsStr::from_bytes(place.names().lock().to_bytes()).to_owned(),
        }
    }

    /// Waits for the end of the holder's process too, where it is one of this machine.
    pub fn watch_holder(&mut self, look: &Look) {
        let pid = look
            .record
            .as_ref()
            .and_then(|record| i32::try_from(record.pid()).ok());
        self.holder = pid
            .filter(|_| words::is_local_and_alive(look))
            .and_then(|pid| sys::pidfd_open(pid).ok());
    }

    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [
            self.directory.as_ref().and_then(Watcher::fd),
            self.holder.as_ref().map(AsFd::as_fd),
        ]
    }

    /// Forgets the holder's process, which has ended: a zombie would stay readable for as long as nobody reaps it.
    pub fn holder_has_ended(&mut self) {
        self.holder = None;
    }

    /// Reads what happened in the directory. True when it was about the lock, or when events were lost.
    pub fn lock_has_changed(&mut self) -> bool {
        let Some(directory) = &self.directory else {
            return false;
        };
        let mut changed = false;
        // Events without a name are about the directory itself, or say that the queue overflowed.
        directory
            .read(|event| changed |= event.name.as_ref().is_none_or(|name| *name == self.lock));
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_base::poll::wait_for;
    use std::{fs, time::Duration};

    #[test]
    fn the_lock_wakes_and_its_neighbours_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut events = Events::watch(&Place::beads(dir.path()));
        fs::write(dir.path().join("issues.jsonl"), "x").unwrap();
        assert!(
            wait_for(events.fds(), Duration::from_secs(5))[0],
            "something happened"
        );
        assert!(!events.lock_has_changed());
        fs::write(dir.path().join(".exclusive-lock"), "x").unwrap();
        assert!(wait_for(events.fds(), Duration::from_secs(5))[0]);
        assert!(events.lock_has_changed());
        fs::create_dir(dir.path().join("other")).unwrap();
        assert!(wait_for(events.fds(), Duration::from_secs(5))[0]);
        assert!(!events.lock_has_changed(), "read once");
    }

    #[test]
    fn a_directory_that_is_not_there_is_no_reason_to_fail() {
        let mut events = Events::watch(&Place::beads("/nowhere/at/all"));
        assert_eq!(
            wait_for(events.fds(), Duration::from_millis(1)),
            [false, false]
        );
        assert!(!events.lock_has_changed());
    }
}
