//! The watcher: which databases changed, and whose lock went away (DESIGN 8).
//!
//! Marks, not events, are kept: a database has changed or not, its lock has gone or not, however many files were
//! written. While a cycle's command runs its database is muted: changes are taken for the command's own. A lock
//! that goes away is marked all the same.
//!
//! # The end of the mute
//! What the command wrote must have been seen before the mute ends, or it would start the next cycle. inotify is
//! one ordered queue for all watches, so a marker does it: a file of our own that nobody else opens is watched too
//! and opened once; when that has been reported, so has everything before it. Opening the database's directory
//! would not do, others open it all the time. Where there are no such reports the wait ends after [`PATIENCE`].

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use beadlock_checker::database::is_own_name;
use notify::event::{EventKind, ModifyKind, RenameMode};
use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// The longest wait for the marker.
const PATIENCE: Duration = Duration::from_millis(200);

/// The name whose disappearance starts a cycle.
const LOCK: &str = ".exclusive-lock";

/// Watches databases, each by its number in the settings. Without a watcher inside nothing is ever marked.
pub(crate) struct Watch {
    watcher: Mutex<Option<RecommendedWatcher>>,
    shared: Arc<Shared>,
    marker: Option<PathBuf>,
    /// One drain at a time: the marker's reports are counted.
    draining: Mutex<()>,
}

/// What became of a database since it was last asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    pub(crate) changed: bool,
    pub(crate) lock_gone: bool,
}

/// What there is to do after [`Watch::news`].
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Databases that have marks: [`Watch::take`].
    pub(crate) marked: Vec<usize>,
    /// What is wrong with the watcher.
    pub(crate) errors: Vec<String>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Notify,
    marker_seen: Condvar,
}

#[derive(Default)]
struct State {
    databases: HashMap<PathBuf, Seen>,
    news: News,
    marker: Option<PathBuf>,
    marker_reports: u64,
}

#[derive(Debug)]
struct Seen {
    number: usize,
    inode: (u64, u64),
    is_muted: bool,
    marks: Marks,
}

impl Watch {
    /// No watcher: the clock alone.
    pub(crate) fn none() -> Self {
        Self { watcher: Mutex::new(None), shared: Arc::default(), marker: None, draining: Mutex::new(()) }
    }

    /// A watcher that watches nothing yet.
    ///
    /// # Errors
    /// When the system gives none, for instance at `fs.inotify.max_user_instances`.
    pub(crate) fn new() -> notify::Result<Self> {
        let shared = Arc::<Shared>::default();
        let handler = {
            let shared = Arc::clone(&shared);
            move |event| shared.handle(event)
        };
        let mut watcher = RecommendedWatcher::new(handler, Config::default().with_follow_symlinks(false))?;
        let marker = PathBuf::from(format!("/proc/{}/limits", std::process::id()));
        let marker = watcher.watch(&marker, RecursiveMode::NonRecursive).is_ok().then_some(marker);
        shared.lock().marker.clone_from(&marker);
        Ok(Self { watcher: Mutex::new(Some(watcher)), shared, marker, draining: Mutex::new(()) })
    }

    /// Watches a database, again if the directory is another one than before. Cheap when all is as it was.
    /// Blocks for as long as it takes to walk through the directory.
    ///
    /// # Errors
    /// When it cannot be watched, said once for a directory. One that is not there is no error.
    pub(crate) fn ensure(&self, number: usize, dir: &Path) -> notify::Result<()> {
        let mut watcher = lock(&self.watcher);
        let Some(watcher) = watcher.as_mut() else { return Ok(()) };
        let Ok(meta) = fs::metadata(dir) else { return Ok(()) };
        let inode = (meta.dev(), meta.ino());
        {
            let mut state = self.shared.lock();
            match state.databases.get_mut(dir) {
                Some(seen) if seen.inode == inode => return Ok(()),
                Some(seen) => seen.inode = inode,
                None => {
                    let seen = Seen { number, inode, is_muted: false, marks: Marks::default() };
                    state.databases.insert(dir.to_path_buf(), seen);
                }
            }
        }
        let _ = watcher.unwatch(dir); // The one that was here before, wherever it has gone.
        let watched = watcher.watch(dir, RecursiveMode::Recursive);
        if let Err(notify::Error { kind: notify::ErrorKind::PathNotFound, .. }) = watched {
            // Something in it went away meanwhile: again at the next cycle.
            self.shared.lock().databases.remove(dir);
            return Ok(());
        }
        watched
    }

    /// From here on changes are the cycle's own. What was marked so far, the cycle is going to see.
    pub(crate) fn mute(&self, dir: &Path) {
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.is_muted = true;
            seen.marks.changed = false;
        }
    }

    /// The cycle has itself removed a stale lock, before its work: that disappearance is no news. Blocks.
    pub(crate) fn forget_lock_gone(&self, dir: &Path) {
        self.drain();
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.marks.lock_gone = false;
        }
    }

    /// The cycle's work has ended: waits until everything it wrote was seen, then changes count again. Blocks.
    pub(crate) fn unmute(&self, dir: &Path) {
        self.drain();
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.is_muted = false;
        }
    }

    fn drain(&self) {
        let Some(marker) = &self.marker else { return };
        let _alone = lock(&self.draining);
        let before = self.shared.lock().marker_reports;
        if File::open(marker).is_ok() {
            let state = self.shared.lock();
            let unseen = |state: &mut State| state.marker_reports == before;
            let _ = self.shared.marker_seen.wait_timeout_while(state, PATIENCE, unseen);
        }
    }

    /// Returns when something was marked, perhaps by now taken.
    pub(crate) async fn news(&self) -> News {
        self.shared.wake.notified().await;
        std::mem::take(&mut self.shared.lock().news)
    }

    /// The marks of a database, and clears them.
    pub(crate) fn take(&self, dir: &Path) -> Marks {
        self.shared
            .lock()
            .databases
            .get_mut(dir)
            .map(|seen| std::mem::take(&mut seen.marks))
            .unwrap_or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn handle(&self, event: notify::Result<Event>) {
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
                state.news.errors.push(why(&error));
            }
        }
        drop(state);
        self.wake.notify_one();
    }
}

impl State {
    /// Reports were lost, perhaps of new directories: everything may have changed, and is to be watched anew.
    fn resync(&mut self) {
        self.databases.values_mut().for_each(|seen| seen.inode = (0, 0));
        self.mark_all();
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
        let Some(what) = path.ancestors().find(|dir| self.databases.contains_key(*dir)).and_then(|dir| {
            let inside = path.strip_prefix(dir).ok()?;
            Some((dir, classify(inside, kind)?))
        }) else {
            return false;
        };
        let (dir, what) = what;
        let Some(seen) = self.databases.get_mut(dir) else { return false };
        let mark = match what {
            What::Changed if seen.is_muted => return false,
            What::Changed => &mut seen.marks.changed,
            What::LockGone => &mut seen.marks.lock_gone,
            What::DirectoryGone => {
                // Its inode number may come back with another directory.
                seen.inode = (0, 0);
                return false;
            }
        };
        if std::mem::replace(mark, true) {
            return false;
        }
        self.news.marked.push(seen.number);
        true
    }
}

#[derive(Debug, PartialEq)]
enum What {
    Changed,
    LockGone,
    DirectoryGone,
}

/// What an event on a path below a database's directory amounts to: nothing, for accesses and own names; of
/// the lock and of the directory itself only the disappearance counts.
fn classify(inside: &Path, kind: EventKind) -> Option<What> {
    let is_gone =
        matches!(kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(RenameMode::From)));
    match kind {
        // "Both" repeats a From and a To.
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => return None,
        _ if inside == Path::new("") => return is_gone.then_some(What::DirectoryGone),
        _ if inside == Path::new(LOCK) => return is_gone.then_some(What::LockGone),
        _ => {}
    }
    let first = inside.components().next()?;
    (!is_own_name(first.as_os_str())).then_some(What::Changed)
}

/// What is wrong, and what to do where there is something.
pub(crate) fn why(error: &notify::Error) -> String {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned()
        }
        notify::ErrorKind::Io(source) if source.raw_os_error() == Some(nix::libc::EMFILE) => {
            "the limit of inotify instances is reached; raise fs.inotify.max_user_instances".to_owned()
        }
        notify::ErrorKind::Io(source) => io_words(source),
        other => format!("{other:?}"),
    }
}

fn io_words(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |errno| nix::errno::Errno::from_raw(errno).desc().to_lowercase())
}

/// A poisoned state is as good as before: every change to it is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::*;
    use notify::event::{AccessKind, CreateKind, DataChange, RemoveKind};
    use std::time::Instant;

    const CHANGED: Marks = Marks { changed: true, lock_gone: false };
    const GONE: Marks = Marks { changed: false, lock_gone: true };
    const NOTHING: Marks = Marks { changed: false, lock_gone: false };

    #[test]
    fn what_counts() {
        let write = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let create = EventKind::Create(CreateKind::File);
        let remove = EventKind::Remove(RemoveKind::File);
        let away = EventKind::Modify(ModifyKind::Name(RenameMode::From));
        let here = EventKind::Modify(ModifyKind::Name(RenameMode::To));
        let table = [
            ("issues.jsonl", write, Some(What::Changed)),
            ("sub/.exclusive-lock", remove, Some(What::Changed)),
            ("beads.db-wal", write, Some(What::Changed)),
            ("issues.jsonl", EventKind::Access(AccessKind::Any), None),
            (".exclusive-lock", create, None),
            (".exclusive-lock", write, None),
            (".exclusive-lock", here, None),
            (".exclusive-lock", remove, Some(What::LockGone)),
            (".exclusive-lock", away, Some(What::LockGone)),
            (".exclusive-lock.aside", remove, None),
            ("daemon.log", write, None),
            ("daemon.log.1", here, None),
            ("bd.sock", create, None),
            ("", EventKind::Modify(ModifyKind::Any), None),
            ("", remove, Some(What::DirectoryGone)),
        ];
        for (path, kind, expected) in table {
            assert_eq!(classify(Path::new(path), kind), expected, "{path} {kind:?}");
        }
    }

    fn scene() -> (tempfile::TempDir, PathBuf, Watch) {
        let root = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(root.path()).unwrap().join(".beads");
        fs::create_dir(&dir).unwrap();
        let watch = Watch::new().unwrap();
        watch.ensure(0, &dir).unwrap();
        (root, dir, watch)
    }

    /// Everything that happened so far.
    fn marks(watch: &Watch, dir: &Path) -> Marks {
        let begun = Instant::now();
        watch.drain();
        assert!(begun.elapsed() < PATIENCE, "the marker was never reported");
        watch.take(dir)
    }

    #[test]
    fn what_a_cycle_writes_is_no_news_and_what_comes_after_it_is() {
        let (_root, dir, watch) = scene();
        for round in 0..50 {
            watch.mute(&dir);
            for number in 0..200 {
                fs::write(dir.join(format!("file-{number}")), "x").unwrap();
                let _ = File::open(&dir); // What SQLite and git do as well.
            }
            watch.unmute(&dir);
            assert_eq!(marks(&watch, &dir), NOTHING, "round {round}");
            fs::write(dir.join("later"), "x").unwrap();
            assert_eq!(marks(&watch, &dir), CHANGED, "round {round}");
        }
    }

    #[test]
    fn a_lock_that_goes_away_is_never_swallowed() {
        let (_root, dir, watch) = scene();
        fs::write(dir.join(LOCK), "{}").unwrap();
        assert_eq!(marks(&watch, &dir), NOTHING, "it came");
        watch.mute(&dir);
        fs::remove_file(dir.join(LOCK)).unwrap();
        watch.unmute(&dir);
        assert_eq!(marks(&watch, &dir), GONE);
        fs::write(dir.join(LOCK), "{}").unwrap();
        fs::rename(dir.join(LOCK), dir.join(".exclusive-lock.aside")).unwrap();
        assert_eq!(marks(&watch, &dir), GONE);
        fs::write(dir.join(LOCK), "{}").unwrap();
        fs::remove_file(dir.join(LOCK)).unwrap();
        watch.forget_lock_gone(&dir);
        assert_eq!(marks(&watch, &dir), NOTHING, "removed by the cycle itself");
    }

    #[test]
    fn a_directory_made_anew_is_watched_again() {
        let (_root, dir, watch) = scene();
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        watch.drain();
        watch.ensure(0, &dir).unwrap();
        watch.take(&dir);
        fs::create_dir(dir.join("sub")).unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED);
        fs::rename(&dir, dir.with_extension("old")).unwrap();
        fs::create_dir(&dir).unwrap();
        watch.ensure(0, &dir).unwrap();
        watch.drain();
        watch.take(&dir);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED);
    }

    #[test]
    fn what_was_missed_is_a_change_of_everything_that_is_not_at_work() {
        let (_root, dir, watch) = scene();
        let lost = || Ok(Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
        watch.shared.handle(lost());
        assert_eq!(watch.take(&dir), CHANGED);
        watch.ensure(0, &dir).unwrap();
        watch.mute(&dir);
        watch.shared.handle(lost());
        assert_eq!(watch.take(&dir), NOTHING);
        watch.unmute(&dir);
        watch.shared.handle(Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)));
        let news = std::mem::take(&mut watch.shared.lock().news);
        assert_eq!(
            news.errors,
            ["the limit of inotify watches is reached; raise fs.inotify.max_user_watches"]
        );
        assert_eq!(watch.take(&dir), CHANGED);
    }
}
