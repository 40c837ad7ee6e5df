//! The directories that are watched, and what happens on each report of the watcher.
//!
//! A watcher is replaced after lost reports, and when many databases leave at once: removing one watch costs a look at
//! all others. What happens in between is not reported. So every database counts as changed, and is watched anew
//! before its next cycle.
//!
//! # Lock order
//! A call waits for its turn, and then for the watcher's thread. That thread locks only `known` and the marks, and
//! never calls the watcher. So `known` is never locked during a call.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_core::database::is_own_name;
use nix::errno::Errno;

use super::known::{PathEntry, WatchOwner, WatchedPaths};
use super::report::{PathFate, WatchReport, heard};
use super::state::{SharedWatchState, WatchProblem, lock};
use super::turns::{WatcherTurn, WatcherTurns};
use super::watcher::{SystemWatcher, system};

/// Events within this time after one are heard together: the agent's own logs, for one, are written in all databases
/// that are due.
const REST: Duration = Duration::from_millis(1);
/// Events without such a pause between them were read together.
const TOGETHER: Duration = Duration::from_micros(20);
/// How many watches may be looked at, in all, to remove some one by one: a quarter of a second's work.
const EFFORT: usize = 2_000_000;
/// A helper that takes longer hangs in a file system, and another one goes on.
const HANGS: Duration = Duration::from_secs(1);
/// How often a directory is watched anew that is replaced just then.
const TRIES: usize = 5;

/// Every directory that is watched, and where its events go.
pub(super) struct WatchedDirectories {
    turns: WatcherTurns,
    known: Mutex<WatchedPaths>,
    shared: Arc<SharedWatchState>,
    /// Reports were lost.
    are_deaf: AtomicBool,
    arrivals: Mutex<DirectoryArrivals>,
}

/// Paths that are new in databases and may have to be watched.
#[derive(Default)]
struct DirectoryArrivals {
    waiting: Vec<(PathBuf, WatchOwner)>,
    /// Since when a helper is at work on some of the paths; `None`: no helper is at work.
    helped_since: Option<Instant>,
}

impl WatchedDirectories {
    /// # Errors
    /// EMFILE at `fs.inotify.max_user_instances`.
    pub(super) fn new(shared: Arc<SharedWatchState>, patience: Duration) -> io::Result<Arc<Self>> {
        let directories = Arc::new(Self {
            turns: WatcherTurns::new(patience),
            known: Mutex::default(),
            shared,
            are_deaf: AtomicBool::new(false),
            arrivals: Mutex::default(),
        });
        let watcher = directories.another()?;
        directories.asked().watcher = Some(watcher);
        Ok(directories)
    }

    fn another(self: &Arc<Self>) -> io::Result<SystemWatcher> {
        let number = self.known().watcher;
        let directories = Arc::downgrade(self);
        let mut quiet_since = Instant::now();
        SystemWatcher::new(move |told| {
            let Some(directories) = directories.upgrade() else {
                return;
            };
            let is_first = quiet_since.elapsed() > TOGETHER;
            directories.hear(number, told);
            if is_first && !directories.turns.is_asked() {
                thread::sleep(REST);
            }
            quiet_since = Instant::now();
        })
    }

    /// Watches a database with all its directories, and none of another that was here before. Blocks for a walk
    /// through them. What happens meanwhile may not be reported.
    ///
    /// # Errors
    /// ENOENT when it is not there, ENOSPC at `fs.inotify.max_user_watches`. The directories that could be are watched.
    pub(super) fn watch(self: &Arc<Self>, number: usize, database: &Path) -> io::Result<()> {
        // One by one, however many: with a new watcher, two databases whose cycles replace their directories would
        // start each other for ever.
        self.take_back(&[number], usize::MAX);
        let owner = WatchOwner {
            number,
            database: database.into(),
        };
        self.known().begin(&owner);
        self.add(&owner.database, &owner)
    }

    /// Watches a directory of a database, with all below it.
    fn add(self: &Arc<Self>, dir: &Path, owner: &WatchOwner) -> io::Result<()> {
        self.add_one(dir.into(), owner)?;
        let mut result = Ok(());
        let mut parents = vec![dir.to_path_buf()];
        while let Some(parent) = parents.pop() {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let dir = entry.path();
                match self.add_one(dir.as_path().into(), owner) {
                    Ok(()) => parents.push(dir),
                    // What comes in its place is reported.
                    Err(error) if has_gone(&error) => {}
                    Err(error) if error.raw_os_error() == Some(Errno::ENOSPC as i32) => {
                        return Err(error);
                    }
                    Err(error) => result = Err(error),
                }
            }
        }
        result
    }

    fn add_one(self: &Arc<Self>, dir: Arc<Path>, owner: &WatchOwner) -> io::Result<()> {
        // Before the call: a file system that hangs must not hang the watcher's thread, which all others wait for.
        if !fs::symlink_metadata(&dir)?.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let mut asked = self.asked();
        let number = self.known().watcher;
        let watcher = match &mut asked.watcher {
            Some(watcher) => watcher,
            none => none.insert(self.another()?),
        };
        for _ in 0..TRIES {
            let Some(entered) = self
                .known_to(number)
                .map(|mut known| known.enter(&dir, owner))
            else {
                break;
            };
            match entered {
                PathEntry::New => {}
                PathEntry::Again => watcher.unwatch(&dir),
                PathEntry::Inner | PathEntry::Unwanted => break,
            }
            let watched = watcher.watch(&dir);
            let Some(mut known) = self.known_to(number) else {
                break;
            };
            if watched.is_err() {
                known.forget(&dir);
                return watched;
            }
            if known.owner(&dir).is_some() {
                break;
            }
            drop(known);
            // Meanwhile an earlier directory under this name has ended: perhaps before this watch, perhaps after.
            watcher.unwatch(&dir);
        }
        Ok(())
    }

    /// Ends the watch of databases.
    pub(super) fn unwatch(&self, numbers: &[usize]) {
        self.take_back(numbers, EFFORT);
    }

    /// Removes watches: one by one where that takes no more than this effort, else with the whole watcher.
    pub(super) fn take_back(&self, numbers: &[usize], effort: usize) {
        let mut turn = self.asked();
        let (directories, all) = {
            let mut known = self.known();
            let all = known.count();
            (
                numbers
                    .iter()
                    .flat_map(|number| known.end(*number))
                    .collect::<Vec<_>>(),
                all,
            )
        };
        if directories.len().saturating_mul(all) > effort {
            self.begin_anew(&mut turn);
        } else if let Some(watcher) = &mut turn.watcher {
            directories.iter().for_each(|dir| watcher.unwatch(dir));
        }
    }

    /// Returns when everything that has happened so far is marked. Blocks.
    pub(super) fn drain(&self) {
        let mut turn = self.asked();
        if let Some(watcher) = &mut turn.watcher {
            watcher.catch_up();
        }
        if self.are_deaf.load(Ordering::Relaxed) {
            self.begin_anew(&mut turn);
        }
    }

    /// Ends the watcher; the next one comes with the next directory.
    fn begin_anew(&self, asked: &mut WatcherTurn<'_>) {
        if !asked.unless_given_up(|| self.known().begin_anew()) {
            return;
        }
        asked.watcher = None;
        self.are_deaf.store(false, Ordering::Relaxed);
        self.shared.resync();
    }

    /// A turn to call the watcher. Its thread does not rest meanwhile.
    pub(super) fn asked(&self) -> WatcherTurn<'_> {
        let mut asked = self.turns.ask();
        if asked.was_given_up {
            self.begin_anew(&mut asked);
        }
        asked
    }

    fn known(&self) -> MutexGuard<'_, WatchedPaths> {
        lock(&self.known)
    }

    /// The watched paths; `None` if the watcher of this number was replaced.
    fn known_to(&self, number: u64) -> Option<MutexGuard<'_, WatchedPaths>> {
        Some(self.known()).filter(|known| known.watcher == number)
    }

    /// Marks what a watcher has reported. Runs in its thread.
    pub(super) fn hear(self: &Arc<Self>, number: u64, told: notify::Result<notify::Event>) {
        let told = match told {
            Ok(event) => heard(event),
            Err(error) => {
                self.shared
                    .is_wrong(WatchProblem::new(None, &system(error)));
                Some(WatchReport::Lost)
            }
        };
        match told {
            Some(WatchReport::Lost) => {
                self.are_deaf.store(true, Ordering::Relaxed);
                self.help(None);
            }
            Some(WatchReport::At(path, fate)) => self.happened(number, path, fate),
            None => {}
        }
    }

    fn happened(self: &Arc<Self>, number: u64, path: PathBuf, fate: PathFate) {
        let Some(mut known) = self.known_to(number) else {
            return;
        };
        let is_gone = matches!(fate, PathFate::Gone | PathFate::MovedWithItsWatch);
        let parent = path.parent().and_then(|parent| known.owner(parent));
        // First: in idle databases, most events are the agent's own log writes.
        let is_own = path.file_name().is_some_and(is_own_name);
        let is_at_the_top = parent.is_some_and(|owner| path.parent() == Some(&owner.database));
        if fate == PathFate::New && is_own && is_at_the_top {
            return;
        }
        let parent = parent.cloned();
        // A database whose own directory has gone is marked even when it does not lie in another one.
        let gone = match fate {
            PathFate::Gone => known.forget_all_below(&path),
            PathFate::MovedWithItsWatch => known
                .owner(&path)
                .filter(|it| *it.database == *path)
                .cloned()
                .into_iter()
                .collect(),
            _ => Vec::new(),
        };
        drop(known);
        for owner in gone {
            self.shared
                .mark(owner.number, &owner.database, &owner.database, true);
        }
        let Some(owner) = parent else { return };
        self.shared
            .mark(owner.number, &owner.database, &path, is_gone);
        if fate == PathFate::NewDirectory
            || (fate == PathFate::Arrived && !(is_own && is_at_the_top))
        {
            self.help(Some((path, owner)));
        }
    }

    /// Leaves to a thread of its own what calls the watcher, for a file system can hang. Without a thread it is done
    /// at the next event, and what has come is watched from the next new watcher on.
    fn help(self: &Arc<Self>, arrived: Option<(PathBuf, WatchOwner)>) {
        let mut arrivals = lock(&self.arrivals);
        arrivals.waiting.extend(arrived);
        if arrivals
            .helped_since
            .is_some_and(|since| since.elapsed() < HANGS)
        {
            return;
        }
        let directories = Arc::clone(self);
        if thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || directories.attend())
            .is_ok()
        {
            arrivals.helped_since = Some(Instant::now());
        }
    }

    /// The work of a helper thread, until none is left.
    fn attend(self: Arc<Self>) {
        loop {
            let waiting = {
                let mut arrivals = lock(&self.arrivals);
                let waiting = std::mem::take(&mut arrivals.waiting);
                let is_idle = waiting.is_empty() && !self.are_deaf.load(Ordering::Relaxed);
                arrivals.helped_since = (!is_idle).then(Instant::now);
                if is_idle {
                    return;
                }
                waiting
            };
            if self.are_deaf.load(Ordering::Relaxed) {
                let mut turn = self.asked();
                if self.are_deaf.load(Ordering::Relaxed) {
                    self.begin_anew(&mut turn);
                }
            }
            for (dir, owner) in waiting {
                match self.add(&dir, &owner) {
                    Ok(()) => {}
                    Err(error) if has_gone(&error) => {}
                    Err(error) => self.shared.is_wrong(WatchProblem::new(None, &error)),
                }
            }
        }
    }
}

/// There is nothing of this name, or it is not a directory.
pub(super) fn has_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw),
        Some(Errno::ENOENT | Errno::ENOTDIR)
    )
}

/// There is no watcher just now: a limit of the process or the machine is reached.
pub(super) fn is_without_watcher(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw);
    matches!(error, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN))
}
