//! The search for lock files: parallel, on one file system, following no link and ignoring nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use beadlock_base::error::system_words;
use beadlock_base::escape::escaped;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::{Root, has_vanished, not_read};
use crate::list::listing::{is_lock_of_database, is_lock_of_directory, may_be_lock_at_path};

/// How often the progress of the search is reported.
const TICK: Duration = Duration::from_millis(100);

/// How many directories that could not be read are named.
const NAMED: usize = 10;

/// The findings of a search so far. `Display` is its progress: the directories seen, and the locks found.
#[derive(Debug, Default)]
pub struct Walk {
    directories: AtomicU64,
    locks: AtomicU64,
    /// Directories that hold a lock or a side file, with the first root that led there.
    found: Mutex<BTreeMap<PathBuf, usize>>,
    /// Files that are called as a lock at a path may be, with the first root that led there.
    lock_files: Mutex<BTreeMap<PathBuf, usize>>,
    /// Directories with a file that has the name of a directory's lock, with the first root that led there. Many other
    /// files have that name, too.
    maybe: Mutex<BTreeMap<PathBuf, usize>>,
    unread: Mutex<Unread>,
}

/// The paths that could not be read: the first ones by path, each with the reason, and the count of all.
#[derive(Debug, Default)]
struct Unread {
    named: BTreeSet<(PathBuf, String)>,
    count: usize,
}

impl Walk {
    /// Walks below every root, but not into the mount points that are `closed`. Calls `tell` now and then with the
    /// progress.
    pub fn below(
        roots: &[Root],
        all_file_systems: bool,
        closed: &Arc<HashSet<PathBuf>>,
        mut tell: impl FnMut(&Self),
    ) -> Self {
        let walk = Self::default();
        let every_root = |how: fn(&Self, usize, &Path, &WalkBuilder)| {
            for (index, root) in roots.iter().enumerate() {
                how(
                    &walk,
                    index,
                    &root.dir,
                    &builder(&root.dir, all_file_systems, closed),
                );
            }
        };
        let in_parallel = thread::scope(|scope| {
            let (ended, has_ended) = mpsc::channel::<()>();
            let walker =
                thread::Builder::new()
                    .name("walk".to_owned())
                    .spawn_scoped(scope, move || {
                        every_root(Self::in_parallel);
                        drop(ended);
                    });
            while has_ended.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                tell(&walk);
            }
            walker.is_ok_and(|walker| walker.join().is_ok())
        });
        // No more threads are allowed to this user. What was found so far is found again, and counts once.
        if !in_parallel {
            walk.directories.store(0, Ordering::Relaxed);
            every_root(Self::one_by_one);
        }
        walk
    }

    fn in_parallel(&self, root: usize, dir: &Path, builder: &WalkBuilder) {
        builder
            .build_parallel()
            .run(|| Box::new(move |entry| self.entry(root, dir, entry)));
    }

    fn one_by_one(&self, root: usize, dir: &Path, builder: &WalkBuilder) {
        builder.build().for_each(|entry| {
            self.entry(root, dir, entry);
        });
    }

    fn entry(&self, root: usize, top: &Path, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                self.failed(top, &error);
                return WalkState::Continue;
            }
        };
        // A root is a directory, whatever it is called.
        if entry.depth() > 0 && is_lock_of_database(entry.file_name()) {
            let dir = entry.path().parent().unwrap_or(top);
            let within = dir.strip_prefix(top).unwrap_or(dir);
            // What lies in a directory of such a name is part of that.
            if !within.iter().any(is_lock_of_database) {
                self.locks.fetch_add(1, Ordering::Relaxed);
                locked(&self.found).entry(dir.to_owned()).or_insert(root);
            }
            return WalkState::Skip;
        }
        if entry.file_type().is_some_and(|kind| kind.is_file())
            && may_be_lock_at_path(entry.file_name())
        {
            locked(&self.lock_files)
                .entry(entry.path().to_owned())
                .or_insert(root);
        }
        if entry.depth() > 0
            && is_lock_of_directory(entry.file_name())
            && entry.file_type().is_some_and(|kind| kind.is_file())
        {
            let dir = entry.path().parent().unwrap_or(top);
            locked(&self.maybe).entry(dir.to_owned()).or_insert(root);
        }
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            self.directories.fetch_add(1, Ordering::Relaxed);
        }
        WalkState::Continue
    }

    /// Records a path that could not be read. A path that has vanished meanwhile is not a failure.
    fn failed(&self, root: &Path, error: &ignore::Error) {
        let why = match error.io_error() {
            Some(why) if has_vanished(why) => return,
            Some(why) => system_words(why),
            None => escaped(&error.to_string()).to_string(),
        };
        let mut unread = locked(&self.unread);
        unread.count += 1;
        unread
            .named
            .insert((path_of(error).unwrap_or(root).to_owned(), why));
        if unread.named.len() > NAMED {
            unread.named.pop_last();
        }
    }

    /// The number of directories that were seen.
    pub fn directories(&self) -> u64 {
        self.directories.load(Ordering::Relaxed)
    }

    /// The directories that hold a lock or a side file, by path, with the number of the root that led there.
    pub fn found(&self) -> BTreeMap<PathBuf, usize> {
        locked(&self.found).clone()
    }

    /// The files that are called as a lock at a path may be, by path, with the number of the root that led there.
    pub fn lock_files(&self) -> Vec<(PathBuf, usize)> {
        locked(&self.lock_files).clone().into_iter().collect()
    }

    /// The directories with a file that may be the lock of the directory, by path, with the number of the root that led
    /// there.
    pub fn maybe(&self) -> BTreeMap<PathBuf, usize> {
        locked(&self.maybe).clone()
    }

    /// A sentence for each directory that could not be read, up to a number; then one for the rest.
    pub fn unread(&self) -> Vec<String> {
        let unread = locked(&self.unread);
        let named = unread.named.iter();
        let mut sentences: Vec<String> = named.map(|(path, why)| not_read(path, why)).collect();
        if let more @ 1.. = unread.count - unread.named.len() {
            sentences.push(format!("{more} more below were not read"));
        }
        sentences
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} directories seen, {} locks found",
            self.directories(),
            self.locks.load(Ordering::Relaxed)
        )
    }
}

fn builder(dir: &Path, all_file_systems: bool, closed: &Arc<HashSet<PathBuf>>) -> WalkBuilder {
    let mut builder = WalkBuilder::new(dir);
    builder
        .standard_filters(false)
        .follow_links(false)
        .same_file_system(!all_file_systems);
    if !closed.is_empty() {
        let closed = Arc::clone(closed);
        builder.filter_entry(move |entry| !closed.contains(entry.path()));
    }
    builder
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => {
            path_of(err)
        }
        _ => None,
    }
}

/// Locks the mutex. No thread panics while it has the mutex; should one, the content still counts.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
