//! One scan below the roots. It stays in the file system of each root, follows no links, and does not enter `.git` or
//! `.beads`. A `.beads` that is a link to a directory counts. A redirect is followed once.
//!
//! One directory, by device and inode, is one database. The scan leaves out named databases, and a database keeps the
//! path that it was found by first. It stays while its directory cannot be read, and is gone when its `.beads` is gone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use beadlock_base::error::system_words;
use beadlock_base::mounts::Mounts;
use beadlock_core::database::{Database, DatabaseVariables, NoDatabase, REDIRECT};
use beadlock_core::facts;
use beadlock_core::redirect::{self, Lead};
use beadlock_trust::Owners;

use super::SearchScope;
use super::walk::{BEADS, RootWalk, WalkEvent};
use crate::hang::{self, silence};
use crate::log::{AgentLine, agent_lines};

/// A database below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundDatabase {
    pub(super) root: PathBuf,
    /// The `.beads`, which may be a link, or have a redirect in it.
    pub(super) at: PathBuf,
    pub(crate) database: Database,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct RootScan {
    /// The databases that the scan found, by path, each once.
    pub(crate) found: Vec<Arc<FoundDatabase>>,
    pub(crate) problems: BTreeSet<ScanProblem>,
    /// The directories of databases that are not there any more.
    pub(crate) gone: Vec<PathBuf>,
    /// The directories of each root as this scan read them, for the next scan.
    pub(crate) walks: Vec<RootWalk>,
}

/// A problem that the user should know: the path, and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ScanProblem {
    /// A root or a directory cannot be read.
    Unread(PathBuf, String),
    /// A database is not served.
    NotServed(PathBuf, String),
}

impl ScanProblem {
    /// The path that is not served for this problem, and why. `None`: an unreadable directory that is neither a root
    /// nor a `.beads`.
    pub(super) fn refused(&self, roots: &[PathBuf]) -> Option<(&Path, &str)> {
        match self {
            Self::NotServed(at, why) => Some((at, why)),
            Self::Unread(dir, why) => {
                let counts =
                    roots.contains(dir) || dir.file_name().is_some_and(|name| name == BEADS);
                counts.then_some((dir, why))
            }
        }
    }

    /// The line of the log about this problem.
    pub(crate) fn line(&self) -> AgentLine {
        match self {
            Self::Unread(dir, why) => agent_lines::cannot_look(dir, why),
            Self::NotServed(dir, why) => agent_lines::not_serving(dir, why),
        }
    }
}

/// Scans below every root. `before` and `walks` are from the last scan. `None` when it was stopped.
pub(crate) fn look(
    scope: &SearchScope,
    before: &[Arc<FoundDatabase>],
    walks: Vec<RootWalk>,
    stop: &AtomicBool,
) -> Option<RootScan> {
    look_at(
        Duration::try_from(facts::now().0).unwrap_or_default(),
        scope,
        before,
        walks,
        stop,
    )
}

/// `now` is the time since 1970.
fn look_at(
    now: Duration,
    scope: &SearchScope,
    before: &[Arc<FoundDatabase>],
    mut walks: Vec<RootWalk>,
    stop: &AtomicBool,
) -> Option<RootScan> {
    let mut state = ScanState {
        owners: scope.owners,
        mounts: Mounts::now(),
        before,
        unread: BTreeSet::new(),
        asked: HashMap::new(),
        accepted: HashMap::new(),
        scan: RootScan::default(),
    };
    for root in &scope.roots {
        if state.is_silent(root) {
            continue;
        }
        match fs::canonicalize(root) {
            Err(error) => state.failed(root, &error),
            Ok(top) => {
                let at = walks.iter().position(|walk| walk.top == top);
                let mut walk = at.map_or_else(|| RootWalk::new(top), |at| walks.swap_remove(at));
                state.below(root, &mut walk, now, stop)?;
                state.scan.walks.push(walk);
            }
        }
    }
    state.stay();
    let ScanState {
        mut scan, mounts, ..
    } = state;
    let found = &mut scan.found;
    let are_the_same = found.len() == before.len()
        && found
            .iter()
            .zip(before)
            .all(|(one, other)| Arc::ptr_eq(one, other));
    if !are_the_same || !scope.named.is_empty() {
        each_once(found, scope, &mounts, before);
        scan.gone = gone(&scan, &mounts, before);
    }
    Some(scan)
}

/// The directories of earlier databases that are not there any more. A file system that may not answer is not asked.
fn gone(scan: &RootScan, mounts: &Mounts, before: &[Arc<FoundDatabase>]) -> Vec<PathBuf> {
    let found: HashSet<&Path> = scan
        .found
        .iter()
        .map(|found| found.database.dir.as_path())
        .collect();
    let dirs = before
        .iter()
        .filter(|before| !found.contains(before.database.dir.as_path()))
        .filter(|before| mounts.on_the_way(&before.database.dir).is_none() && !before.is_there());
    dirs.map(|before| before.database.dir.clone()).collect()
}

/// Keeps each directory once, and sorts by path.
fn each_once(
    found: &mut Vec<Arc<FoundDatabase>>,
    scope: &SearchScope,
    mounts: &Mounts,
    before: &[Arc<FoundDatabase>],
) {
    found.sort_by(|one, other| one.at.cmp(&other.at));
    let known: HashSet<&Path> = before
        .iter()
        .map(|found| found.database.dir.as_path())
        .collect();
    found.sort_by_key(|found| !known.contains(found.database.dir.as_path()));
    let is_silent = |dir: &Path| {
        mounts
            .on_the_way(dir)
            .is_some_and(|mount| !hang::answers(&mount.point))
    };
    let named = scope
        .named
        .iter()
        .filter(|dir| !is_silent(dir))
        .filter_map(|dir| fs::metadata(dir).ok());
    let mut inodes: HashSet<(u64, u64)> = named.map(|meta| (meta.dev(), meta.ino())).collect();
    found.retain(|found| inodes.insert(found.database.inode()));
    found.sort_by(|one, other| one.database.dir.cmp(&other.database.dir));
}

/// A scan under way; `'a` is the result of the last one.
#[derive(Debug)]
struct ScanState<'a> {
    owners: Owners,
    mounts: Mounts,
    /// The databases of the last scan, by their paths.
    before: &'a [Arc<FoundDatabase>],
    /// Roots, directories, and a `.beads` that could not be read.
    unread: BTreeSet<PathBuf>,
    /// The redirects and links below this root that the last scan accepted: git does not track them.
    asked: HashMap<PathBuf, Lead>,
    /// The redirects and links that this scan has accepted.
    accepted: HashMap<PathBuf, Lead>,
    scan: RootScan,
}

impl ScanState<'_> {
    /// Scans below one root. `None` when it was stopped.
    fn below(
        &mut self,
        root: &Path,
        walk: &mut RootWalk,
        now: Duration,
        stop: &AtomicBool,
    ) -> Option<()> {
        let top = walk.top.clone();
        self.asked = std::mem::take(&mut walk.accepted);
        let mounts = self.mounts.clone();
        let whole = walk.go(now, stop, &mounts, |event| match event {
            WalkEvent::Beads(_, Some(known)) if known.root == root => {
                self.scan.found.push(Arc::clone(known));
                None
            }
            WalkEvent::Beads(at, _) => self.open(root, at),
            WalkEvent::Unread(path, error) => {
                // A directory that has vanished meanwhile is not a problem, but a root is.
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

    /// A root or a directory could not be read. What was found there stays, unless there is nothing any more.
    fn failed(&mut self, path: &Path, error: &io::Error) {
        self.scan
            .problems
            .insert(ScanProblem::Unread(path.to_owned(), system_words(error)));
        if !is_absence(error) {
            self.unread.insert(path.to_owned());
        }
    }

    /// A database is not served for now.
    fn not_served(&mut self, at: &Path, why: impl ToString) {
        self.scan
            .problems
            .insert(ScanProblem::NotServed(at.to_owned(), why.to_string()));
    }

    /// Reports a database that could not be read: it is not served, but stays known if an earlier scan found it.
    fn stays_unread(&mut self, at: &Path, why: impl ToString) {
        self.not_served(at, why);
        self.unread.insert(at.to_owned());
    }

    /// Whether a root or a `.beads` lies on a file system that does not answer: what was found there stays.
    fn is_silent(&mut self, path: &Path) -> bool {
        let mount = self.mounts.on_the_way(path);
        let is_silent = mount.is_some_and(|mount| !hang::answers(&mount.point));
        if is_silent {
            self.stays_unread(path, silence(&self.mounts, path));
        }
        is_silent
    }

    /// Finds out what a `.beads` is. Returns it when that holds until a directory's change time says otherwise.
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
        let owner = self
            .owners
            .check(&found.database)
            .map_err(|why| why.to_string());
        if let Err(why) =
            owner.and_then(|()| self.refuse_tracked(&found).map_err(|why| why.to_string()))
        {
            self.not_served(at, why);
            return None;
        }
        let is_itself = found.at == found.database.dir && found.database.lead().is_none();
        self.scan.found.push(Arc::clone(&found));
        is_itself.then_some(found)
    }

    /// Asks git about a redirect or a link once, and again when it has changed or was refused.
    fn refuse_tracked(&mut self, found: &FoundDatabase) -> Result<(), NoDatabase> {
        let lead = found.database.lead();
        if lead.is_none() {
            return Ok(());
        }
        if self.asked.get(&found.at) != Some(&lead) {
            redirect::refuse_tracked(&found.database)?;
        }
        self.accepted.insert(found.at.clone(), lead);
        Ok(())
    }

    fn known(&self, root: &Path, at: &Path) -> Option<&Arc<FoundDatabase>> {
        let known = self
            .before
            .binary_search_by(|found| found.database.dir.as_path().cmp(at))
            .ok()?;
        self.before
            .get(known)
            .filter(|found| found.root == root && found.is_as_it_was())
    }

    fn find(&mut self, root: &Path, at: &Path) -> Option<Arc<FoundDatabase>> {
        match fs::metadata(at) {
            Ok(meta) if meta.is_dir() => {}
            Err(error) if !is_absence(&error) => {
                self.failed(at, &error);
                return None;
            }
            _ => return None,
        }
        let path = at.to_owned();
        let look_up = move || {
            Database::named(&path, &DatabaseVariables::default()).and_then(Database::to_stay_with)
        };
        // Its redirect may lead to a file system that does not answer.
        let answer = if self.mounts.are_local() {
            Some(look_up())
        } else {
            hang::call(at, look_up)
        };
        match answer {
            Some(Ok(database)) => {
                return Some(Arc::new(FoundDatabase {
                    root: root.to_owned(),
                    at: at.to_owned(),
                    database,
                }));
            }
            // Most likely a redirect that leads nowhere, or may not be read, perhaps only for a moment.
            Some(Err(error)) => self.stays_unread(at, error),
            None => self.stays_unread(at, silence(&self.mounts, at)),
        }
        None
    }

    /// Keeps what was found before where nothing could be read now.
    fn stay(&mut self) {
        if self.unread.is_empty() {
            return;
        }
        let seen: HashSet<PathBuf> = self
            .scan
            .found
            .iter()
            .map(|found| found.at.clone())
            .collect();
        let before = self.before;
        for found in before.iter().filter(|found| !seen.contains(&found.at)) {
            let is_unread = |dir: &Path| self.unread.contains(dir);
            if !is_unread(&found.root) && !found.at.ancestors().any(is_unread) {
                continue;
            }
            // One that may hang was asked already.
            if self.mounts.on_the_way(&found.at).is_none() {
                if !found.is_there() {
                    continue;
                }
                if let Err(why) = self.owners.check(&found.database) {
                    self.not_served(&found.at, why);
                    continue;
                }
            }
            self.scan.found.push(Arc::clone(found));
        }
    }
}

impl FoundDatabase {
    /// The `.beads` by which it was found.
    pub(crate) fn at(&self) -> &Path {
        &self.at
    }

    /// The database lies below a root of the scope, and is not one of the named databases.
    pub(super) fn is_in(&self, scope: &SearchScope) -> bool {
        scope.roots.contains(&self.root) && !scope.named.contains(&self.database.dir)
    }

    /// The `.beads` is still the same directory, not a link, and without a redirect.
    fn is_as_it_was(&self) -> bool {
        let is_the_same =
            |meta: fs::Metadata| meta.is_dir() && (meta.dev(), meta.ino()) == self.database.inode();
        self.at == self.database.dir
            && fs::symlink_metadata(&self.at).is_ok_and(is_the_same)
            && fs::symlink_metadata(self.at.join(REDIRECT)).is_err_and(|error| is_absence(&error))
    }

    /// False only when the directory of the database is known to be gone, or is not a directory any more.
    fn is_there(&self) -> bool {
        fs::metadata(&self.database.dir)
            .map_or_else(|error| !is_absence(&error), |meta| meta.is_dir())
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move and remove what they have made"
)]
mod tests;
