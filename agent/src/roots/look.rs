//! One look below the roots. It stays in the file system of each root, follows no links, and does not enter `.git` or
//! `.beads`. A `.beads` that is a link to a directory counts. A redirect is followed once.
//!
//! One directory, by device and inode, is one database. The look leaves out named databases, and a database keeps the
//! path that it was found by first.
//!
//! A database stays while its directory cannot be read. It is gone when its `.beads` is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use beadlock_checker::internal::database::{Database, Environment, NoDatabase, REDIRECT};
use beadlock_checker::internal::mounts::Mounts;
use beadlock_checker::internal::redirect::{self, Lead};
use beadlock_checker::internal::{facts, system_words};

use super::SearchScope;
use super::walk::{RootWalk, WalkEvent};
use crate::beside::{self, silence};
use crate::log::{Line, own};
use crate::owner::Owners;

/// A database below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundDatabase {
    pub(super) root: PathBuf,
    /// The `.beads`, which may be a link, or have a redirect in it.
    pub(super) at: PathBuf,
    pub(crate) database: Database,
}

impl FoundDatabase {
    /// It lies below a root there, and is none of those that are named.
    pub(super) fn is_on(&self, ground: &SearchScope) -> bool {
        ground.roots.contains(&self.root) && !ground.named.contains(&self.database.dir)
    }
}

/// What a look has come upon.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    /// By path; each database once.
    pub(crate) found: Vec<Arc<FoundDatabase>>,
    pub(crate) problems: BTreeSet<ScanProblem>,
    /// What it has read, for the next one.
    pub(crate) walks: Vec<RootWalk>,
}

/// What somebody should know of, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScanProblem {
    /// A root or a directory cannot be read.
    Unread(PathBuf, String),
    /// A database is not served.
    NotServed(PathBuf, String),
}

impl ScanProblem {
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
    ground: &SearchScope,
    before: &[Arc<FoundDatabase>],
    walks: Vec<RootWalk>,
    stop: &AtomicBool,
) -> Option<RootScan> {
    look_at(Duration::try_from(facts::now().0).unwrap_or_default(), ground, before, walks, stop)
}

/// At this time, since 1970.
fn look_at(
    now: Duration,
    ground: &SearchScope,
    before: &[Arc<FoundDatabase>],
    mut walks: Vec<RootWalk>,
    stop: &AtomicBool,
) -> Option<RootScan> {
    let (found, unread, problems) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (asked, accepted) = (HashMap::new(), HashMap::new());
    let mounts = Mounts::now();
    let mut seen = LookState {
        owners: ground.owners,
        mounts: &mounts,
        before,
        found,
        unread,
        problems,
        asked,
        accepted,
    };
    let mut walked = Vec::new();
    for root in &ground.roots {
        if seen.is_silent(root) {
            continue;
        }
        match fs::canonicalize(root) {
            Err(error) => seen.failed(root, &error),
            Ok(top) => {
                let at = walks.iter().position(|walk| walk.top == top);
                let mut walk = at.map_or_else(|| RootWalk::new(top), |at| walks.swap_remove(at));
                seen.below(root, &mut walk, now, stop)?;
                walked.push(walk);
            }
        }
    }
    seen.stay();
    let LookState { mut found, problems, .. } = seen;
    let are_the_same =
        found.len() == before.len() && found.iter().zip(before).all(|(one, other)| Arc::ptr_eq(one, other));
    if !are_the_same || !ground.named.is_empty() {
        each_once(&mut found, ground, &mounts, before);
    }
    Some(RootScan { found, problems, walks: walked })
}

/// Each directory once, by its path.
fn each_once(
    found: &mut Vec<Arc<FoundDatabase>>,
    ground: &SearchScope,
    mounts: &Mounts,
    before: &[Arc<FoundDatabase>],
) {
    found.sort_by(|one, other| one.at.cmp(&other.at));
    let known: HashSet<&Path> = before.iter().map(|found| found.database.dir.as_path()).collect();
    found.sort_by_key(|found| !known.contains(found.database.dir.as_path()));
    let is_silent = |dir: &Path| mounts.on_the_way(dir).is_some_and(|mount| !beside::answers(&mount.point));
    let asked = ground.named.iter().filter(|dir| !is_silent(dir));
    let named = asked.filter_map(|dir| fs::metadata(dir).ok());
    let mut inodes: HashSet<(u64, u64)> = named.map(|meta| (meta.dev(), meta.ino())).collect();
    found.retain(|found| inodes.insert(found.database.inode()));
    found.sort_by(|one, other| one.database.dir.cmp(&other.database.dir));
}

/// What is seen in one look; `'a` is the memory of the last one.
#[derive(Debug)]
struct LookState<'a> {
    owners: Owners,
    mounts: &'a Mounts,
    /// What was found before, by the path of the database.
    before: &'a [Arc<FoundDatabase>],
    /// Those that may be served, as they came.
    found: Vec<Arc<FoundDatabase>>,
    /// Roots, directories, and a `.beads` that could not be read.
    unread: BTreeSet<PathBuf>,
    problems: BTreeSet<ScanProblem>,
    /// What git was asked about below this root, by the last look and by this one.
    asked: HashMap<PathBuf, Lead>,
    accepted: HashMap<PathBuf, Lead>,
}

impl LookState<'_> {
    /// Everything below one root. `None` when it was told to stop.
    fn below(&mut self, root: &Path, walk: &mut RootWalk, now: Duration, stop: &AtomicBool) -> Option<()> {
        let top = walk.top.clone();
        self.asked = std::mem::take(&mut walk.accepted);
        let whole = walk.go(now, stop, self.mounts, |told| match told {
            WalkEvent::Beads(_, Some(known)) if known.root == root => {
                self.found.push(Arc::clone(known));
                None
            }
            WalkEvent::Beads(at, _) => self.open(root, at),
            WalkEvent::Unread(path, error) => {
                // What has vanished meanwhile is no trouble, but the root itself.
                if path == top {
                    self.failed(root, error);
                } else if !is_absence(error) {
                    self.failed(path, error);
                }
                None
            }
        });
        walk.accepted = std::mem::take(&mut self.accepted);
        whole
    }

    /// A root or a directory could not be read. Where there is nothing, nothing stays.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.problems.insert(ScanProblem::Unread(path.to_owned(), system_words(error)));
        if !is_absence(error) {
            self.unread.insert(path.to_owned());
        }
    }

    /// A database is not served for now.
    fn not_served(&mut self, at: &Path, why: impl ToString) {
        self.problems.insert(ScanProblem::NotServed(at.to_owned(), why.to_string()));
    }

    /// The same where it could not be read: what was found there stays.
    fn stays_unread(&mut self, at: &Path, why: impl ToString) {
        self.not_served(at, why);
        self.unread.insert(at.to_owned());
    }

    /// A root or a `.beads` lies on a file system that does not answer, which is said; what was found there stays.
    fn is_silent(&mut self, path: &Path) -> bool {
        let Some(mount) = self.mounts.on_the_way(path) else { return false };
        let is_silent = !beside::answers(&mount.point);
        if is_silent {
            self.stays_unread(path, silence(self.mounts, path));
        }
        is_silent
    }

    /// What a `.beads` is, when it may be served and that will hold until the change time of a directory says
    /// otherwise.
    fn open(&mut self, root: &Path, at: &Path) -> Option<Arc<FoundDatabase>> {
        if self.is_silent(at) {
            return None;
        }
        let found = match self.known(root, at) {
            Some(found) => Arc::clone(found),
            None => self.find(root, at)?,
        };
        if found.database.dir != at && self.is_silent(&found.database.dir) {
            // It stays by its own path, not by the one that it leads to.
            self.unread.insert(at.to_owned());
            return None;
        }
        let owner = self.owners.check(&found.database).map_err(|why| why.to_string());
        if let Err(why) = owner.and_then(|()| self.refuse_tracked(&found).map_err(|why| why.to_string())) {
            self.not_served(at, why);
            return None;
        }
        let is_itself = found.at == found.database.dir && found.database.lead().is_none();
        let is_remembered = is_itself.then(|| Arc::clone(&found));
        self.found.push(found);
        is_remembered
    }

    /// Git is asked about a redirect or a link once, and again when it has changed or was refused.
    fn refuse_tracked(&mut self, found: &FoundDatabase) -> Result<(), NoDatabase> {
        if found.database.lead().is_none() {
            return Ok(());
        }
        let lead = found.database.lead();
        if self.asked.get(&found.at) != Some(&lead) {
            redirect::refuse_tracked(&found.database)?;
        }
        self.accepted.insert(found.at.clone(), lead);
        Ok(())
    }

    fn known(&self, root: &Path, at: &Path) -> Option<&Arc<FoundDatabase>> {
        let known = self.before.binary_search_by(|found| found.database.dir.as_path().cmp(at)).ok()?;
        self.before.get(known).filter(|found| found.root == root && found.is_as_it_was())
    }

    fn find(&mut self, root: &Path, at: &Path) -> Option<Arc<FoundDatabase>> {
        match fs::metadata(at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return None,
            Err(error) => {
                if !is_absence(&error) {
                    self.failed(at, &error);
                }
                return None;
            }
        }
        let path = at.to_owned();
        let look_up =
            move || Database::named(&path, &Environment::default()).and_then(Database::to_stay_with);
        // Its redirect may lead to a file system that does not answer.
        let answer = if self.mounts.are_local() { Some(look_up()) } else { beside::call(at, look_up) };
        match answer {
            Some(Ok(database)) => {
                return Some(Arc::new(FoundDatabase { root: root.to_owned(), at: at.to_owned(), database }));
            }
            // Most likely a redirect that leads nowhere, or may not be read, perhaps only for a moment.
            Some(Err(error)) => self.stays_unread(at, error),
            None => self.stays_unread(at, silence(self.mounts, at)),
        }
        None
    }

    /// What was found before stays where nothing could be read now.
    fn stay(&mut self) {
        if self.unread.is_empty() {
            return;
        }
        let seen: HashSet<PathBuf> = self.found.iter().map(|found| found.at.clone()).collect();
        // One that hangs has been asked already.
        let may_hang = |found: &FoundDatabase| self.mounts.on_the_way(&found.at).is_some();
        let stays = |found: &&Arc<FoundDatabase>| {
            self.is_unread(found) && !seen.contains(&found.at) && (may_hang(found) || found.is_there())
        };
        let staying: Vec<Arc<FoundDatabase>> = self.before.iter().filter(stays).cloned().collect();
        for found in staying {
            let hangs = self.mounts.on_the_way(&found.at).is_some();
            let owner = if hangs { Ok(()) } else { self.owners.check(&found.database) };
            match owner {
                Ok(()) => self.found.push(found),
                Err(why) => self.not_served(&found.at, why),
            }
        }
    }

    /// It lies where something could not be read.
    fn is_unread(&self, found: &FoundDatabase) -> bool {
        let is_unread = |dir: &Path| self.unread.contains(dir);
        is_unread(&found.root) || found.at.ancestors().any(is_unread)
    }
}

impl FoundDatabase {
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests;
