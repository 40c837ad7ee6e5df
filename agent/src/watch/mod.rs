//! The watcher: which databases changed, and whose lock went away (DESIGN 8).
//!
//! Marks, not events, are kept: a database has changed or not, its lock has gone or not, however many files were
//! written. While a cycle's command runs its database is muted: changes are taken for the command's own. A lock
//! that goes away is marked all the same.
//!
//! # The end of the mute
//! What the command wrote must have been seen before the mute ends, or it would start the next cycle. inotify is
//! one ordered queue for all watches, so a [`Marker`] does it: a file of our own that nobody else opens is watched
//! too and opened once; when that has been reported, so has everything before it. Opening the database's directory
//! would not do, others open it all the time. Where there are no such reports the wait ends after [`PATIENCE`].

mod classify;
mod marker;
mod state;
mod wrong;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::{Config, RecommendedWatcher, RecursiveMode, Watcher};

pub(crate) use self::classify::is_own_file;
use self::marker::Marker;
pub(crate) use self::state::{Marks, News};
use self::state::{Seen, Shared, State, lock};
pub(crate) use self::wrong::Wrong;

/// The longest wait for the marker.
const PATIENCE: Duration = Duration::from_millis(200);

/// Watches databases, each by its number in the settings. Without a watcher inside nothing is ever marked.
pub(crate) struct Watch {
    watcher: Option<Mutex<RecommendedWatcher>>,
    shared: Arc<Shared>,
    marker: Option<Marker>,
    /// One drain at a time: the marker's reports are counted.
    draining: Mutex<()>,
}

impl Watch {
    /// No watcher: the clock alone.
    pub(crate) fn none() -> Self {
        Self { watcher: None, shared: Arc::default(), marker: None, draining: Mutex::new(()) }
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
        let marker = Marker::new()
            .ok()
            .filter(|marker| watcher.watch(marker.path(), RecursiveMode::NonRecursive).is_ok());
        shared.lock().marker = marker.as_ref().map(|marker| marker.path().to_path_buf());
        Ok(Self { watcher: Some(Mutex::new(watcher)), shared, marker, draining: Mutex::new(()) })
    }

    /// The agent's own files, without links, are never a change from now on.
    pub(crate) fn mind(&self, own: &[PathBuf]) {
        self.shared.lock().own = own.to_vec();
    }

    /// Watches a database, again if the directory is another one than before. Cheap when all is as it was.
    /// Blocks for as long as it takes to walk through the directory. Where it cannot be watched is in the news, once
    /// for a directory; one that is not there is no error.
    pub(crate) fn ensure(&self, number: usize, dir: &Path) {
        let Some(watcher) = &self.watcher else { return };
        // A file system that hangs does so here, before anybody else has to wait for it.
        let Ok(meta) = fs::metadata(dir) else { return };
        let inode = (meta.dev(), meta.ino());
        {
            let mut state = self.shared.lock();
            match state.databases.get_mut(dir) {
                Some(seen) => {
                    seen.number = number;
                    if std::mem::replace(&mut seen.inode, inode) == inode {
                        return;
                    }
                }
                None => {
                    let seen = Seen { number, inode, is_muted: false, marks: Marks::default() };
                    state.databases.insert(dir.to_path_buf(), seen);
                }
            }
        }
        let watched = {
            let mut watcher = lock(watcher);
            let _ = watcher.unwatch(dir); // The one that was here before, wherever it has gone.
            watcher.watch(dir, RecursiveMode::Recursive)
        };
        let Err(error) = watched else { return };
        let mut state = self.shared.lock();
        if matches!(error.kind, notify::ErrorKind::PathNotFound) {
            // Something in it went away meanwhile: again at the next cycle.
            state.forget(dir);
        } else {
            state.news.wrong.push(Wrong::new(Some(number), &error));
            self.shared.wake.notify_one();
        }
    }

    /// Watches a database no longer, unless it has come back under another number by now. May have to wait until others
    /// are watched.
    pub(crate) fn unwatch(&self, number: usize, dir: &Path) {
        let Some(watcher) = &self.watcher else { return };
        // The watcher first: who comes back meanwhile is watched after this.
        let mut watcher = lock(watcher);
        let mut state = self.shared.lock();
        if state.databases.get(dir).is_some_and(|seen| seen.number == number) {
            state.databases.remove(dir);
            drop(state);
            let _ = watcher.unwatch(dir);
        }
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

    /// The cycle's work has ended: waits until everything it wrote was seen, then changes count again, also those of
    /// a directory that the cycle has put in the place of the old one. Blocks.
    pub(crate) fn unmute(&self, number: usize, dir: &Path) {
        self.drain();
        self.ensure(number, dir);
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.is_muted = false;
        }
    }

    fn drain(&self) {
        if self.watcher.is_none() {
            return;
        }
        let _alone = lock(&self.draining);
        let before = self.shared.lock().marker_reports;
        if let Some(marker) = &self.marker {
            marker.touch();
        }
        // Without a marker nothing is ever reported: all the patience there is.
        let state = self.shared.lock();
        let unseen = |state: &mut State| state.marker_reports == before;
        let _ = self.shared.marker_seen.wait_timeout_while(state, PATIENCE, unseen);
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::classify::LOCK;
    use super::*;
    use notify::{Event, EventKind};
    use std::fs::File;
    use std::time::Instant;

    const CHANGED: Marks = Marks { changed: true, lock_gone: false };
    const GONE: Marks = Marks { changed: false, lock_gone: true };
    const NOTHING: Marks = Marks { changed: false, lock_gone: false };

    fn scene() -> (tempfile::TempDir, PathBuf, Watch) {
        let root = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(root.path()).unwrap().join(".beads");
        fs::create_dir(&dir).unwrap();
        let watch = Watch::new().unwrap();
        watch.ensure(0, &dir);
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
            watch.unmute(0, &dir);
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
        watch.unmute(0, &dir);
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
        watch.ensure(0, &dir);
        watch.take(&dir);
        fs::create_dir(dir.join("sub")).unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED);
        fs::rename(&dir, dir.with_extension("old")).unwrap();
        fs::create_dir(&dir).unwrap();
        watch.ensure(0, &dir);
        watch.drain();
        watch.take(&dir);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED);
    }

    #[test]
    fn a_directory_that_goes_is_news_but_for_the_cycle_that_replaces_it() {
        let (_root, dir, watch) = scene();
        fs::rename(&dir, dir.with_extension("old")).unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED, "somebody else has moved it");
        fs::create_dir(&dir).unwrap();
        watch.ensure(0, &dir);
        watch.mute(&dir);
        fs::remove_dir_all(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        watch.unmute(0, &dir);
        assert_eq!(marks(&watch, &dir), NOTHING);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED, "the new one is watched at once");
    }

    #[test]
    fn one_that_has_gone_is_watched_no_longer_unless_it_is_back_under_another_number() {
        let (_root, dir, watch) = scene();
        watch.ensure(7, &dir);
        watch.unwatch(0, &dir);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED, "it is back");
        assert_eq!(std::mem::take(&mut watch.shared.lock().news).marked, [7]);
        watch.unwatch(7, &dir);
        fs::write(dir.join("file"), "y").unwrap();
        assert_eq!(marks(&watch, &dir), NOTHING);
        watch.ensure(8, &dir);
        fs::write(dir.join("file"), "z").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED, "and again");
    }

    #[test]
    fn without_a_marker_there_is_still_patience() {
        let (_root, dir, mut watch) = scene();
        watch.marker = None;
        watch.mute(&dir);
        fs::write(dir.join("file"), "x").unwrap();
        watch.unmute(0, &dir);
        assert_eq!(watch.take(&dir), NOTHING);
    }

    #[test]
    fn a_shared_log_in_the_database_is_no_change() {
        let (_root, dir, _) = scene();
        let log = dir.join("sync.log");
        fs::write(&log, "").unwrap();
        let watch = Watch::new().unwrap();
        watch.mind(&[fs::canonicalize(&log).unwrap()]);
        watch.ensure(0, &dir);
        fs::write(&log, "line").unwrap();
        fs::rename(&log, dir.join("sync.log.1")).unwrap();
        assert_eq!(marks(&watch, &dir), NOTHING);
    }

    #[test]
    fn what_cannot_be_watched_is_said_and_for_whom() {
        let limit = notify::Error::new(notify::ErrorKind::MaxFilesWatch);
        assert_eq!(Wrong::new(Some(3), &limit).database, None, "a limit is everyone's");
        let denied = notify::Error::io(std::io::Error::from_raw_os_error(nix::libc::EACCES));
        assert_eq!(
            Wrong::new(Some(3), &denied),
            Wrong { database: Some(3), why: "permission denied".to_owned() }
        );
    }

    #[test]
    fn what_was_missed_is_a_change_of_everything_that_is_not_at_work() {
        let (_root, dir, watch) = scene();
        let lost = || Ok(Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan));
        watch.shared.handle(lost());
        assert_eq!(watch.take(&dir), CHANGED);
        watch.ensure(0, &dir);
        watch.mute(&dir);
        watch.shared.handle(lost());
        assert_eq!(watch.take(&dir), GONE, "a lost end of a claim would never be repeated");
        watch.unmute(0, &dir);
        watch.shared.handle(Err(notify::Error::new(notify::ErrorKind::MaxFilesWatch)));
        let news = std::mem::take(&mut watch.shared.lock().news);
        let why = "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned();
        assert_eq!(news.wrong, [Wrong { database: None, why }]);
        assert_eq!(watch.take(&dir), CHANGED);
    }
}
