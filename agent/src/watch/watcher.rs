//! The watcher of the system, through the `notify` package: one thread with one inotify instance.
//!
//! The kernel is asked for changes alone: the agent itself opens and closes files all the time. Each directory has a
//! watch of its own, since a recursive watch costs a look at all other watches.

use std::io;
use std::mem;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::errno::Errno;
use notify::{
    Config, ErrorKind, Event, EventHandler, EventKindMask, INotifyWatcher, RecursiveMode,
    WatchPathConfig, Watcher as _,
};

/// How long a watcher may take to end. One that takes longer hangs in a file system, and keeps its watches meanwhile.
const ENDING: Duration = Duration::from_secs(2);

/// Ends when it is dropped, with all its watches: first the watcher, then the wait for its thread.
pub(super) struct SystemWatcher {
    notify: INotifyWatcher,
    _end: ThreadEnd,
}

/// Waits for the end of the watcher's thread, so that its watches are free for others.
struct ThreadEnd(Receiver<()>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let _ = self.0.recv_timeout(ENDING);
    }
}

/// Hands on events. Its sender is dropped with the watcher's thread.
struct EventTeller<F> {
    tell: F,
    _until_its_end: Sender<()>,
}

impl<F: FnMut(notify::Result<Event>) + Send + 'static> EventHandler for EventTeller<F> {
    fn handle_event(&mut self, told: notify::Result<Event>) {
        (self.tell)(told);
    }
}

impl SystemWatcher {
    /// A watcher without watches. `tell` is called in the watcher's own thread, so it must not wait for our calls.
    ///
    /// # Errors
    /// EMFILE at `fs.inotify.max_user_instances`; EAGAIN where no thread can be started.
    pub(super) fn new(
        tell: impl FnMut(notify::Result<Event>) + Send + 'static,
    ) -> io::Result<Self> {
        let config = Config::default()
            .with_event_kinds(EventKindMask::CORE)
            .with_follow_symlinks(false);
        let (_until_its_end, ended) = channel();
        let mut notify = INotifyWatcher::new(
            EventTeller {
                tell,
                _until_its_end,
            },
            config,
        )
        .map_err(system)?;
        if answers(&mut notify).is_err() {
            // `notify` hides that it could not start its thread, and cannot be dropped without one.
            mem::forget(notify);
            return Err(Errno::EAGAIN.into());
        }
        Ok(Self {
            notify,
            _end: ThreadEnd(ended),
        })
    }

    /// Watches a directory that is not watched yet; follows no link.
    ///
    /// # Errors
    /// ENOENT when it is not there, ENOSPC at `fs.inotify.max_user_watches`.
    pub(super) fn watch(&mut self, dir: &Path) -> io::Result<()> {
        let this_one =
            WatchPathConfig::new(RecursiveMode::NonRecursive).with_dereference_symlinks(false);
        self.notify.watch_with(dir, this_one).map_err(system)
    }

    /// Ends a watch. Takes the longer the more are watched.
    pub(super) fn unwatch(&mut self, dir: &Path) {
        // An error means that the directory is gone, and with it the watch.
        let _ = self.notify.unwatch(dir);
    }

    /// Returns when everything that has happened so far was handed on.
    pub(super) fn catch_up(&mut self) {
        // The first call has the queue read to its end, but is answered before that is handed on; the second after.
        let _ = self.notify.update_paths(Vec::new());
        let _ = answers(&mut self.notify);
    }
}

/// Waits until the watcher's thread answers. It has no setting that could be changed, and so changes nothing.
fn answers(notify: &mut INotifyWatcher) -> notify::Result<bool> {
    notify.configure(Config::default())
}

/// The system's error in one of `notify`.
pub(super) fn system(error: notify::Error) -> io::Error {
    match error.kind {
        ErrorKind::Io(error) => error,
        ErrorKind::MaxFilesWatch => Errno::ENOSPC.into(),
        ErrorKind::PathNotFound => Errno::ENOENT.into(),
        kind => io::Error::other(notify::Error::new(kind).to_string()),
    }
}
