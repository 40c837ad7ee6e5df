//! The directories below one root, as each was when it was last read.
//!
//! A directory whose change time is the same has the same names. So a walk asks every directory for that time, and
//! reads only those that have changed: otherwise it costs one `lstat` each. A `.beads` is asked too where its own
//! cycles do not do so. A time is trusted on a file system that only this machine writes, and when it lay
//! [`SETTLED`] back as the scan began: a later change may come within the same tick of the clock.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beadlock_base::mounts::Mounts;
use beadlock_core::redirect::Lead;
use beadlock_trust::{DirStamp, SETTLED};

use super::look::FoundDatabase;
use crate::stamp::is_local;

/// The name of a directory with a database in it.
pub(super) const BEADS: &str = ".beads";
/// The name of git's directory, which is not entered.
const GIT: &str = ".git";

/// How many directories are remembered, with some hundred bytes each; the others are read in every scan.
const REMEMBERED: usize = 100_000;

/// The directories below a root, as the scans so far have read them.
#[derive(Debug)]
pub(crate) struct RootWalk {
    /// The path of the root, without links.
    pub(super) top: PathBuf,
    tree: DirNode,
    /// The redirects and links that git does not track, and so are accepted, by the path of their `.beads`.
    pub(super) accepted: HashMap<PathBuf, Lead>,
    /// Since the last walk, the cycles have asked the owner and the redirect of each `.beads` and found nothing wrong.
    pub(super) are_asked: bool,
}

#[derive(Debug, Default)]
struct DirNode {
    /// The stamp of the directory when it was read; `None`: it has to be read again.
    stamp: Option<DirStamp>,
    /// The `.beads` in it, of whatever kind.
    beads: Option<BeadsEntry>,
    /// The other directories in it, in the order of their names.
    below: Vec<(Box<OsStr>, DirNode)>,
}

/// What was found at a `.beads`, and its stamp then; `None` where that is asked in every scan.
#[derive(Debug, Default)]
struct BeadsEntry(Option<(DirStamp, Arc<FoundDatabase>)>);

pub(super) enum WalkEvent<'a> {
    /// A `.beads` is here, and this was found when neither it nor its directory have changed since. The answer is what
    /// it is now, where that holds for as long as they do not change.
    Beads(&'a Path, Option<&'a Arc<FoundDatabase>>),
    /// This directory could not be read, or only in part.
    Unread(&'a Path, &'a io::Error),
}

impl RootWalk {
    /// `top` is a path without links.
    pub(super) fn new(top: PathBuf) -> Self {
        Self {
            top,
            tree: DirNode::default(),
            accepted: HashMap::new(),
            are_asked: false,
        }
    }

    /// Walks through one file system, follows no link, and enters neither `.git` nor `.beads`. `now` is the time at
    /// which the scan began, since 1970. `None` when it was stopped: what was read so far is forgotten.
    pub(super) fn go(
        &mut self,
        now: Duration,
        stop: &AtomicBool,
        mounts: &Mounts,
        tell: impl FnMut(WalkEvent<'_>) -> Option<Arc<FoundDatabase>>,
    ) -> Option<()> {
        let mut path = self.top.clone();
        let settled = File::open(&path)
            .is_ok_and(is_local)
            .then(|| now.saturating_sub(SETTLED));
        let mut steps = WalkSteps {
            device: None,
            settled,
            are_asked: self.are_asked,
            mounts,
            entered: 0,
            tell,
        };
        let mut top = mem::take(&mut self.tree);
        if !steps.enter(&mut top, &mut path) {
            return Some(());
        }
        // The directories from the top to here, each with the index of the next one in it.
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
                if let Some((_, child)) = above
                    .below
                    .get_mut(*next)
                    .filter(|_| steps.entered < REMEMBERED)
                {
                    *child = done;
                }
                path.pop();
                *next += 1;
            }
        }
        Some(())
    }
}

/// The state of one walk.
struct WalkSteps<'a, T> {
    /// The file system of the top, once that is entered.
    device: Option<u64>,
    /// A directory that was not changed after this time is remembered; `None`: change times cannot be trusted.
    settled: Option<Duration>,
    are_asked: bool,
    mounts: &'a Mounts,
    /// How many directories were entered.
    entered: usize,
    tell: T,
}

impl<T: FnMut(WalkEvent<'_>) -> Option<Arc<FoundDatabase>>> WalkSteps<'_, T> {
    /// Reads a directory unless it is as it was, and reports what is in it. False when there is none, or it is on
    /// another file system.
    fn enter(&mut self, node: &mut DirNode, path: &mut PathBuf) -> bool {
        // A file system that may not answer is not even asked whether it is another one.
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
        let stamp = DirStamp::from(&meta);
        if !meta.is_dir() || *self.device.get_or_insert(stamp.inode.0) != stamp.inode.0 {
            return false;
        }
        self.entered += 1;
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

    fn see(&mut self, beads: &mut BeadsEntry, is_above_as_it_was: bool, path: &Path) {
        if self.mounts.is_remote_point(path) {
            // In every scan it is asked first whether the file system answers.
            (self.tell)(WalkEvent::Beads(path, None));
            return;
        }
        let known = beads.0.as_ref().filter(|_| is_above_as_it_was);
        if let (Some((_, found)), true) = (known, self.are_asked) {
            (self.tell)(WalkEvent::Beads(path, Some(found)));
            return;
        }
        // The change time of a link says nothing about the directory that it leads to.
        let stamp = fs::symlink_metadata(path)
            .ok()
            .filter(Metadata::is_dir)
            .as_ref()
            .map(DirStamp::from);
        if let Some((_, found)) = known.filter(|(known, _)| stamp == Some(*known)) {
            (self.tell)(WalkEvent::Beads(path, Some(found)));
            return;
        }
        let found = (self.tell)(WalkEvent::Beads(path, None));
        beads.0 = stamp.filter(|stamp| self.is_settled(stamp)).zip(found);
    }

    fn is_settled(&self, stamp: &DirStamp) -> bool {
        self.settled
            .is_some_and(|settled| stamp.is_older_than(settled))
    }
}

impl DirNode {
    /// Reads the names. What is below those that were there before stays.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        let mut before = mem::take(&mut self.below);
        self.beads = None;
        let names = self.names(path);
        self.below
            .sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
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
                self.beads = Some(BeadsEntry::default());
            } else if name != GIT && entry.file_type()?.is_dir() {
                self.below.push((name.into_boxed_os_str(), Self::default()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move and remove what they have made"
)]
mod tests;
