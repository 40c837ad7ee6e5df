//! What wakes a wait: the database's directory, the holder's end, the gate's helper, a signal; else time.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::thread::sleep;
use std::time::Duration;

use beadlock_checker::{Look, Place, sys};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::words;

/// Waits until one of the descriptors is readable, or for `limit`; a signal's handler ends it too. Answers which
/// are readable.
pub fn wait_for<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], limit: Duration) -> [bool; N] {
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    // Rounded up, lest the last millisecond is spent spinning; cut to an hour, after which the caller comes again.
    let millis = limit
        .as_millis()
        .saturating_add(u128::from(!limit.subsec_nanos().is_multiple_of(1_000_000)))
        .min(3_600_000);
    let timeout =
        PollTimeout::try_from(u32::try_from(millis).unwrap_or(u32::MAX)).unwrap_or(PollTimeout::MAX);
    if let Err(errno) = poll(&mut polled, timeout) {
        // EINTR is no event. Anything else must not become a spin.
        if errno != Errno::EINTR {
            sleep(limit.min(Duration::from_millis(50)));
        }
        return [false; N];
    }
    let mut answers = polled.iter().map(|fd| fd.any().unwrap_or(true));
    fds.map(|fd| fd.is_some() && answers.next().unwrap_or(false))
}

/// The events that may mean that a lock has ended.
#[derive(Debug)]
pub struct Events {
    /// None where the directory cannot be watched: the backoff is all there is then.
    directory: Option<Inotify>,
    /// None when the holder is not of this machine, or once it has fired.
    holder: Option<OwnedFd>,
    /// What the lock file is called.
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
        let directory = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok();
        let directory = directory.filter(|inotify| inotify.add_watch(place.dir(), flags).is_ok());
        Self { directory, holder: None, lock: OsStr::from_bytes(place.names().lock().to_bytes()).to_owned() }
    }

    /// Waits for the end of the holder's process too, where it is one of this machine.
    pub fn watch_holder(&mut self, look: &Look) {
        let pid = look.record.as_ref().and_then(|record| i32::try_from(record.pid).ok());
        self.holder =
            pid.filter(|_| words::is_local_and_alive(look)).and_then(|pid| sys::pidfd_open(pid).ok());
    }

    /// The descriptors to wait for.
    pub fn fds(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.directory.as_ref().map(AsFd::as_fd), self.holder.as_ref().map(AsFd::as_fd)]
    }

    /// The holder's process has ended: said once, for a zombie stays readable for as long as nobody reaps it.
    pub fn holder_has_ended(&mut self) {
        self.holder = None;
    }

    /// Reads what happened in the directory. True when it was about the lock, or when events were lost.
    pub fn lock_has_changed(&mut self) -> bool {
        let Some(directory) = &self.directory else { return false };
        let mut changed = false;
        while let Ok(events) = directory.read_events() {
            if events.is_empty() {
                break;
            }
            // Events without a name are about the directory itself, or say that the queue overflowed.
            changed |= events.iter().any(|event| event.name.as_ref().is_none_or(|name| *name == self.lock));
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lock_wakes_and_its_neighbours_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let mut events = Events::watch(&Place::beads(dir.path()));
        fs::write(dir.path().join("issues.jsonl"), "x").unwrap();
        assert!(wait_for(events.fds(), Duration::from_secs(5))[0], "something happened");
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
        assert_eq!(wait_for(events.fds(), Duration::from_millis(1)), [false, false]);
        assert!(!events.lock_has_changed());
    }
}
