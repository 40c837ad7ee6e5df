//! One look below the roots. It walks through one file system below each, follows no link, ignores nothing, and enters
//! neither `.git` nor `.beads`; a `.beads` that is itself a link to a directory counts. A redirect is followed once.
//!
//! The same directory, by device and inode, is one database, however many ways lead to it: one that is named is not
//! found, and what was found before keeps its path.
//!
//! What cannot be read says nothing: a database that was found there before, stays. It is gone when its `.beads` is.

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

use super::Ground;
use super::walk::{Told, Walk};
use crate::beside::{self, silence};
use crate::log::{Line, own};
use crate::owner::Owners;

/// A database below a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(super) root: PathBuf,
    /// The `.beads`, which may be a link, or have a redirect in it.
    pub(super) at: PathBuf,
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
    walks: Vec<Walk>,
    stop: &AtomicBool,
) -> Option<Look> {
    look_at(Duration::try_from(facts::now().0).unwrap_or_default(), ground, before, walks, stop)
}

/// At this time, since 1970.
fn look_at(
    now: Duration,
    ground: &Ground,
    before: &[Arc<Found>],
    mut walks: Vec<Walk>,
    stop: &AtomicBool,
) -> Option<Look> {
    let (found, unread, troubles) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let (asked, accepted) = (HashMap::new(), HashMap::new());
    let mounts = Mounts::now();
    let mut seen =
        Seen { owners: ground.owners, mounts: &mounts, before, found, unread, troubles, asked, accepted };
    let mut walked = Vec::new();
    for root in &ground.roots {
        if seen.is_silent(root) {
            continue;
        }
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
    seen.stay();
    let Seen { mut found, troubles, .. } = seen;
    let are_the_same =
        found.len() == before.len() && found.iter().zip(before).all(|(one, other)| Arc::ptr_eq(one, other));
    if !are_the_same || !ground.named.is_empty() {
        each_once(&mut found, ground, &mounts, before);
    }
    Some(Look { found, troubles, walks: walked })
}

/// Each directory once, by its path.
fn each_once(found: &mut Vec<Arc<Found>>, ground: &Ground, mounts: &Mounts, before: &[Arc<Found>]) {
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
struct Seen<'a> {
    owners: Owners,
    mounts: &'a Mounts,
    /// What was found before, by the path of the database.
    before: &'a [Arc<Found>],
    /// Those that may be served, as they came.
    found: Vec<Arc<Found>>,
    /// Roots, directories, and a `.beads` that could not be read.
    unread: BTreeSet<PathBuf>,
    troubles: BTreeSet<Trouble>,
    /// What git was asked about below this root, by the last look and by this one.
    asked: HashMap<PathBuf, Lead>,
    accepted: HashMap<PathBuf, Lead>,
}

impl Seen<'_> {
    /// Everything below one root. `None` when it was told to stop.
    fn below(&mut self, root: &Path, walk: &mut Walk, now: Duration, stop: &AtomicBool) -> Option<()> {
        let top = walk.top().to_owned();
        self.asked = std::mem::take(&mut walk.accepted);
        let whole = walk.go(now, stop, self.mounts, |told| match told {
            Told::Beads(_, Some(known)) if known.root == root => {
                self.found.push(Arc::clone(known));
                None
            }
            Told::Beads(at, _) => self.open(root, at),
            Told::Unread(path, error) => {
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
        self.troubles.insert(Trouble::Unread(path.to_owned(), system_words(error)));
        if !is_absence(error) {
            self.unread.insert(path.to_owned());
        }
    }

    /// A root or a `.beads` lies on a file system that does not answer, which is said; what was found there stays.
    fn is_silent(&mut self, path: &Path) -> bool {
        let Some(mount) = self.mounts.on_the_way(path) else { return false };
        let is_silent = !beside::answers(&mount.point);
        if is_silent {
            self.troubles.insert(Trouble::NotServed(path.to_owned(), silence(self.mounts, path)));
            self.unread.insert(path.to_owned());
        }
        is_silent
    }

    /// What a `.beads` is, when it may be served and that will hold until the change time of a directory says otherwise.
    fn open(&mut self, root: &Path, at: &Path) -> Option<Arc<Found>> {
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
        if let Err(why) = self.owners.check(&found.database) {
            self.troubles.insert(Trouble::NotServed(at.to_owned(), why.to_string()));
            return None;
        }
        if let Err(why) = self.refuse_tracked(&found) {
            self.troubles.insert(Trouble::NotServed(at.to_owned(), why.to_string()));
            return None;
        }
        let is_itself = found.at == found.database.dir && found.database.lead().is_none();
        let is_remembered = is_itself.then(|| Arc::clone(&found));
        self.found.push(found);
        is_remembered
    }

    /// Git is asked about a redirect or a link once, and again when it has changed or was refused.
    fn refuse_tracked(&mut self, found: &Found) -> Result<(), NoDatabase> {
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

    fn known(&self, root: &Path, at: &Path) -> Option<&Arc<Found>> {
        let known = self.before.binary_search_by(|found| found.database.dir.as_path().cmp(at)).ok()?;
        self.before.get(known).filter(|found| found.root == root && found.is_as_it_was())
    }

    fn find(&mut self, root: &Path, at: &Path) -> Option<Arc<Found>> {
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
        let Some(answer) = answer else {
            self.troubles.insert(Trouble::NotServed(at.to_owned(), silence(self.mounts, at)));
            self.unread.insert(at.to_owned());
            return None;
        };
        match answer {
            Ok(database) => Some(Arc::new(Found { root: root.to_owned(), at: at.to_owned(), database })),
            // Most likely a redirect that leads nowhere, or may not be read, perhaps only for a moment.
            Err(error) => {
                self.troubles.insert(Trouble::NotServed(at.to_owned(), error.to_string()));
                self.unread.insert(at.to_owned());
                None
            }
        }
    }

    /// What was found before stays where nothing could be read now.
    fn stay(&mut self) {
        if self.unread.is_empty() {
            return;
        }
        let seen: HashSet<PathBuf> = self.found.iter().map(|found| found.at.clone()).collect();
        // One that hangs has been asked already.
        let may_hang = |found: &Found| self.mounts.on_the_way(&found.at).is_some();
        let stays = |found: &&Arc<Found>| {
            self.is_unread(found) && !seen.contains(&found.at) && (may_hang(found) || found.is_there())
        };
        let staying: Vec<Arc<Found>> = self.before.iter().filter(stays).cloned().collect();
        for found in staying {
            if self.mounts.on_the_way(&found.at).is_some() {
                self.found.push(found);
                continue;
            }
            match self.owners.check(&found.database) {
                Ok(()) => self.found.push(found),
                Err(why) => {
                    self.troubles.insert(Trouble::NotServed(found.at.clone(), why.to_string()));
                }
            }
        }
    }

    /// It lies where something could not be read.
    fn is_unread(&self, found: &Found) -> bool {
        let is_unread = |dir: &Path| self.unread.contains(dir);
        is_unread(&found.root) || found.at.ancestors().any(is_unread)
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

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests move and remove what they have made")]
mod tests {
    use super::*;
    use nix::unistd::geteuid;
    use std::os::unix::fs::chown;

    const LATER: Duration = Duration::from_secs(1 << 40);

    /// One look after the other, each with what the last one has read.
    fn again(ground: &Ground, last: Look) -> Look {
        look_at(LATER, ground, &last.found, last.walks, &AtomicBool::new(false)).unwrap()
    }

    /// Runs git in a directory, with nothing of its user's.
    fn git(dir: &Path, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(git.status().unwrap().success(), "git {args:?}");
    }

    #[test]
    fn git_is_asked_about_a_redirect_once_and_again_when_it_has_changed_or_was_refused() {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        for dir in ["a/.beads", "other/.beads"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        git(&top, &["init", "--quiet"]);
        let redirect = top.join("a/.beads/redirect");
        fs::write(&redirect, "../other/.beads").unwrap();
        let ground =
            Ground { roots: vec![top.join("a")], named: Vec::new(), owners: Owners::of_this_user(false) };
        let first = again(&ground, Look::default());
        assert_eq!(first.found[0].database.dir, top.join("other/.beads"));
        git(&top, &["add", "a/.beads/redirect"]);
        let second = again(&ground, first);
        assert_eq!((second.found.len(), second.troubles.len()), (1, 0), "it has not changed");
        fs::write(&redirect, "# changed\n../other/.beads").unwrap();
        let third = again(&ground, second);
        assert!(third.found.is_empty(), "asked again");
        let Some(Trouble::NotServed(at, why)) = third.troubles.first() else { panic!("{third:?}") };
        assert!(at.ends_with("a/.beads") && why.contains("/redirect is tracked by git, so "), "{why}");
        let fourth = again(&ground, third);
        assert_eq!((fourth.found.len(), fourth.troubles.len()), (0, 1), "said for as long as it is so");
        git(&top, &["rm", "--quiet", "--force", "--cached", "a/.beads/redirect"]);
        assert_eq!(again(&ground, fourth).found.len(), 1, "asked again");
    }

    fn names(look: &Look, top: &Path) -> Vec<String> {
        let name = |found: &Arc<Found>| found.at.strip_prefix(top).unwrap().display().to_string();
        look.found.iter().map(name).collect()
    }

    #[test]
    fn what_has_not_changed_is_what_it_was_and_what_has_is_looked_at() {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        for dir in ["a/.beads", "b/.beads", "c/.beads", "other"] {
            fs::create_dir_all(top.join(dir)).unwrap();
        }
        let owners = Owners::of_this_user(false);
        let ground = Ground { roots: vec![top.clone()], named: Vec::new(), owners };
        let first = again(&ground, Look::default());
        assert_eq!(names(&first, &top), ["a/.beads", "b/.beads", "c/.beads"]);
        let known = first.found.clone();
        let second = again(&ground, first);
        assert!(second.found.iter().zip(&known).all(|(one, other)| Arc::ptr_eq(one, other)));
        fs::write(top.join("a/.beads/redirect"), "other").unwrap();
        fs::create_dir_all(top.join("a/other")).unwrap();
        fs::rename(top.join("b"), top.join("d")).unwrap();
        let third = again(&ground, second);
        assert_eq!(names(&third, &top), ["a/.beads", "c/.beads", "d/.beads"]);
        assert_eq!(third.found[0].database.dir, top.join("a/other"), "led there");
        let fourth = again(&ground, third);
        assert_eq!(names(&fourth, &top).len(), 3);
        if !geteuid().is_root() {
            return;
        }
        chown(top.join("c"), Some(54_321), None).unwrap();
        chown(top.join("d/.beads"), Some(54_321), None).unwrap();
        let fifth = again(&ground, fourth);
        assert_eq!(names(&fifth, &top), ["a/.beads"]);
        assert_eq!(again(&ground, fifth).troubles.len(), 2, "said for as long as it is so");
    }
}
