//! The reports of the watcher so far: marks of the databases, and problems of the watcher.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use tokio::sync::Notify;

use super::classify::{ChangeKind, classify};

/// The changes of a database since its marks were last taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) changed: bool,
    pub(crate) lock_gone: bool,
}

/// The result of [`DatabaseWatch::news`](super::DatabaseWatch::news).
#[derive(Debug, Default)]
pub(crate) struct WatchUpdate {
    /// Databases that have marks, for [`DatabaseWatch::take`](super::DatabaseWatch::take).
    pub(crate) marked: Vec<usize>,
    /// Problems of the watcher since the last update.
    pub(crate) wrong: Vec<WatchProblem>,
    /// How often events were lost.
    pub(crate) resyncs: u64,
}

/// A problem of the watcher: its cause, and what to do. The scheduler logs each once.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WatchProblem {
    /// The number of the database; `None`: the problem concerns all databases.
    pub(crate) database: Option<usize>,
    pub(crate) why: String,
}

impl WatchProblem {
    /// From an error that came up with a database, or with none. A limit that is reached concerns all.
    pub(crate) fn new(database: Option<usize>, error: &io::Error) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw);
        let limit = match errno {
            Some(Errno::ENOSPC) => Some("watches is reached; raise fs.inotify.max_user_watches"),
            Some(Errno::EMFILE) => {
                Some("instances is reached; raise fs.inotify.max_user_instances")
            }
            _ => None,
        };
        let why = match (limit, errno) {
            (Some(limit), _) => format!("the limit of inotify {limit}"),
            (None, Some(errno)) => errno.desc().to_lowercase(),
            (None, None) => error.to_string(),
        };
        Self {
            database: database.filter(|_| limit.is_none()),
            why,
        }
    }
}

#[derive(Default)]
pub(super) struct SharedWatchState {
    state: Mutex<WatchState>,
    pub(super) wake: Notify,
}

#[derive(Default)]
pub(super) struct WatchState {
    /// The watched databases, by number.
    pub(super) databases: BTreeMap<usize, WatchedDatabase>,
    pub(super) news: WatchUpdate,
    /// The shared log, the audit trail and the socket, which may lie in a database.
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

    /// Marks a database for an event at this path in it.
    pub(super) fn mark(&self, number: usize, database: &Path, path: &Path, is_gone: bool) {
        if self.lock().mark(number, database, path, is_gone) {
            self.wake.notify_one();
        }
    }

    /// Events were lost.
    pub(super) fn resync(&self) {
        self.lock().resync();
        self.wake.notify_one();
    }

    pub(super) fn is_wrong(&self, wrong: WatchProblem) {
        self.lock().news.wrong.push(wrong);
        self.wake.notify_one();
    }
}

impl WatchState {
    /// Events were lost, perhaps of new directories: everything may have changed, and is watched anew. The muted
    /// databases are not marked as changed: the flood was most likely theirs, and they would run for ever. Their locks
    /// are marked, since the end of a claim is not reported again.
    fn resync(&mut self) {
        self.news.resyncs += 1;
        for (number, seen) in &mut self.databases {
            seen.inode = NOWHERE;
            if seen.is_muted {
                seen.marks.lock_gone = true;
            } else {
                seen.marks.changed = true;
                self.news.marked.push(*number);
            }
        }
    }

    /// The directory is to be watched anew.
    pub(super) fn forget(&mut self, number: usize) {
        if let Some(seen) = self.databases.get_mut(&number) {
            seen.inode = NOWHERE;
        }
    }

    /// Marks a database for an event at this path in it. True when the mark is new.
    fn mark(&mut self, number: usize, dir: &Path, path: &Path, is_gone: bool) -> bool {
        let Some(kind) = classify(dir, path, is_gone, &self.own) else {
            return false;
        };
        if kind == ChangeKind::DirectoryGone {
            // Another directory may get its inode number.
            self.forget(number);
        }
        let Some(seen) = self.databases.get_mut(&number) else {
            return false;
        };
        let mark = match kind {
            ChangeKind::LockGone => &mut seen.marks.lock_gone,
            ChangeKind::Changed | ChangeKind::DirectoryGone if seen.is_muted => return false,
            ChangeKind::Changed | ChangeKind::DirectoryGone => &mut seen.marks.changed,
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
