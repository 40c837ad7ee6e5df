//! The index of a repository, changed as git changes it: under `index.lock`, in a copy, by a rename.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Stop;
use super::repository::{Repository, other_git};
use super::turn::{self, Turn};

/// How long another git may have the index before this sync does without.
const PATIENCE: Duration = Duration::from_secs(1);

/// `index.lock`, held.
#[must_use = "dropped, the index is as it was"]
pub(super) struct IndexLock<'a> {
    repository: &'a Repository,
}

impl<'a> IndexLock<'a> {
    /// # Errors
    /// When another git has it for longer than a moment.
    pub(super) fn take(turn: &Turn<'a>) -> Result<Self, Stop> {
        let repository = turn.repository;
        let (file, lock) = (turn::path(repository), repository.index_lock());
        let begun = Instant::now();
        loop {
            match fs::hard_link(&file, &lock) {
                Ok(()) => return Ok(Self { repository }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let Ok(meta) = fs::symlink_metadata(&lock) else { continue };
                    if begun.elapsed() >= PATIENCE {
                        return Err(Stop::Refused(other_git(&lock, &meta)));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
                Err(error) => return Err(Stop::io("cannot make", &lock, &error)),
            }
        }
    }

    /// A copy of the index to work on, as old as the index: by its age git tells which files it must look into.
    pub(super) fn copy(&self) -> Result<PathBuf, Stop> {
        let (index, scratch) = (self.repository.index(), scratch(self.repository));
        let copy = || {
            fs::copy(&index, &scratch)?;
            let copy = File::options().write(true).open(&scratch)?;
            copy.set_modified(fs::metadata(&index)?.modified()?)
        };
        copy().map_err(|error| Stop::io("cannot copy", &index, &error))?;
        Ok(scratch)
    }

    /// The copy becomes the index, and the lock goes.
    pub(super) fn replace(self) -> Result<(), Stop> {
        let (index, scratch) = (self.repository.index(), scratch(self.repository));
        rename(&scratch, &index).map_err(|error| Stop::io("cannot replace", &index, &error))
    }
}

impl Drop for IndexLock<'_> {
    fn drop(&mut self) {
        remove(&self.repository.index_lock());
        remove(&scratch(self.repository));
    }
}

/// An index of our own.
pub(super) fn scratch(repository: &Repository) -> PathBuf {
    turn::own(repository, "index")
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that git or this sync has written, and that have their place again"
)]
pub(super) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[expect(clippy::disallowed_methods, reason = "the index is replaced as git does it, under its lock")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}
