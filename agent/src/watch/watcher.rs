//! The watcher of the system, by way of the `notify` package: one thread with one inotify instance.
//!
//! It is asked for changes alone, in the kernel: opening and closing are no news, and the agent itself does so all
//! the time. Each directory has a watch of its own, since a watch of a whole tree costs a look at all other watches.

use std::io;
use std::mem;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::errno::Errno;
use notify::{
    Config, ErrorKind, Event, EventHandler, EventKindMask, INotifyWatcher, RecursiveMode, WatchPathConfig,
    Watcher as _,
};

/// How long a watcher may take to end. One that takes longer hangs in a file system, and keeps its watches until that
/// answers.
const ENDING: Duration = Duration::from_secs(2);

/// It ends when it is dropped, with all its watches. The order of its fields is that of its end.
pub(super) struct Watcher {
    notify: INotifyWatcher,
    _end: ThreadEnd,
}

/// Waits for the end of the watcher's thread, so that the watches are there again for others.
struct ThreadEnd(Receiver<()>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let _ = self.0.recv_timeout(ENDING);
    }
}

/// What is told by the thread of the watcher, and a sign of life of that.
struct Teller<F> {
    tell: F,
    _until_its_end: Sender<()>,
}

impl<F: FnMut(notify::Result<Event>) + Send + 'static> EventHandler for Teller<F> {
    fn handle_event(&mut self, told: notify::Result<Event>) {
        (self.tell)(told);
    }
}

impl Watcher {
    /// Nothing is watched yet. `tell` is called in the watcher's own thread, so it must not wait for a call of ours.
    ///
    /// # Errors
    /// EMFILE at `fs.inotify.max_user_instances`; EAGAIN where no thread can be started.
    pub(super) fn new(tell: impl FnMut(notify::Result<Event>) + Send + 'static) -> io::Result<Self> {
        let config = Config::default().with_event_kinds(EventKindMask::CORE).with_follow_symlinks(false);
        let (_until_its_end, ended) = channel();
        let mut notify = INotifyWatcher::new(Teller { tell, _until_its_end }, config).map_err(system)?;
        if answers(&mut notify).is_err() {
            // It does not say itself that it could not start its thread, and cannot be dropped without one.
            mem::forget(notify);
            return Err(Errno::EAGAIN.into());
        }
        Ok(Self { notify, _end: ThreadEnd(ended) })
    }

    /// Watches a directory that is not watched yet, and none that a link leads to.
    ///
    /// # Errors
    /// ENOENT when it is not there, ENOSPC at `fs.inotify.max_user_watches`.
    pub(super) fn watch(&mut self, dir: &Path) -> io::Result<()> {
        let this_one = WatchPathConfig::new(RecursiveMode::NonRecursive).with_dereference_symlinks(false);
        self.notify.watch_with(dir, this_one).map_err(system)
    }

    /// Watches a directory no longer. Takes the longer the more are watched.
    pub(super) fn unwatch(&mut self, dir: &Path) {
        // One that has gone is not watched any more.
        let _ = self.notify.unwatch(dir);
    }

    /// Returns when everything is told that has happened so far.
    pub(super) fn catch_up(&mut self) {
        // The first question has the queue read to its end, and is answered before that is told; the second comes
        // after it.
        let _ = self.notify.update_paths(Vec::new());
        let _ = answers(&mut self.notify);
    }
}

/// The watcher has no setting that could be changed, and says so.
fn answers(notify: &mut INotifyWatcher) -> notify::Result<bool> {
    notify.configure(Config::default())
}

/// As the system has said it.
pub(super) fn system(error: notify::Error) -> io::Error {
    match error.kind {
        ErrorKind::Io(error) => error,
        ErrorKind::MaxFilesWatch => Errno::ENOSPC.into(),
        ErrorKind::PathNotFound => Errno::ENOENT.into(),
        kind => io::Error::other(notify::Error::new(kind).to_string()),
    }
}
