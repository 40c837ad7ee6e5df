//! How often a lock was set aside and put back: as the kernel tells it, not as we do.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

pub struct Moves {
    inotify: Inotify,
    pub aside: AtomicUsize,
    pub back: AtomicUsize,
}

impl Moves {
    pub fn new() -> Self {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let inotify = Inotify::init(flags).expect("an inotify instance");
        Self {
            inotify,
            aside: AtomicUsize::new(0),
            back: AtomicUsize::new(0),
        }
    }

    pub fn watch(&self, dir: &Path) {
        let moved = AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_MOVED_TO;
        self.inotify.add_watch(dir, moved).expect("a watch");
    }

    /// Counts what has come since the last time. Often enough, or the kernel's queue runs over.
    pub fn count(&self) {
        while let Ok(events) = self.inotify.read_events() {
            for event in events {
                let is_side_file =
                    event.name.as_deref() == Some(OsStr::new(".exclusive-lock.aside"));
                assert!(
                    !event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW),
                    "moves were not counted"
                );
                if is_side_file && event.mask.contains(AddWatchFlags::IN_MOVED_TO) {
                    self.aside.fetch_add(1, Ordering::Relaxed);
                } else if is_side_file {
                    self.back.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}
