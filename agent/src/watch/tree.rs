//! The directories of each database, as inotify knows them, and what it reports of them.
//!
//! It is asked for changes alone: opening and closing are no news, and the agent itself does so all the time.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use beadlock_checker::database::is_own_name;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::state::lock;

/// What is reported; of no link, and of directories alone.
const WANTED: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

/// By these something is no longer under its name.
const GONE: AddWatchFlags = AddWatchFlags::IN_DELETE
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_UNMOUNT);

/// Every directory that is watched.
pub(super) struct Tree {
    inotify: Inotify,
    known: Mutex<Known>,
}

/// In the order of their numbers, as in all tables of databases: those that are due together are neighbours in memory, and
/// to touch a page that was not touched for a minute costs more than to find the way in a tree.
#[derive(Default)]
struct Known {
    directories: BTreeMap<WatchDescriptor, Directory>,
    databases: BTreeMap<usize, HashSet<WatchDescriptor>>,
}

/// A directory in a database, or the database's own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Directory {
    /// Whose it is.
    number: usize,
    database: Arc<Path>,
    /// Its way from there; empty for the database's own.
    inside: PathBuf,
}

/// What has happened.
#[derive(Debug)]
pub(super) enum Report {
    /// Nobody knows: reports were lost.
    Lost,
    /// Something changed at this path of a database, or is no longer there.
    At { number: usize, database: Arc<Path>, path: PathBuf, is_gone: bool },
}

impl Tree {
    /// Nothing is watched yet.
    ///
    /// # Errors
    /// EMFILE at `fs.inotify.max_user_instances`.
    pub(super) fn new() -> nix::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        Ok(Self { inotify, known: Mutex::default() })
    }

    /// Watches a database with all its directories, none of another that was here before. Blocks for as long as it takes
    /// to walk through them. What happens meanwhile may not be reported.
    ///
    /// # Errors
    /// ENOENT when it is not there, ENOSPC at `fs.inotify.max_user_watches`. The directories that could be are watched.
    pub(super) fn watch(&self, number: usize, database: &Path) -> nix::Result<()> {
        self.unwatch(number);
        let directory = Directory { number, database: database.into(), inside: PathBuf::new() };
        let wd = self.inotify.add_watch(database, WANTED)?;
        self.known().databases.insert(number, HashSet::new());
        self.enter(wd, &directory);
        self.add_below(directory)
    }

    /// Watches a directory that has come into a database, with all below it, as [`Self::watch`] does.
    ///
    /// # Errors
    /// As there.
    pub(super) fn add(&self, directory: Directory) -> nix::Result<()> {
        let wd = self.inotify.add_watch(&directory.path(), WANTED)?;
        if self.enter(wd, &directory) { self.add_below(directory) } else { Ok(()) }
    }

    fn add_below(&self, directory: Directory) -> nix::Result<()> {
        let mut result = Ok(());
        let mut parents = vec![directory];
        while let Some(parent) = parents.pop() {
            let entries = fs::read_dir(parent.path()).into_iter().flatten().flatten();
            for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let directory = parent.below(&entry.file_name());
                match self.inotify.add_watch(&directory.path(), WANTED) {
                    Ok(wd) if self.enter(wd, &directory) => parents.push(directory),
                    Ok(_) => return Ok(()),
                    // It has gone again; what comes in its place is reported.
                    Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                    Err(Errno::ENOSPC) => return Err(Errno::ENOSPC),
                    Err(error) => result = Err(error),
                }
            }
        }
        result
    }

    /// False: its database is watched no longer, and so it is not either.
    fn enter(&self, wd: WatchDescriptor, directory: &Directory) -> bool {
        let mut known = self.known();
        if !known.databases.contains_key(&directory.number) {
            drop(known);
            let _ = self.inotify.rm_watch(wd);
            return false;
        }
        // A database can lie in another: what is in both is the inner one's.
        if let Some(before) = known.directories.get(&wd) {
            let is_inner = before.database != directory.database;
            if is_inner && before.database.starts_with(&directory.database) {
                return true;
            }
            let before = before.number;
            known.databases.entry(before).or_default().remove(&wd);
        }
        known.databases.entry(directory.number).or_default().insert(wd);
        known.directories.insert(wd, directory.clone());
        true
    }

    /// Watches a database no longer.
    pub(super) fn unwatch(&self, number: usize) {
        let mut known = self.known();
        for wd in known.databases.remove(&number).unwrap_or_default() {
            known.directories.remove(&wd);
            let _ = self.inotify.rm_watch(wd);
        }
    }

    /// Tells everything that has happened so far. Blocks for nothing. Returns the directories that have come: those are
    /// to be [added](Self::add).
    ///
    /// # Errors
    /// When there will never be any more.
    pub(super) fn read(&self, mut report: impl FnMut(Report)) -> nix::Result<Vec<Directory>> {
        let mut new = Vec::new();
        loop {
            let events = match self.inotify.read_events() {
                Err(Errno::EAGAIN) => return Ok(new),
                Err(Errno::EINTR) => continue,
                events => events?,
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    report(Report::Lost);
                    continue;
                }
                let Some(parent) = self.directory(&event) else { continue };
                let at = event.name.as_deref().map_or_else(|| parent.clone(), |name| parent.below(name));
                if event.name.is_some() && event.mask.contains(AddWatchFlags::IN_ISDIR) {
                    if event.mask.contains(AddWatchFlags::IN_MOVED_FROM) {
                        self.forget(&at);
                    } else if event.mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO) {
                        new.push(at.clone());
                    }
                }
                let (path, is_gone) = (at.path(), event.mask.intersects(GONE));
                report(Report::At { number: at.number, database: at.database, path, is_gone });
            }
        }
    }

    /// The directory that an event is of; none when it is not watched any more, and when the event is no news: the agent
    /// writes the log of each database that it serves, which is most of what happens in many that are idle.
    fn directory(&self, event: &InotifyEvent) -> Option<Directory> {
        let mut known = self.known();
        if !event.mask.contains(AddWatchFlags::IN_IGNORED) {
            let directory = known.directories.get(&event.wd)?;
            let is_own = event.mask == AddWatchFlags::IN_MODIFY
                && event.name.as_deref().is_some_and(is_own_name)
                && directory.inside.as_os_str().is_empty();
            return (!is_own).then(|| directory.clone());
        }
        let directory = known.directories.remove(&event.wd)?;
        known.databases.get_mut(&directory.number)?.remove(&event.wd);
        None
    }

    /// A directory has been moved away, with all below it; where it goes to it is a new one.
    fn forget(&self, gone: &Directory) {
        let mut known = self.known();
        let Known { directories, databases } = &mut *known;
        let Some(of_database) = databases.get_mut(&gone.number) else { return };
        of_database.retain(|wd| {
            let is_below = directories.get(wd).is_some_and(|at| at.inside.starts_with(&gone.inside));
            if is_below {
                directories.remove(wd);
                let _ = self.inotify.rm_watch(*wd);
            }
            !is_below
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Ends the wait of who waits for something to read.
    pub(super) fn poke(&self) {
        // That a directory is watched no longer is reported.
        if let Ok(wd) = self.inotify.add_watch("/", WANTED) {
            let _ = self.inotify.rm_watch(wd);
        }
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl Directory {
    fn path(&self) -> PathBuf {
        // Joined with an empty one it would end in a slash.
        if self.inside == Path::new("") {
            self.database.to_path_buf()
        } else {
            self.database.join(&self.inside)
        }
    }

    fn below(&self, name: &OsStr) -> Self {
        Self { number: self.number, database: Arc::clone(&self.database), inside: self.inside.join(name) }
    }
}
