//! The index of a repository, changed as git changes it: under `index.lock`, by a rename, and so that a crash in the
//! middle is finished by the next sync and not left to a person.
//!
//! # The claim
//! `index.lock` is made as a hard link to a file of our own beside it, the claim. A lock that is the same file as the
//! claim is ours; and because a sync runs under the database's gate, a claim that is found at its start is an orphan.
//! What is written in the claim is what was about to happen: nothing, or a [`Move`] of the branch and the working tree.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Stop;
use super::repository::{Repository, other_git};

/// How long another git may have the index before this sync does without.
const PATIENCE: Duration = Duration::from_secs(1);

/// Commits that a branch, and for a pull its index and its working tree, move between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) branch: String,
    pub(super) from: String,
    pub(super) to: String,
}

/// `index.lock`, held.
#[must_use = "dropped, the index is as it was"]
pub(super) struct IndexLock<'a> {
    repository: &'a Repository,
    is_kept: bool,
}

impl<'a> IndexLock<'a> {
    /// Takes the lock, and notes what is to happen under it.
    ///
    /// # Errors
    /// When another git has it for longer than a moment.
    pub(super) fn take(repository: &'a Repository, about: Option<&Move>) -> Result<Self, Stop> {
        let (claim, lock) = (claim(repository), repository.index_lock());
        let note =
            about.map(|about| format!("{} {} {}\n", about.from, about.to, about.branch)).unwrap_or_default();
        write_anew(&claim, note.as_bytes()).map_err(|error| Stop::io("cannot write", &claim, &error))?;
        let begun = Instant::now();
        loop {
            match fs::hard_link(&claim, &lock) {
                Ok(()) => return Ok(Self { repository, is_kept: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Ok(meta) = fs::symlink_metadata(&lock) else { continue };
                    if begun.elapsed() >= PATIENCE {
                        remove(&claim);
                        return Err(Stop::refused(other_git(&lock, &meta)));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => {
                    remove(&claim);
                    return Err(Stop::io("cannot make", &lock, &error));
                }
            }
        }
    }

    /// A copy of the index to work on.
    pub(super) fn copy(&self) -> Result<PathBuf, Stop> {
        let (index, scratch) = (self.repository.index(), scratch(self.repository));
        fs::copy(&index, &scratch).map_err(|error| Stop::io("cannot copy", &index, &error))?;
        Ok(scratch)
    }

    /// The copy becomes the index, and the lock goes.
    pub(super) fn replace(self) -> Result<(), Stop> {
        let (index, scratch) = (self.repository.index(), scratch(self.repository));
        rename(&scratch, &index).map_err(|error| Stop::io("cannot replace", &index, &error))
    }

    /// The lock goes, and the note stays: the next sync finishes what is not finished now.
    pub(super) fn leave_unfinished(mut self) {
        self.is_kept = true;
    }
}

impl Drop for IndexLock<'_> {
    fn drop(&mut self) {
        remove(&self.repository.index_lock());
        remove(&scratch(self.repository));
        if !self.is_kept {
            remove(&claim(self.repository));
        }
    }
}

/// Clears up after a sync that was killed. What it was about to do is returned, when it is not known to be done.
pub(super) fn recover(repository: &Repository) -> Result<Option<Move>, Stop> {
    let (claim, lock) = (claim(repository), repository.index_lock());
    for name in ["index", "index.lock", "message"] {
        remove(&repository.git_dir.join(format!("{}.{name}", repository.key)));
    }
    let Ok(ours) = fs::symlink_metadata(&claim) else { return Ok(None) };
    if fs::symlink_metadata(&lock).is_ok_and(|lock| (lock.dev(), lock.ino()) == (ours.dev(), ours.ino())) {
        remove(&lock);
    }
    let note = fs::read_to_string(&claim).map_err(|error| Stop::io("cannot read", &claim, &error))?;
    // No branch has a space in its name.
    let mut words = note.strip_suffix('\n').unwrap_or_default().split(' ').map(str::to_owned);
    let (Some(from), Some(to), Some(branch)) = (words.next(), words.next(), words.next()) else {
        remove(&claim);
        return Ok(None);
    };
    Ok(Some(Move { branch, from, to }))
}

/// There is nothing to finish.
pub(super) fn forget(repository: &Repository) {
    remove(&claim(repository));
}

/// An index of our own, for the tree of a commit.
pub(super) fn scratch(repository: &Repository) -> PathBuf {
    repository.git_dir.join(format!("{}.index", repository.key))
}

fn claim(repository: &Repository) -> PathBuf {
    repository.git_dir.join(format!("{}.claim", repository.key))
}

fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    remove(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

#[expect(clippy::disallowed_methods, reason = "files of git's directory that are ours by their name")]
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[expect(clippy::disallowed_methods, reason = "the index is replaced as git does it, under its lock")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}
