//! The watch over a file's lock: its lock file was deleted or replaced, or the outer claim has ended
//! (docs/design.md#loss).
//!
//! Events of the lock file wake it, and so does the clock. One look proves nothing; the second, 100 ms later, does.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{thread::sleep, time::Duration};

use beadlock_checker::internal::dialect::file::LockId;
use nix::sys::inotify::AddWatchFlags;

use super::open::{Inode, LockFile, named_inode};
use super::{lock::FileLock, nested, target::FileTarget};
use crate::claim::loss::{CONFIRM, Loss, NET, NET_ALONE, SHORT};
use crate::{claim::event::Watcher, claim::protocol::WatchLock, settings::wait::Deadline};

pub fn now(target: &FileTarget, inode: Inode, outer: Option<LockId>) -> Option<Loss> {
    seen(target, inode, outer)?;
    sleep(CONFIRM);
    seen(target, inode, outer)
}

fn seen(target: &FileTarget, inode: Inode, outer: Option<LockId>) -> Option<Loss> {
    match named_inode(target) {
        None => Some(Loss::Vanished),
        Some(there) if there != inode => Some(Loss::OtherFile),
        Some(_) => outer.filter(|id| nested::standing(target, *id).is_none()).map(|_| Loss::OuterEnded),
    }
}

#[derive(Debug)]
pub struct Watch<'l> {
    lock: &'l FileLock,
    /// None at first: a command that ends at once is not worth the cost of ending them.
    events: Option<Watcher>,
    has_begun: bool,
    again: Deadline,
    is_suspected: bool,
}

impl<'l> Watch<'l> {
    /// Begins now: with a look, and soon with events.
    pub fn over(lock: &'l FileLock) -> Self {
        let again = Deadline::after(SHORT);
        Self { lock, events: None, has_begun: false, again, is_suspected: false }
    }

    /// Asks for events, by the open file where it is ours.
    fn begin(&mut self) {
        let flags = AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF;
        let number = |file: &LockFile| PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()));
        let paths: Vec<PathBuf> =
            self.lock.file().map(number).into_iter().chain([self.lock.lock_path().to_owned()]).collect();
        self.events = Watcher::over(&paths, flags);
    }
}

impl WatchLock for Watch<'_> {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().and_then(Watcher::fd)
    }

    fn left(&self) -> Duration {
        self.again.left()
    }

    fn look(&mut self, woken: bool) -> Option<Loss> {
        if woken && let Some(events) = &self.events {
            events.read(|_| ());
        }
        if !self.again.is_over() && (!woken || self.is_suspected) {
            return None;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin();
        }
        let loss = seen(self.lock.target(), self.lock.inode(), self.lock.outer());
        let net = if self.events.is_some() { NET } else { NET_ALONE };
        self.again = Deadline::after(if loss.is_some() { CONFIRM } else { net });
        let was_suspected = std::mem::replace(&mut self.is_suspected, loss.is_some());
        loss.filter(|_| was_suspected)
    }

    fn path(&self) -> &Path {
        self.lock.target().lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::event::wait_for;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn a_lock_file_that_is_deleted_is_noticed_within_a_second_and_a_touched_one_is_no_loss() {
        // A machine that stands still for a moment spoils one round; a fault spoils all of them.
        let took: Vec<Duration> = (0..5).map(|_| one_that_is_deleted()).take_while(|took| took.as_secs() > 0).collect();
        assert!(took.len() < 5, "{took:?}");
    }

    /// How long it takes until that is noticed.
    fn one_that_is_deleted() -> Duration {
        let top = tempfile::tempdir().unwrap();
        let lock = FileLock::exclusive(top.path().join("todo.json")).unwrap();
        let mut watch = Watch::over(&lock);
        let mut look = |limit: Duration| {
            let end = Instant::now() + limit;
            let mut woken = false;
            while Instant::now() < end {
                if let Some(loss) = watch.look(woken) {
                    return Some(loss);
                }
                [woken] = wait_for([watch.fd()], watch.left());
            }
            None
        };
        assert!(Command::new("touch").arg(lock.lock_path()).status().unwrap().success());
        assert_eq!(look(Duration::from_millis(300)), None);
        assert!(Command::new("rm").arg(lock.lock_path()).status().unwrap().success());
        let begun = Instant::now();
        assert_eq!(look(Duration::from_secs(20)), Some(Loss::Vanished));
        begun.elapsed()
    }
}
