//! The directories that are watched, and what happens on each report of the watcher.
//!
//! A watcher is replaced after lost reports, and when many databases leave at once: removing one watch costs a look at
//! all others. Neither watcher reports what happens in between. So every database counts as changed, and is watched
//! anew before its next cycle.
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

use beadlock_checker::internal::database::is_own_name;
use nix::errno::Errno;

use super::known::{Entered, Owner, WatchedPaths};
use super::problem::WatchProblem;
use super::report::{Fate, WatchReport, heard};
use super::state::{SharedWatchState, lock};
use super::turns::{WatcherTurn, WatcherTurns};
use super::watcher::Watcher;

/// What happens within this time after something has happened is heard together: the agent's own logs, for one, which
/// are written in all databases that are due.
const REST: Duration = Duration::from_millis(1);
/// What the watcher tells without such a pause was read together.
const TOGETHER: Duration = Duration::from_micros(20);
/// How many watches may be looked at, in all, to take some back one by one: a quarter of a second's work.
const EFFORT: usize = 2_000_000;
/// A helper that takes longer for what has come hangs in a file system, and another one goes on.
const HANGS: Duration = Duration::from_secs(1);
/// How often a directory is watched anew that is replaced just then.
const TRIES: usize = 5;

/// Every directory that is watched, and who has to know now.
pub(super) struct WatchedDirectories {
    turns: WatcherTurns,
    known: Mutex<WatchedPaths>,
    shared: Arc<SharedWatchState>,
    /// Reports were lost.
    are_deaf: AtomicBool,
    arrivals: Mutex<Arrivals>,
}

/// What has come into databases and may have to be watched.
#[derive(Default)]
struct Arrivals {
    waiting: Vec<(PathBuf, Owner)>,
    /// Since when a helper is at work on some.
    helped_since: Option<Instant>,
}

impl WatchedDirectories {
    /// Nothing is watched yet.
    ///
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

    /// A watcher that tells us.
    fn another(self: &Arc<Self>) -> io::Result<Watcher> {
        let number = self.known().watcher;
        let directories = Arc::downgrade(self);
        let mut quiet_since = Instant::now();
        Watcher::new(move |told| {
            let Some(directories) = directories.upgrade() else { return };
            let is_first = quiet_since.elapsed() > TOGETHER;
            directories.hear(number, told);
            if is_first && !directories.turns.is_asked() {
                thread::sleep(REST);
            }
            quiet_since = Instant::now();
        })
    }

    /// Watches a database with all its directories, none of another that was here before. Blocks for as long as it
    /// takes to walk through them. What happens meanwhile may not be reported.
    ///
    /// # Errors
    /// ENOENT when it is not there, ENOSPC at `fs.inotify.max_user_watches`. The directories that could be are watched.
    pub(super) fn watch(self: &Arc<Self>, number: usize, database: &Path) -> io::Result<()> {
        // One by one, however many: if this brought a new watcher, the cycles of two databases that replace their
        // directories would start each other for ever.
        self.take_back(&[number], usize::MAX);
        let owner = Owner { number, database: database.into() };
        self.known().begin(&owner);
        self.add(&owner.database, &owner)
    }

    /// Watches a directory of a database, with all below it.
    ///
    /// # Errors
    /// As [`Self::watch`].
    fn add(self: &Arc<Self>, dir: &Path, owner: &Owner) -> io::Result<()> {
        self.add_one(dir.into(), owner)?;
        let mut result = Ok(());
        let mut parents = vec![dir.to_path_buf()];
        while let Some(parent) = parents.pop() {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let dir = entry.path();
                match self.add_one(dir.as_path().into(), owner) {
                    Ok(()) => parents.push(dir),
                    // It has gone again; what comes in its place is reported.
                    Err(error) if has_gone(&error) => {}
                    Err(error) if error.raw_os_error() == Some(Errno::ENOSPC as i32) => return Err(error),
                    Err(error) => result = Err(error),
                }
            }
        }
        result
    }

    fn add_one(self: &Arc<Self>, dir: Arc<Path>, owner: &Owner) -> io::Result<()> {
        // A file system that hangs does so in this thread, not in the watcher's, which all others wait for.
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
            let Some(entered) = self.known_to(number).map(|mut known| known.enter(&dir, owner)) else {
                break;
            };
            match entered {
                Entered::New => {}
                Entered::Again => watcher.unwatch(&dir),
                Entered::Inner | Entered::Nobodys => break,
            }
            let watched = watcher.watch(&dir);
            let Some(mut known) = self.known_to(number) else { break };
            if watched.is_err() {
                known.forget(&dir);
                return watched;
            }
            if known.owner(&dir).is_some() {
                break;
            }
            drop(known);
            // The end of an earlier directory under this name was told meanwhile: perhaps before this one was watched,
            // perhaps after.
            watcher.unwatch(&dir);
        }
        Ok(())
    }

    /// Watches databases no longer.
    pub(super) fn unwatch(&self, numbers: &[usize]) {
        self.take_back(numbers, EFFORT);
    }

    /// Takes watches back one by one, where that is no more than this effort.
    pub(super) fn take_back(&self, numbers: &[usize], effort: usize) {
        let mut turn = self.asked();
        let (directories, all) = {
            let mut known = self.known();
            let all = known.count();
            (numbers.iter().flat_map(|number| known.end(*number)).collect::<Vec<_>>(), all)
        };
        if directories.len().saturating_mul(all) > effort {
            self.begin_anew(&mut turn);
        } else if let Some(watcher) = &mut turn.watcher {
            directories.iter().for_each(|dir| watcher.unwatch(dir));
        }
    }

    /// Everything that has happened so far is marked when it returns. Blocks.
    pub(super) fn drain(&self) {
        let mut turn = self.asked();
        if let Some(watcher) = &mut turn.watcher {
            watcher.catch_up();
        }
        if self.are_deaf.load(Ordering::Relaxed) {
            self.begin_anew(&mut turn);
        }
    }

    /// The end of the watcher; the next one comes with the next directory.
    fn begin_anew(&self, asked: &mut WatcherTurn<'_>) {
        if !asked.unless_given_up(|| self.known().begin_anew()) {
            return;
        }
        asked.watcher = None;
        self.are_deaf.store(false, Ordering::Relaxed);
        self.shared.resync();
    }

    /// To ask the watcher something. Its thread does not rest meanwhile.
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

    /// The same, unless this watcher was given up.
    fn known_to(&self, number: u64) -> Option<MutexGuard<'_, WatchedPaths>> {
        Some(self.known()).filter(|known| known.watcher == number)
    }

    /// Marks what one of the watchers has told. In its thread.
    pub(super) fn hear(self: &Arc<Self>, number: u64, told: notify::Result<notify::Event>) {
        let told = match told {
            Ok(event) => heard(event),
            Err(error) => {
                self.shared.is_wrong(WatchProblem::new(None, &super::watcher::system(error)));
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

    fn happened(self: &Arc<Self>, number: u64, path: PathBuf, fate: Fate) {
        let Some(mut known) = self.known_to(number) else { return };
        let is_gone = matches!(fate, Fate::Gone | Fate::MovedWithItsWatch);
        let parent = path.parent().and_then(|parent| known.owner(parent));
        // The agent writes the log of each database that it serves, which is most of what happens in many that are
        // idle.
        let is_own = path.file_name().is_some_and(is_own_name);
        let is_at_the_top = parent.is_some_and(|owner| path.parent() == Some(&owner.database));
        if fate == Fate::New && is_own && is_at_the_top {
            return;
        }
        let parent = parent.cloned();
        // The database of a directory that has gone hears of itself, also when it is not in another.
        let gone = match fate {
            Fate::Gone => known.forget_all_below(&path),
            Fate::MovedWithItsWatch => {
                known.owner(&path).filter(|it| *it.database == *path).cloned().into_iter().collect()
            }
            _ => Vec::new(),
        };
        drop(known);
        for owner in gone {
            self.shared.mark(owner.number, &owner.database, &owner.database, true);
        }
        let Some(owner) = parent else { return };
        self.shared.mark(owner.number, &owner.database, &path, is_gone);
        if fate == Fate::NewDirectory || (fate == Fate::Arrived && !(is_own && is_at_the_top)) {
            self.help(Some((path, owner)));
        }
    }

    /// Leaves to a thread of its own what must be asked, for a file system can hang. Without one it is done at the next
    /// question, and what has come is watched from the next new watcher on.
    fn help(self: &Arc<Self>, arrived: Option<(PathBuf, Owner)>) {
        let mut arrivals = lock(&self.arrivals);
        arrivals.waiting.extend(arrived);
        if arrivals.helped_since.is_some_and(|since| since.elapsed() < HANGS) {
            return;
        }
        let directories = Arc::clone(self);
        if thread::Builder::new().name("watch".to_owned()).spawn(move || directories.attend()).is_ok() {
            arrivals.helped_since = Some(Instant::now());
        }
    }

    /// A helper's work, until there is none.
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

/// Nothing of this name is there, or no directory.
pub(super) fn has_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ENOTDIR))
}

/// There is no watcher just now: a limit of the process or the machine is reached that has nothing to do with a
/// directory.
pub(super) fn is_without_watcher(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw);
    matches!(error, Some(Errno::EMFILE | Errno::ENFILE | Errno::EAGAIN))
}
