//! The watcher: which databases changed, and whose lock went away (DESIGN 8).
//!
//! Marks, not events, are kept: a database has changed or not, its lock has gone or not, however many files were
//! written. While a cycle's command runs its database is muted: changes are taken for the command's own. A lock
//! that goes away is marked all the same.
//!
//! # The end of the mute
//! What the command wrote must have been seen before the mute ends, or it would start the next cycle. What has happened
//! is in inotify's queue at once, so it is enough to read the queue to its end.

mod classify;
mod state;
mod tree;
mod wrong;

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub(crate) use self::classify::is_own_file;
pub(crate) use self::state::{Marks, News};
use self::state::{Seen, Shared, lock};
use self::tree::{Directory, Tree};
pub(crate) use self::wrong::Wrong;

/// What happens within this time after something has happened is heard together: the agent's own logs, for one, which
/// are written in all databases that are due.
const REST: Duration = Duration::from_millis(1);

/// Watches databases, each by its number in the settings. Without ears nothing is ever marked.
pub(crate) struct Watch {
    ears: Option<Arc<Ears>>,
    shared: Arc<Shared>,
}

/// What hears: the thread of the watcher, and whoever has to know now.
struct Ears {
    tree: Tree,
    shared: Arc<Shared>,
    /// One at a time: who has heard to the end knows that all of it is marked.
    hearing: Mutex<()>,
    are_shut: AtomicBool,
}

impl Watch {
    /// No watcher: the clock alone.
    pub(crate) fn none() -> Self {
        Self { ears: None, shared: Arc::default() }
    }

    /// A watcher that watches nothing yet.
    ///
    /// # Errors
    /// When the system gives none, for instance at `fs.inotify.max_user_instances`.
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let ears = Ears {
            tree: Tree::new()?,
            shared: Arc::clone(&shared),
            hearing: Mutex::default(),
            are_shut: AtomicBool::new(false),
        };
        let ears = Arc::new(ears);
        let listening = Arc::clone(&ears);
        thread::Builder::new().name("watch".to_owned()).spawn(move || listening.listen())?;
        Ok(Self { ears: Some(ears), shared })
    }

    /// The agent's own files, without links, are never a change from now on.
    pub(crate) fn mind(&self, own: &[PathBuf]) {
        self.shared.lock().own = own.to_vec();
    }

    /// Watches a database, again if the directory is another one than before. Cheap when all is as it was.
    /// Blocks for as long as it takes to walk through the directory. Where it cannot be watched is in the news, once
    /// for a directory; one that is not there is no error.
    pub(crate) fn ensure(&self, number: usize, dir: &Path) {
        if let Ok(seen) = fs::metadata(dir) {
            self.ensure_seen(number, dir, &seen);
        }
    }

    /// The same, when it has been looked at.
    pub(crate) fn ensure_seen(&self, number: usize, dir: &Path, seen: &Metadata) {
        let Some(ears) = &self.ears else { return };
        let inode = (seen.dev(), seen.ino());
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
        match ears.tree.watch(dir) {
            Ok(()) => {}
            // It went away meanwhile: again at the next cycle.
            Err(Errno::ENOENT | Errno::ENOTDIR) => self.shared.lock().forget(dir),
            Err(error) => self.shared.is_wrong(Wrong::new(Some(number), &error.into())),
        }
    }

    /// Watches a database no longer, unless it has come back under another number by now.
    pub(crate) fn unwatch(&self, number: usize, dir: &Path) {
        let Some(ears) = &self.ears else { return };
        let mut state = self.shared.lock();
        if state.databases.get(dir).is_some_and(|seen| seen.number == number) {
            state.databases.remove(dir);
            // Under the lock of the state: who comes back meanwhile is watched after this.
            ears.tree.unwatch(dir);
        }
    }

    /// From here on changes are the cycle's own. What was marked so far, the cycle is going to see.
    pub(crate) fn mute(&self, dir: &Path) {
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.is_muted = true;
            seen.marks.changed = false;
        }
    }

    /// The cycle has itself removed a stale lock, before its work: that disappearance is no news.
    pub(crate) fn forget_lock_gone(&self, dir: &Path) {
        self.drain();
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.marks.lock_gone = false;
        }
    }

    /// The cycle's work has ended: hears everything it wrote, then changes count again, also those of a directory that
    /// the cycle has put in the place of the old one. Blocks.
    pub(crate) fn unmute(&self, number: usize, dir: &Path) {
        self.drain();
        self.ensure(number, dir);
        if let Some(seen) = self.shared.lock().databases.get_mut(dir) {
            seen.is_muted = false;
        }
    }

    fn drain(&self) {
        if let Some(ears) = &self.ears {
            // Its thread says what is wrong.
            let _ = ears.hear();
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

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(ears) = &self.ears {
            ears.are_shut.store(true, Ordering::Relaxed);
            ears.tree.poke();
        }
    }
}

impl Ears {
    fn listen(self: Arc<Self>) {
        while !self.are_shut.load(Ordering::Relaxed) {
            let _ = poll(&mut [PollFd::new(self.tree.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE);
            if let Err(error) = self.hear() {
                self.shared.lock().resync();
                return self.shared.is_wrong(Wrong::new(None, &error.into()));
            }
            thread::sleep(REST);
        }
    }

    /// Marks everything that has happened so far.
    fn hear(self: &Arc<Self>) -> nix::Result<()> {
        let new = {
            let _alone = lock(&self.hearing);
            self.tree.read(|report| self.shared.take(&report))?
        };
        if !new.is_empty() {
            // In a thread of its own, for a file system can hang. Without one they are watched from the next resync on.
            let ears = Arc::clone(self);
            let _ = thread::Builder::new().spawn(move || ears.watch(new));
        }
        Ok(())
    }

    /// Watches directories that have come into databases.
    fn watch(&self, new: Vec<Directory>) {
        for directory in new {
            match self.tree.add(directory) {
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                Err(error) => return self.shared.is_wrong(Wrong::new(None, &error.into())),
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::classify::LOCK;
    use super::tree::Report;
    use super::*;
    use std::fs::File;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(30);

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
        watch.drain();
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
    fn a_directory_that_comes_later_is_watched_too_and_one_that_goes_elsewhere_no_longer() {
        let (root, dir, watch) = scene();
        let is_heard = |file: PathBuf| {
            let begun = Instant::now();
            while begun.elapsed() < PATIENCE {
                fs::write(&file, "x").unwrap();
                if marks(&watch, &dir) == CHANGED {
                    return true;
                }
            }
            false
        };
        fs::create_dir_all(dir.join("a/b")).unwrap();
        assert!(is_heard(dir.join("a/b/file")));
        fs::rename(dir.join("a"), dir.join("c")).unwrap();
        assert!(is_heard(dir.join("c/b/file")));
        fs::rename(dir.join("c"), root.path().join("elsewhere")).unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED);
        fs::write(root.path().join("elsewhere/b/file"), "y").unwrap();
        assert_eq!(marks(&watch, &dir), NOTHING);
    }

    #[test]
    fn what_is_only_opened_and_read_is_not_even_heard() {
        let (_root, dir, watch) = scene();
        fs::write(dir.join("file"), "x").unwrap();
        watch.drain();
        let _ = (File::open(&dir), fs::read(dir.join("file")), fs::read_dir(&dir));
        let ears = watch.ears.as_ref().unwrap();
        let mut heard = 0;
        ears.tree.read(|_| heard += 1).unwrap();
        assert_eq!(heard, 0);
    }

    #[test]
    fn in_a_database_in_another_the_inner_ones_lock_counts() {
        let (_root, dir, watch) = scene();
        let inner = dir.join("sub/.beads");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join(LOCK), "{}").unwrap();
        for order in [[&dir, &inner], [&inner, &dir]] {
            watch.unwatch(0, &dir);
            watch.unwatch(1, &inner);
            order.iter().for_each(|at| watch.ensure(usize::from(**at == inner), at));
            marks(&watch, &dir);
            fs::remove_file(inner.join(LOCK)).unwrap();
            assert_eq!((marks(&watch, &inner), marks(&watch, &dir)), (GONE, NOTHING));
            fs::write(inner.join(LOCK), "{}").unwrap();
        }
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
        let why = "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned();
        let limit = Wrong::new(Some(3), &Errno::ENOSPC.into());
        assert_eq!(limit, Wrong { database: None, why }, "a limit is everyone's");
        let denied = Errno::EACCES.into();
        assert_eq!(
            Wrong::new(Some(3), &denied),
            Wrong { database: Some(3), why: "permission denied".to_owned() }
        );
    }

    #[test]
    fn what_was_missed_is_a_change_of_everything_that_is_not_at_work() {
        let (_root, dir, watch) = scene();
        watch.shared.take(&Report::Lost);
        assert_eq!(watch.take(&dir), CHANGED);
        watch.ensure(0, &dir);
        watch.mute(&dir);
        watch.shared.take(&Report::Lost);
        assert_eq!(watch.take(&dir), GONE, "a lost end of a claim would never be repeated");
        watch.unmute(0, &dir);
        assert_eq!(std::mem::take(&mut watch.shared.lock().news).resyncs, 2);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(&watch, &dir), CHANGED, "it is watched anew");
    }
}
