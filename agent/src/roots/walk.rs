//! The directories below one root, as each was when it was last read.
//!
//! In a directory that has not changed since, by its change time, there are the same names. So a look asks every
//! directory for that time, and reads only those that have changed: where nothing has, it costs one `lstat` each. A
//! `.beads` is told as what it was found to be; it is asked too where its own cycles do not do so. A time is trusted on
//! a file system that only this machine writes, and when it lay [`SETTLED`] back as the look began: what comes later
//! may come within the same tick of the clock.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beadlock_checker::internal::mounts::Mounts;
use beadlock_checker::internal::redirect::Lead;
use beadlock_checker::internal::{FileSystem, Reach};

use super::look::FoundDatabase;

/// What holds a database.
const BEADS: &str = ".beads";
/// What nobody keeps one in.
const GIT: &str = ".git";

/// The clocks of file systems tick in parts of a second, the oldest in whole ones.
const SETTLED: Duration = Duration::from_secs(2);

/// So many directories are remembered, with some hundred bytes each; those behind them are read in every look.
const REMEMBERED: usize = 100_000;

/// What has been read below a root.
#[derive(Debug)]
pub(crate) struct RootWalk {
    /// Where it begins, without links.
    pub(super) top: PathBuf,
    tree: Node,
    /// What leads elsewhere, by its `.beads`, and was found not to be tracked by git.
    pub(super) accepted: HashMap<PathBuf, Lead>,
    /// Whose each `.beads` is, and where it leads, its cycles have asked since the last walk: they have found nothing
    /// wrong.
    pub(super) are_asked: bool,
}

/// A directory.
#[derive(Debug, Default)]
struct Node {
    /// As it was when it was read; `None`: it is to be read again.
    stamp: Option<Stamp>,
    /// The `.beads` in it, of whatever kind.
    beads: Option<Beads>,
    /// The other directories in it, in the order of their names.
    below: Vec<(Box<OsStr>, Node)>,
}

/// What was found at a `.beads`, and as it was then; nothing where that is to be seen again in every look.
#[derive(Debug, Default)]
struct Beads(Option<(Stamp, Arc<FoundDatabase>)>);

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stamp {
    inode: (u64, u64),
    /// Seconds since 1970, and nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &Metadata) -> Self {
        Self { inode: (meta.dev(), meta.ino()), changed: (meta.ctime(), meta.ctime_nsec()) }
    }

    /// It was not changed after this time, since 1970.
    fn is_older_than(&self, time: Duration) -> bool {
        let (seconds, nanos) = self.changed;
        let known = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        known.is_some_and(|(seconds, nanos)| Duration::new(seconds, nanos) <= time)
    }
}

/// What a walk tells.
pub(super) enum WalkEvent<'a> {
    /// Something is called `.beads` here, and was found to be this, when neither it nor the directory that it lies in
    /// has changed since. The answer is what it is, where that will hold for as long as they do not.
    Beads(&'a Path, Option<&'a Arc<FoundDatabase>>),
    /// This directory could not be read, or not all of it.
    Unread(&'a Path, &'a io::Error),
}

impl RootWalk {
    /// Nothing has been read yet. `top` is a path without links.
    pub(super) fn new(top: PathBuf) -> Self {
        Self { top, tree: Node::default(), accepted: HashMap::new(), are_asked: false }
    }

    /// Walks through one file system, follows no link, and enters neither `.git` nor `.beads`. `now` is the time at
    /// which the look began, since 1970. `None` when it was told to stop: what was read so far is forgotten.
    pub(super) fn go(
        &mut self,
        now: Duration,
        stop: &AtomicBool,
        mounts: &Mounts,
        tell: impl FnMut(WalkEvent<'_>) -> Option<Arc<FoundDatabase>>,
    ) -> Option<()> {
        let mut path = self.top.clone();
        let settled = is_local(&path).then(|| now.saturating_sub(SETTLED));
        let mut steps =
            WalkSteps { device: None, settled, are_asked: self.are_asked, mounts, entered: 0, tell };
        let mut top = mem::take(&mut self.tree);
        if !steps.enter(&mut top, &mut path) {
            return Some(());
        }
        // The directories from the top to here, each with the place of the next one in it.
        let mut way = vec![(top, 0)];
        while let Some((node, next)) = way.last_mut() {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some((name, child)) = node.below.get_mut(*next) {
                path.push(&**name);
                let mut child = mem::take(child);
                if steps.enter(&mut child, &mut path) {
                    way.push((child, 0));
                } else {
                    path.pop();
                    *next += 1;
                }
            } else if let Some((done, _)) = way.pop() {
                let Some((above, next)) = way.last_mut() else {
                    self.tree = done;
                    break;
                };
                if let Some((_, child)) = above.below.get_mut(*next).filter(|_| steps.entered < REMEMBERED) {
                    *child = done;
                }
                path.pop();
                *next += 1;
            }
        }
        Some(())
    }
}

/// What is the same for every directory of one walk.
struct WalkSteps<'a, T> {
    /// The file system of the top, once that is entered.
    device: Option<u64>,
    /// A directory that was not changed after this time is remembered; `None`: change times cannot be trusted.
    settled: Option<Duration>,
    are_asked: bool,
    mounts: &'a Mounts,
    /// How many directories there have been.
    entered: usize,
    tell: T,
}

impl<T: FnMut(WalkEvent<'_>) -> Option<Arc<FoundDatabase>>> WalkSteps<'_, T> {
    /// Reads a directory unless it is as it was, and tells what is in it. False when there is none, or on another file
    /// system.
    fn enter(&mut self, node: &mut Node, path: &mut PathBuf) -> bool {
        // Another file system is not entered. One that may not answer is not even asked whether it is another.
        if self.device.is_some() && self.mounts.is_remote_point(path) {
            return false;
        }
        let meta = match fs::symlink_metadata(&*path) {
            Ok(meta) => meta,
            Err(error) => {
                (self.tell)(WalkEvent::Unread(path, &error));
                return false;
            }
        };
        if !meta.is_dir() || *self.device.get_or_insert(meta.dev()) != meta.dev() {
            return false;
        }
        self.entered += 1;
        let stamp = Stamp::of(&meta);
        let is_as_it_was = node.stamp == Some(stamp);
        if !is_as_it_was {
            let read = node.read(path);
            if let Err(error) = &read {
                (self.tell)(WalkEvent::Unread(path, error));
            }
            node.stamp = Some(stamp).filter(|stamp| read.is_ok() && self.is_settled(stamp));
        }
        if let Some(beads) = &mut node.beads {
            path.push(BEADS);
            self.see(beads, is_as_it_was, path);
            path.pop();
        }
        true
    }

    fn see(&mut self, beads: &mut Beads, is_above_as_it_was: bool, path: &Path) {
        if self.mounts.is_remote_point(path) {
            // It is asked whether it answers first, in every look.
            (self.tell)(WalkEvent::Beads(path, None));
            return;
        }
        if let (Some((_, found)), true) = (&beads.0, is_above_as_it_was && self.are_asked) {
            (self.tell)(WalkEvent::Beads(path, Some(found)));
            return;
        }
        // A link to a directory has no time of its own that would tell of changes there.
        let there = fs::symlink_metadata(path).ok().filter(Metadata::is_dir);
        let stamp = there.as_ref().map(Stamp::of);
        if let (Some((known, found)), true) = (&beads.0, is_above_as_it_was)
            && stamp == Some(*known)
        {
            (self.tell)(WalkEvent::Beads(path, Some(found)));
            return;
        }
        let found = (self.tell)(WalkEvent::Beads(path, None));
        beads.0 = stamp.filter(|stamp| self.is_settled(stamp)).zip(found);
    }

    fn is_settled(&self, stamp: &Stamp) -> bool {
        self.settled.is_some_and(|settled| stamp.is_older_than(settled))
    }
}

impl Node {
    /// Learns the names; of those that were there before, what is below them stays.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut before = mem::take(&mut self.below);
        self.beads = None;
        let names = self.names(path);
        self.below.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, node) in &mut self.below {
            if let Ok(at) = before.binary_search_by(|(known, _)| known.cmp(name)) {
                *node = mem::take(&mut before[at].1);
            }
        }
        names
    }

    fn names(&mut self, path: &Path) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == BEADS {
                self.beads = Some(Beads::default());
            } else if name != GIT && entry.file_type()?.is_dir() {
                self.below.push((name.into_boxed_os_str(), Self::default()));
            }
        }
        Ok(())
    }
}

fn is_local(dir: &Path) -> bool {
    let file_system = File::open(dir).ok().and_then(|dir| FileSystem::of(dir).ok());
    file_system.is_some_and(|file_system| file_system.reach == Reach::Local)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests;
