//! The proof that nothing has changed since git was last asked, found without git.
//!
//! A [`Snapshot`] has the stamps (`lstat`) of everything by which git's answer could become another: each file of the
//! database, and what [`RepositoryFacts`] names. Two equal snapshots prove that nothing changed between them, when no
//! stamp of the first was racy. A file that changes twice within one tick of the clock may keep its stamp, as git
//! knows it of its index. So a stamp that is not older than the snapshot by a margin proves nothing. Where it cannot
//! be sure there is no snapshot, and git is asked.
//!
//! A part of it, the setup, is only of what tells where the repository is and what its settings are. As long as that is
//! the same, a sync of other changes does not ask for these again.
//!
//! # Limits
//! - A configuration that is included, and what a filter makes of a file, have no stamp. So a proof is good for one
//!   hour.
//! - A page that stays mapped is written without another stamp: the [contents](crate::contents) are looked at.
//! - Other machines may write on a network file system without this one seeing it: there git is asked each time.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::contents::RECENT;
use beadlock_repository::names::ExcludedNames;
use beadlock_repository::repository_facts::RepositoryFacts;
use beadlock_repository::stamp::{FileStamp, is_of_this_machine, owner};

/// The most entries of a database that are looked at. With more, git is asked.
const MANY: usize = 10_000;
/// The stamps of all that counts, at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    all: Stamps,
    setup: Stamps,
    /// The files of the database that were written within the last hour.
    recent: Vec<(PathBuf, FileStamp)>,
}

/// The files and settings that a snapshot is taken of.
pub struct Subjects<'a> {
    /// The database's directory.
    pub database: &'a Path,
    /// The agent's own files, which may lie in the database.
    pub own_files: &'a [PathBuf],
    /// The repository around it, as the last sync has found it.
    pub repository: &'a RepositoryFacts,
    /// The agent's settings that another sync would depend on: linked worktrees allowed, and any owner allowed.
    pub settings: [bool; 2],
}

impl Snapshot {
    /// Takes a snapshot. `now` is the time since 1970, read before. `None` where only git can tell.
    pub fn take(subjects: &Subjects<'_>, now: Duration) -> Option<Self> {
        let dirs = [subjects.database, subjects.repository.common_dir()];
        if !dirs.iter().all(|dir| is_of_this_machine(dir)) {
            return None;
        }
        Self::stamps(subjects, now).ok()
    }

    /// Whether the later one shows that nothing has changed.
    pub fn proves(&self, later: &Self) -> bool {
        self.all.prove(&later.all)
    }

    /// Whether the later one shows the same repository, with the same settings.
    pub fn proves_setup(&self, later: &Self) -> bool {
        self.setup.prove(&later.setup)
    }

    pub(crate) fn recent(&self) -> &[(PathBuf, FileStamp)] {
        &self.recent
    }

    fn stamps(subjects: &Subjects<'_>, now: Duration) -> io::Result<Self> {
        let mut setup = Stamps {
            now,
            digest: 0,
            is_settled: true,
        };
        setup.add(&(subjects.settings, subjects.own_files));
        let repository = subjects.repository;
        for dir in repository.owned().into_iter().chain([subjects.database]) {
            setup.owner(dir)?;
        }
        for path in repository.setup() {
            setup.path(&path)?;
        }
        let mut all = setup.clone();
        let recent = all.files_of(subjects)?;
        for path in repository.content() {
            all.path(&path)?;
        }
        Ok(Self { all, setup, recent })
    }
}

#[derive(Debug, Clone)]
struct Stamps {
    now: Duration,
    /// The sum of the digests of the entries, whose order says nothing.
    digest: u64,
    /// Whether none of the stamps is racy.
    is_settled: bool,
}

impl Stamps {
    fn prove(&self, later: &Self) -> bool {
        self.is_settled && self.digest == later.digest
    }

    /// Every file of the database but those that are never committed. Returns those that were written a short time ago.
    fn files_of(&mut self, subjects: &Subjects<'_>) -> io::Result<Vec<(PathBuf, FileStamp)>> {
        let mut recent = Vec::new();
        let names = ExcludedNames {
            top: PathBuf::new(),
            prefix: subjects.database.to_owned(),
            own: subjects.own_files.to_vec(),
        };
        let mut dirs = vec![subjects.database.to_owned()];
        let mut entries = 0;
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir)? {
                let entry = entry?;
                let path = entry.path();
                if names.is_left_out(path.as_os_str().as_encoded_bytes()) {
                    continue;
                }
                entries += 1;
                if entries > MANY {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                let meta = entry.metadata()?;
                if meta.is_dir() {
                    // Its names are read; its times change with what is left out.
                    self.add(&(&path, owner(&meta)));
                    dirs.push(path);
                } else {
                    let stamp = self.file(&path, &meta);
                    if meta.is_file() && !stamp.is_older(RECENT, self.now) {
                        recent.push((path, stamp));
                    }
                }
            }
        }
        Ok(recent)
    }

    fn path(&mut self, path: &Path) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            // A directory is watched for being there.
            Ok(meta) if meta.is_dir() => self.add(&(path, owner(&meta))),
            Ok(meta) => drop(self.file(path, &meta)),
            Err(error) if is_absent(&error) => self.add(&(path, "absent")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn add(&mut self, entry: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        entry.hash(&mut hasher);
        self.digest = self.digest.wrapping_add(hasher.finish());
    }

    fn owner(&mut self, dir: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(dir)?;
        self.add(&(dir, owner(&meta)));
        Ok(())
    }

    fn file(&mut self, path: &Path, meta: &Metadata) -> FileStamp {
        let stamp = FileStamp::from(meta);
        self.is_settled &= stamp.is_settled(self.now);
        self.add(&(path, &stamp));
        stamp
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests change what they have made"
)]
mod tests;
