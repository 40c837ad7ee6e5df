//! What the watcher has reported so far: marks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::classify::{What, classify};
use super::problem::WatchProblem;

/// What became of a database since it was last asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) changed: bool,
    pub(crate) lock_gone: bool,
}

/// What there is to do after [`Watch::news`](super::Watch::news).
#[derive(Debug, Default)]
pub(crate) struct WatchUpdate {
    /// Databases that have marks: [`Watch::take`](super::Watch::take).
    pub(crate) marked: Vec<usize>,
    /// What is wrong with the watcher.
    pub(crate) wrong: Vec<WatchProblem>,
    /// How often events were lost.
    pub(crate) resyncs: u64,
}

#[derive(Default)]
pub(super) struct SharedWatchState {
    state: Mutex<WatchState>,
    pub(super) wake: Notify,
}

#[derive(Default)]
pub(super) struct WatchState {
    /// By number.
    pub(super) databases: BTreeMap<usize, WatchedDatabase>,
    pub(super) news: WatchUpdate,
    /// The one log of all databases and the audit trail, which may lie in one of them.
    pub(super) own: Vec<PathBuf>,
}

/// The inode of no directory.
pub(super) const NOWHERE: (u64, u64) = (0, 0);

#[derive(Debug)]
pub(super) struct WatchedDatabase {
    pub(super) inode: (u64, u64),
    pub(super) is_muted: bool,
    pub(super) marks: Marks,
}

impl SharedWatchState {
    pub(super) fn lock(&self) -> MutexGuard<'_, WatchState> {
        lock(&self.state)
    }

    /// Marks a database for something at this path in it.
    pub(super) fn mark(&self, number: usize, database: &Path, path: &Path, is_gone: bool) {
        if self.lock().mark(number, database, path, is_gone) {
            self.wake.notify_one();
        }
    }

    /// Reports were lost.
    pub(super) fn resync(&self) {
        self.lock().resync();
        self.wake.notify_one();
    }

    /// Something is wrong with the watcher.
    pub(super) fn is_wrong(&self, wrong: WatchProblem) {
        self.lock().news.wrong.push(wrong);
        self.wake.notify_one();
    }
}

impl WatchState {
    /// Reports were lost, perhaps of new directories: everything may have changed, and is to be watched anew. The
    /// muted may have lost the end of a claim, which nothing would ever repeat.
    fn resync(&mut self) {
        self.news.resyncs += 1;
        for seen in self.databases.values_mut() {
            seen.inode = NOWHERE;
            seen.marks.lock_gone |= seen.is_muted;
        }
        self.mark_all();
    }

    /// The directory is to be watched anew.
    pub(super) fn forget(&mut self, number: usize) {
        if let Some(seen) = self.databases.get_mut(&number) {
            seen.inode = NOWHERE;
        }
    }

    /// Marks all but the muted, whose own flood it most likely was: marked they would run for ever.
    fn mark_all(&mut self) {
        for (number, seen) in self.databases.iter_mut().filter(|(_, seen)| !seen.is_muted) {
            seen.marks.changed = true;
            self.news.marked.push(*number);
        }
    }

    /// Marks a database for something at this path in it. True when that is news.
    fn mark(&mut self, number: usize, dir: &Path, path: &Path, is_gone: bool) -> bool {
        let Some(what) = classify(dir, path, is_gone, &self.own) else { return false };
        if what == What::DirectoryGone {
            // Its inode number may come back with another directory.
            self.forget(number);
        }
        let Some(seen) = self.databases.get_mut(&number) else { return false };
        let mark = match what {
            What::LockGone => &mut seen.marks.lock_gone,
            What::Changed | What::DirectoryGone if seen.is_muted => return false,
            What::Changed | What::DirectoryGone => &mut seen.marks.changed,
        };
        if std::mem::replace(mark, true) {
            return false;
        }
        self.news.marked.push(number);
        true
    }
}

/// A poisoned state is as good as before: every change to it is one assignment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
