//! What a watch over a file's lock looks at: its lock file was deleted or replaced, or the outer claim has ended
//! (docs/design.md#loss).

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use super::{lock::FileLock, open::named_inode, outer};
use crate::loss::{Loss, LossSource, SeenLock};

#[doc(hidden)]
impl LossSource for FileLock {
    fn look(&self) -> SeenLock {
        match named_inode(self.target()) {
            None => SeenLock::Lost(Loss::Vanished),
            Some(there) if there != self.inode() => SeenLock::Lost(Loss::OtherFile),
            Some(_)
                if self
                    .outer()
                    .is_some_and(|id| outer::standing(self.target(), id).is_none()) =>
            {
                SeenLock::Lost(Loss::OuterEnded)
            }
            Some(_) => SeenLock::InPlace,
        }
    }

    fn path(&self) -> PathBuf {
        self.lock_path().to_owned()
    }

    fn pin(&self) -> Option<BorrowedFd<'_>> {
        self.file().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{LossWatcher, WatchStart};
    use beadlock_base::poll::wait_for;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn a_lock_file_that_is_deleted_is_noticed_within_a_second_and_a_touched_one_is_no_loss() {
        // A machine that stands still for a moment spoils one round; a fault spoils all of them.
        let took: Vec<Duration> = (0..5)
            .map(|_| one_that_is_deleted())
            .take_while(|took| took.as_secs() > 0)
            .collect();
        assert!(took.len() < 5, "{took:?}");
    }

    /// How long it takes until that is noticed.
    fn one_that_is_deleted() -> Duration {
        let top = tempfile::tempdir().unwrap();
        let lock = FileLock::exclusive(top.path().join("todo.json")).unwrap();
        let mut watch = LossWatcher::over(&lock, WatchStart::FirstLook);
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
        assert!(
            Command::new("touch")
                .arg(lock.lock_path())
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(look(Duration::from_millis(300)), None);
        assert!(
            Command::new("rm")
                .arg(lock.lock_path())
                .status()
                .unwrap()
                .success()
        );
        let begun = Instant::now();
        assert_eq!(look(Duration::from_secs(20)), Some(Loss::Vanished));
        begun.elapsed()
    }
}
