//! The watcher: which databases changed, and whose lock went away (docs/design.md#when-a-cycle-runs).
//!
//! Marks are kept, not events: a database has changed or not, its lock has gone or not. While a cycle's command runs,
//! its database is muted: changes are taken for the command's own. A lock that goes away is marked all the same.
//!
//! What the command wrote must be read before the mute ends, or it would start the next cycle. An event is in inotify's
//! queue at once, so it is enough that the watcher reads the queue to its end.

mod classify;
mod directories;
mod known;
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

use self::directories::{WatchedDirectories, has_gone, is_without_watcher};
pub(crate) use self::state::{Marks, WatchProblem, WatchUpdate};
use self::state::{NOWHERE, SharedWatchState, WatchedDatabase};

/// A watcher that takes longer for an answer hangs, and is given up. Normally it answers in microseconds; the end of
/// thousands of watched directories may take it seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Watches databases, each by its number. Without a watcher nothing is ever marked.
pub(crate) struct DatabaseWatch {
    directories: Option<Arc<WatchedDirectories>>,
    shared: Arc<SharedWatchState>,
}

impl DatabaseWatch {
    /// A watch without a watcher, which marks nothing.
    pub(crate) fn none() -> Self {
        Self {
            directories: None,
            shared: Arc::default(),
        }
    }

    /// # Errors
    /// When the system gives no watcher, for instance at `fs.inotify.max_user_instances`.
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::<SharedWatchState>::default();
        let directories = WatchedDirectories::new(Arc::clone(&shared), PATIENCE)?;
        Ok(Self {
            directories: Some(directories),
            shared,
        })
    }

    /// From now on the agent's own files, given without links, are never a change.
    pub(crate) fn mind(&self, own: &[PathBuf]) {
        self.shared.lock().own = own.to_vec();
    }

    /// Watches a database, anew when its directory is another one than before. Cheap when all is as it was; else it
    /// blocks for a walk through the directory. An error is in the news, once for a directory.
    pub(crate) fn ensure(&self, number: usize, dir: &Path) {
        if let Ok(seen) = fs::metadata(dir) {
            self.ensure_seen(number, dir, (seen.dev(), seen.ino()));
        }
    }

    /// Same as [`Self::ensure`], for a caller that knows the device and inode of the directory.
    pub(crate) fn ensure_seen(&self, number: usize, dir: &Path, inode: (u64, u64)) {
        let Some(directories) = &self.directories else {
            return;
        };
        {
            let unknown = WatchedDatabase {
                inode: NOWHERE,
                is_muted: false,
                marks: Marks::default(),
            };
            let mut state = self.shared.lock();
            let seen = state.databases.entry(number).or_insert(unknown);
            if std::mem::replace(&mut seen.inode, inode) == inode {
                return;
            }
        }
        let Err(error) = directories.watch(number, dir) else {
            return;
        };
        if has_gone(&error) || is_without_watcher(&error) {
            // The next cycle tries again.
            self.shared.lock().forget(number);
        }
        if !has_gone(&error) {
            self.shared
                .is_wrong(WatchProblem::new(Some(number), &error));
        }
    }

    /// Ends the watch of databases. Blocks. When they are many, all others count as changed.
    pub(crate) fn unwatch(&self, numbers: &[usize]) {
        let Some(directories) = &self.directories else {
            return;
        };
        let mut state = self.shared.lock();
        for number in numbers {
            state.databases.remove(number);
        }
        drop(state);
        directories.unwatch(numbers);
    }

    /// From here on changes are the cycle's own. The cycle is going to see what was marked so far.
    pub(crate) fn mute(&self, number: usize) {
        if let Some(seen) = self.shared.lock().databases.get_mut(&number) {
            seen.is_muted = true;
            seen.marks.changed = false;
        }
    }

    /// The cycle itself has removed a stale lock before its work: clears that mark.
    pub(crate) fn forget_lock_gone(&self, number: usize) {
        self.drain();
        if let Some(seen) = self.shared.lock().databases.get_mut(&number) {
            seen.marks.lock_gone = false;
        }
    }

    /// Ends the mute after everything that the cycle wrote was read. Watches the directory that the cycle may have put
    /// in the place of the old one. Blocks.
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

    /// Returns when something was marked; the marks may be taken by now.
    pub(crate) async fn news(&self) -> WatchUpdate {
        self.shared.wake.notified().await;
        std::mem::take(&mut self.shared.lock().news)
    }

    /// Takes the marks of a database, which clears them.
    pub(crate) fn take(&self, number: usize) -> Marks {
        let mut state = self.shared.lock();
        state
            .databases
            .get_mut(&number)
            .map(|seen| std::mem::take(&mut seen.marks))
            .unwrap_or_default()
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move and remove what they have made"
)]
mod tests;
