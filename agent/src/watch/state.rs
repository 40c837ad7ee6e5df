//! What the watcher has reported so far: marks, and the counting of its marker.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use notify::{Event, EventKind};
use tokio::sync::Notify;

use super::classify::{What, classify};
use super::wrong::Wrong;

/// What became of a database since it was last asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) changed: bool,
    pub(crate) lock_gone: bool,
}

/// What there is to do after [`Watch::news`](super::Watch::news).
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Databases that have marks: [`Watch::take`](super::Watch::take).
    pub(crate) marked: Vec<usize>,
    /// What is wrong with the watcher.
    pub(crate) wrong: Vec<Wrong>,
    /// How often events were lost.
    pub(crate) resyncs: u64,
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) wake: Notify,
    pub(super) marker_seen: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) databases: HashMap<PathBuf, Seen>,
    pub(super) news: News,
    pub(super) marker: Option<PathBuf>,
    pub(super) marker_reports: u64,
    /// The one log of all databases and the audit trail, which may lie in one of them.
    pub(super) own: Vec<PathBuf>,
}

/// The inode of no directory.
const NOWHERE: (u64, u64) = (0, 0);

#[derive(Debug)]
pub(super) struct Seen {
    pub(super) number: usize,
    pub(super) inode: (u64, u64),
    pub(super) is_muted: bool,
    pub(super) marks: Marks,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn handle(&self, event: notify::Result<Event>) {
        let mut state = self.lock();
        match event {
            Ok(event) if event.need_rescan() => state.resync(),
            Ok(event) => {
                if event.kind.is_access() && event.paths.first() == state.marker.as_ref() {
                    state.marker_reports += 1;
                    self.marker_seen.notify_all();
                    return;
                }
                if event.paths.iter().filter(|path| state.mark(path, event.kind)).count() == 0 {
                    return;
                }
            }
            Err(error) => {
                state.mark_all();
                state.news.wrong.push(Wrong::new(None, &error));
            }
        }
        drop(state);
        self.wake.notify_one();
    }
}

impl State {
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
    pub(super) fn forget(&mut self, dir: &Path) {
        if let Some(seen) = self.databases.get_mut(dir) {
            seen.inode = NOWHERE;
        }
    }

    /// Marks all but the muted, whose own flood it most likely was: marked they would run for ever.
    fn mark_all(&mut self) {
        for seen in self.databases.values_mut().filter(|seen| !seen.is_muted) {
            seen.marks.changed = true;
            self.news.marked.push(seen.number);
        }
    }

    /// Marks the database that a path lies in. True when that is news.
    fn mark(&mut self, path: &Path, kind: EventKind) -> bool {
        let Some(dir) = path.ancestors().find(|dir| self.databases.contains_key(*dir)) else { return false };
        let Some(what) = classify(dir, path, kind, &self.own) else { return false };
        if what == What::DirectoryGone {
            // Its inode number may come back with another directory.
            self.forget(dir);
        }
        let Some(seen) = self.databases.get_mut(dir) else { return false };
        let mark = match what {
            What::LockGone => &mut seen.marks.lock_gone,
            What::Changed | What::DirectoryGone if seen.is_muted => return false,
            What::Changed | What::DirectoryGone => &mut seen.marks.changed,
        };
        if std::mem::replace(mark, true) {
            return false;
        }
        self.news.marked.push(seen.number);
        true
    }
}

/// A poisoned state is as good as before: every change to it is one assignment.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
