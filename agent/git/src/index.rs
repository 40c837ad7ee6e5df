//! The index of a repository, changed as git changes it: under `index.lock`, in a copy, by a rename.
//!
//! It is replaced before the branch moves, because `git commit` reads the branch, then the index, and only then takes
//! `index.lock`. With the branch first, a commit by hand in between would put the old index on the new commit and so
//! take back what that brings. In this order git finds that the branch has moved, and fails.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::truth;
use beadlock_repository::{Git, Repository, RepositoryLock, SyncStop, remove, repository_lock};

#[must_use = "dropped, the index is as it was"]
pub(crate) struct IndexLock<'a> {
    pub(crate) repository: &'a Repository,
}

impl<'a> IndexLock<'a> {
    /// Takes `index.lock`, unless the database is claimed by now.
    pub(crate) fn take(turn: &RepositoryLock<'a>) -> Result<Self, SyncStop> {
        let repository = turn.repository;
        repository.check_unclaimed()?;
        let (file, lock) = (repository_lock::path(repository), repository.index_lock());
        let begun = Instant::now();
        loop {
            match fs::hard_link(&file, &lock) {
                Ok(()) => return Ok(Self { repository }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    repository.wait_for_index(begun)?
                }
                Err(error) => return Err(SyncStop::io("cannot make", &lock, &error)),
            }
        }
    }

    pub(crate) fn copy(&self) -> Result<PathBuf, SyncStop> {
        let scratch = scratch(self.repository);
        copy(self.repository, &scratch)?;
        if self.repository.request.contents {
            forget_age(&scratch);
        }
        Ok(scratch)
    }

    /// Makes the copy the index. The old index is kept for as long as the lock is held.
    pub(crate) fn replace(&self) -> Result<(), SyncStop> {
        copy(self.repository, &before(self.repository))?;
        self.become_index(&scratch(self.repository))
    }

    /// Puts the index back as it was before it was replaced.
    pub(crate) fn put_back(&self) -> Result<(), SyncStop> {
        self.become_index(&before(self.repository))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the index is replaced as git does it, under its lock"
    )]
    fn become_index(&self, path: &Path) -> Result<(), SyncStop> {
        let index = self.repository.index();
        fs::rename(path, &index).map_err(|error| SyncStop::io("cannot replace", &index, &error))
    }
}

impl Drop for IndexLock<'_> {
    fn drop(&mut self) {
        remove(&self.repository.index_lock());
        remove(&scratch(self.repository));
        remove(&before(self.repository));
    }
}

/// Sets entries to the first side of a difference: the raw words of `git diff-index -z`.
pub(crate) fn set_back(git: &Git, index: &Path, differing: &[Vec<u8>]) -> Result<(), SyncStop> {
    let mut entries = Vec::new();
    for entry in differing.chunks_exact(2) {
        // `:MODE MODE HASH HASH STATUS`, the first of each as they become.
        let fields: Vec<_> = entry[0].split(|byte| *byte == b' ').collect();
        if let [mode, _, hash, ..] = fields.as_slice() {
            let mode = mode.strip_prefix(b":").unwrap_or(mode);
            entries.extend([mode, b" ", hash, b"\t", &entry[1], b"\0"].concat());
        }
    }
    if !entries.is_empty() {
        let args = ["update-index", "--replace", "-z", "--index-info"];
        git.call(args).index(index).stdin(entries).done()?;
    }
    Ok(())
}

pub(crate) fn set(
    git: &Git,
    index: &Path,
    commit: &str,
    paths: &[Vec<u8>],
) -> Result<(), SyncStop> {
    let args = ["diff-index", "--cached", "-z", "--no-renames", commit];
    let paths: BTreeSet<_> = paths.iter().collect();
    let differing = git.call(args).index(index).words()?;
    let of_these = differing
        .chunks_exact(2)
        .filter(|entry| paths.contains(&entry[1]))
        .flatten()
        .cloned();
    set_back(git, index, &of_these.collect::<Vec<_>>())
}

/// Copies the index to `path`, with its age: by that git tells which files it must look into.
pub(crate) fn copy(repository: &Repository, path: &Path) -> Result<(), SyncStop> {
    let index = repository.index();
    let copy = || {
        fs::copy(&index, path)?;
        let copy = File::options().write(true).open(path)?;
        copy.set_modified(fs::metadata(&index)?.modified()?)
    };
    copy().map_err(|error| SyncStop::io("cannot copy", &index, &error))
}

/// The status of the database by contents, whatever the times of its files say: on a copy of the index that is older
/// than all of them.
pub(crate) fn contents_status(
    repository: &Repository,
    options: &[&str],
) -> Result<Vec<Vec<u8>>, SyncStop> {
    let path = repository_lock::own(repository, &format!("contents.{}", std::process::id()));
    copy(repository, &path)?;
    forget_age(&path);
    let args = ["status", "--porcelain=v2", "-z", "--no-renames"];
    let call = repository
        .git
        .call(args.iter().chain(options).chain(&["--"]));
    let status = call.paths([repository.inside()]).index(&path).words();
    remove(&path);
    status
}

/// Makes git compare all contents.
pub(crate) fn forget_age(index: &Path) {
    truth::forget_since(index, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
}

/// The path of an index of our own.
pub(crate) fn scratch(repository: &Repository) -> PathBuf {
    repository_lock::own(repository, "index")
}

fn before(repository: &Repository) -> PathBuf {
    repository_lock::own(repository, "index.before")
}
