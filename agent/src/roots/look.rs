//! One look below the roots. It walks through one file system below each, follows no link, ignores nothing, and enters
//! neither `.git` nor `.beads`; a `.beads` that is itself a link to a directory counts. A redirect is followed once.
//!
//! The same directory, by device and inode, is one database, however many ways lead to it: one that is named is not
//! found, and what was found before keeps its path.
//!
//! What cannot be read says nothing: a database that was found there before, stays. It is gone when its `.beads` is.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use beadlock_checker::database::{Database, Environment, REDIRECT};
use beadlock_checker::{facts, system_words};

use super::Ground;
use super::walk::{Told, Walk};
use crate::log::{Line, own};

/// A database below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    root: PathBuf,
    /// The `.beads`, which may be a link, or have a redirect in it.
    at: PathBuf,
    pub(crate) database: Database,
}

impl Found {
    /// It lies below a root there, and is none of those that are named.
    pub(super) fn is_on(&self, ground: &Ground) -> bool {
        ground.roots.contains(&self.root) && !ground.named.contains(&self.database.dir)
    }
}

/// What a look has come upon.
#[derive(Debug, Default)]
pub(crate) struct Look {
    /// By path; each database once.
    pub(crate) found: Vec<Arc<Found>>,
    pub(crate) troubles: BTreeSet<Trouble>,
    /// What it has read, for the next one.
    pub(crate) walks: Vec<Walk>,
}

/// What somebody should know of, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// A root or a directory cannot be read.
    Unread(PathBuf, String),
    /// A database is not served.
    NotServed(PathBuf, String),
}

impl Trouble {
    /// As a line for the log.
    pub(crate) fn line(&self) -> Line {
        match self {
            Self::Unread(dir, why) => own::cannot_look(dir, why),
            Self::NotServed(dir, why) => own::not_serving(dir, why),
        }
    }
}

/// Looks below every root; `before` is what the last look has found, `walks` what it has read. `None` when it was told
/// to stop.
pub(crate) fn look(
    ground: &Ground,
    before: &[Arc<Found>],
    mut walks: Vec<Walk>,
    stop: &AtomicBool,
) -> Option<Look> {
    let now = Duration::try_from(facts::now().0).unwrap_or_default();
    let known = before.iter().map(|found| (found.at.as_path(), found)).collect();
    let mut seen = Seen { known, ..Seen::default() };
    let mut walked = Vec::new();
    for root in &ground.roots {
        match fs::canonicalize(root) {
            Err(error) => seen.failed(root, &error),
            Ok(top) => {
                let at = walks.iter().position(|walk| walk.top() == top);
                let mut walk = at.map_or_else(|| Walk::new(top), |at| walks.swap_remove(at));
                seen.below(root, &mut walk, now, stop)?;
                walked.push(walk);
            }
        }
    }
    let stays = |found: &&Arc<Found>| {
        seen.is_unread(found) && !seen.found.contains_key(&found.at) && found.is_there()
    };
    let staying: Vec<Arc<Found>> = before.iter().filter(stays).cloned().collect();
    seen.found.extend(staying.into_iter().map(|found| (found.at.clone(), found)));
    let Seen { found, troubles, .. } = seen;
    let mut look = Look { found: Vec::new(), troubles, walks: walked };
    look.judge(ground, before, found.into_values());
    Some(look)
}

impl Look {
    /// Each directory once, and those alone that may be served.
    fn judge(&mut self, ground: &Ground, before: &[Arc<Found>], seen: impl Iterator<Item = Arc<Found>>) {
        for one in seen {
            match ground.owners.check(&one.database) {
                Ok(()) => self.found.push(one),
                Err(why) => drop(self.troubles.insert(Trouble::NotServed(one.at.clone(), why))),
            }
        }
        let known: HashSet<&Path> = before.iter().map(|found| found.database.dir.as_path()).collect();
        self.found.sort_by_key(|found| !known.contains(found.database.dir.as_path()));
        let named = ground.named.iter().filter_map(|dir| fs::metadata(dir).ok());
        let mut inodes: HashSet<(u64, u64)> = named.map(|meta| (meta.dev(), meta.ino())).collect();
        self.found.retain(|found| inodes.insert(found.database.inode()));
        self.found.sort_by(|one, other| one.database.dir.cmp(&other.database.dir));
    }
}

/// What is seen in one look; `'a` is the memory of the last one.
#[derive(Debug, Default)]
struct Seen<'a> {
    /// What was found before, by the path of the `.beads`.
    known: HashMap<&'a Path, &'a Arc<Found>>,
    /// By the path of the `.beads`.
    found: BTreeMap<PathBuf, Arc<Found>>,
    /// Roots, directories, and a `.beads` that could not be read.
    unread: BTreeSet<PathBuf>,
    troubles: BTreeSet<Trouble>,
}
impl Seen<'_> {
    /// Everything below one root. `None` when it was told to stop.
    fn below(&mut self, root: &Path, walk: &mut Walk, now: Duration, stop: &AtomicBool) -> Option<()> {
        let top = walk.top().to_owned();
        walk.go(now, stop, |told| match told {
            Told::Beads(at) => self.open(root, at),
            // What has vanished meanwhile is no trouble, but the root itself.
            Told::Unread(path, error) if path == top => self.failed(root, error),
            Told::Unread(_, error) if is_absence(error) => {}
            Told::Unread(path, error) => self.failed(path, error),
        })
    }

    /// A root or a directory could not be read. Where there is nothing, nothing stays.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.troubles.insert(Trouble::Unread(path.to_owned(), system_words(error)));
        if !is_absence(error) {
            self.unread.insert(path.to_owned());
        }
    }

    fn open(&mut self, root: &Path, at: &Path) {
        if let Some(found) = self.known.get(at).filter(|found| found.root == root && found.is_as_it_was()) {
            self.found.insert(at.to_owned(), Arc::clone(found));
            return;
        }
        match fs::metadata(at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return,
            Err(error) if is_absence(&error) => return,
            Err(error) => return self.failed(at, &error),
        }
        match Database::named(at, &Environment::default()) {
            Ok(database) => {
                let found = Found { root: root.to_owned(), at: at.to_owned(), database };
                self.found.insert(at.to_owned(), Arc::new(found));
            }
            // Most likely a redirect that leads nowhere, perhaps only for a moment.
            Err(error) => {
                self.troubles.insert(Trouble::NotServed(at.to_owned(), error.to_string()));
                self.unread.insert(at.to_owned());
            }
        }
    }

    /// It lies where something could not be read.
    fn is_unread(&self, found: &Found) -> bool {
        let is_unread = |dir: &Path| self.unread.contains(dir);
        !self.unread.is_empty() && (is_unread(&found.root) || found.at.ancestors().any(is_unread))
    }
}

impl Found {
    /// It is still the same directory, no link, and no redirect leads from it.
    fn is_as_it_was(&self) -> bool {
        let is_the_same =
            |meta: fs::Metadata| meta.is_dir() && (meta.dev(), meta.ino()) == self.database.inode();
        self.at == self.database.dir
            && fs::symlink_metadata(&self.at).is_ok_and(is_the_same)
            && fs::symlink_metadata(self.at.join(REDIRECT)).is_err_and(|error| is_absence(&error))
    }

    /// It is not known to be gone.
    fn is_there(&self) -> bool {
        fs::metadata(&self.database.dir).map_or_else(|error| !is_absence(&error), |meta| meta.is_dir())
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
