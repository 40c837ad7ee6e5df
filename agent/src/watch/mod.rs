//! The watcher: which databases changed, and whose lock went away (docs/design.md#when-a-cycle-runs).
//!
//! Marks, not events, are kept: a database has changed or not, its lock has gone or not, however many files were
//! written. While a cycle's command runs its database is muted: changes are taken for the command's own. A lock
//! that goes away is marked all the same.
//!
//! # The end of the mute
//! What the command wrote must have been seen before the mute ends, or it would start the next cycle. What has happened
//! is in inotify's queue at once, so it is enough that the watcher reads the queue to its end.

mod classify;
mod directories;
mod known;
mod problem;
mod report;
mod state;
mod turns;
mod watcher;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::classify::is_own_file;
use self::directories::{WatchedDirectories, has_gone, is_without_watcher};
pub(crate) use self::problem::WatchProblem;
pub(crate) use self::state::{Marks, WatchUpdate};
use self::state::{NOWHERE, SharedWatchState, WatchedDatabase};

/// A watcher that takes longer for an answer hangs, and is given up. It answers in microseconds; the end of thousands
/// of watched directories may take it seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Watches databases, each by its number in the settings. Without a watcher nothing is ever marked.
pub(crate) struct Watch {
    directories: Option<Arc<WatchedDirectories>>,
    shared: Arc<SharedWatchState>,
}

impl Watch {
    /// No watcher: the clock alone.
    pub(crate) fn none() -> Self {
        Self { directories: None, shared: Arc::default() }
    }

    /// A watcher that watches nothing yet.
    ///
    /// # Errors
    /// When the system gives none, for instance at `fs.inotify.max_user_instances`.
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::<SharedWatchState>::default();
        let directories = WatchedDirectories::new(Arc::clone(&shared), PATIENCE)?;
        Ok(Self { directories: Some(directories), shared })
    }

    /// The agent's own files, without links, are never a change from now on.
    pub(crate) fn mind(&self, own: &[PathBuf]) {
        self.shared.lock().own = own.to_vec();
    }

    /// Watches a database, again if the directory is another one than before. Cheap when all is as it was.
    /// Blocks for as long as it takes to walk through the directory. Where it cannot be watched is in the news, once
    /// for a directory; one that is not there is no error.
    pub(crate) fn ensure(&self, number: usize, dir: &Path) {
        if let Ok(seen) = fs::metadata(dir) {
            self.ensure_seen(number, dir, (seen.dev(), seen.ino()));
        }
    }

    /// The same, when its device and inode are known.
    pub(crate) fn ensure_seen(&self, number: usize, dir: &Path, inode: (u64, u64)) {
        let Some(directories) = &self.directories else { return };
        {
            let unknown = WatchedDatabase { inode: NOWHERE, is_muted: false, marks: Marks::default() };
            let mut state = self.shared.lock();
            let seen = state.databases.entry(number).or_insert(unknown);
            if std::mem::replace(&mut seen.inode, inode) == inode {
                return;
            }
        }
        match directories.watch(number, dir) {
            Ok(()) => {}
            // It went away meanwhile: again at the next cycle.
            Err(error) if has_gone(&error) => self.shared.lock().forget(number),
            Err(error) => {
                if is_without_watcher(&error) {
                    self.shared.lock().forget(number);
                }
                self.shared.is_wrong(WatchProblem::new(Some(number), &error));
            }
        }
    }

    /// Watches databases no longer. Blocks. When they are many, all others count as changed.
    pub(crate) fn unwatch(&self, numbers: &[usize]) {
        let Some(directories) = &self.directories else { return };
        {
            let mut state = self.shared.lock();
            for number in numbers {
                state.databases.remove(number);
            }
        }
        directories.unwatch(numbers);
    }

    /// From here on changes are the cycle's own. What was marked so far, the cycle is going to see.
    pub(crate) fn mute(&self, number: usize) {
        if let Some(seen) = self.shared.lock().databases.get_mut(&number) {
            seen.is_muted = true;
            seen.marks.changed = false;
        }
    }

    /// The cycle has itself removed a stale lock, before its work: that disappearance is no news.
    pub(crate) fn forget_lock_gone(&self, number: usize) {
        self.drain();
        if let Some(seen) = self.shared.lock().databases.get_mut(&number) {
            seen.marks.lock_gone = false;
        }
    }

    /// The cycle's work has ended: hears everything it wrote, then changes count again, also those of a directory that
    /// the cycle has put in the place of the old one. Blocks.
    pub(crate) fn unmute(&self, number: usize, dir: &Path) {
        self.drain();
        self.ensure(number, dir);
        if let Some(seen) = self.shared.lock().databases.get_mut(&number) {
            seen.is_muted = false;
        }
    }

    fn drain(&self) {
        if let Some(directories) = &self.directories {
            directories.drain();
        }
    }

    /// Returns when something was marked, perhaps by now taken.
    pub(crate) async fn news(&self) -> WatchUpdate {
        self.shared.wake.notified().await;
        std::mem::take(&mut self.shared.lock().news)
    }

    /// The marks of a database, and clears them.
    pub(crate) fn take(&self, number: usize) -> Marks {
        self.shared
            .lock()
            .databases
            .get_mut(&number)
            .map(|seen| std::mem::take(&mut seen.marks))
            .unwrap_or_default()
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests;
