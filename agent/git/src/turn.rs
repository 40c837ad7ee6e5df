//! One sync at a time in a repository, and what one that was killed has left for the next.
//!
//! The turn is an flock on a file of our own in the git directory, so it ends with the process. `index.lock` is made as
//! a hard link to that file: one with the same inode is ours, and the sync that has the turn may remove it. A move is
//! noted in the file before it begins ([`Move`]); the file is removed when nothing is left to finish.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_checker::internal::sys::{Flock, flock};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW};

use crate::{GitReason, Move, Repository, Stop};

/// How long another database's sync of this repository may have its turn.
const PATIENCE: Duration = Duration::from_secs(10);

#[must_use = "dropped, it is the next one's"]
pub(crate) struct SyncTurn<'a> {
    pub(crate) repository: &'a Repository,
    file: File,
    is_unfinished: bool,
}

impl<'a> SyncTurn<'a> {
    /// Waits for its turn, and clears up after a sync that was killed in its own.
    pub(crate) fn take(repository: &'a Repository) -> Result<Self, Stop> {
        let path = path(repository);
        let failed = |error: io::Error| Stop::io("cannot lock", &path, &error);
        let begun = Instant::now();
        loop {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644);
            let file = options
                .custom_flags(O_NOFOLLOW | O_CLOEXEC)
                .open(&path)
                .map_err(failed)?;
            if flock(&file, Flock::Try).map_err(failed)? {
                // The last holder may just have removed it.
                let ours = file.metadata().map_err(failed)?;
                if fs::symlink_metadata(&path).is_ok_and(|named| inode(&named) == inode(&ours)) {
                    let turn = Self {
                        repository,
                        file,
                        is_unfinished: true,
                    };
                    turn.clear_up();
                    return Ok(turn);
                }
            } else if begun.elapsed() >= PATIENCE {
                let why = format!("another sync of {} takes its time", repository.top());
                return Err(Stop::failed(GitReason::IndexLocked, why));
            } else {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn clear_up(&self) {
        let lock = self.repository.index_lock();
        let is_ours = |lock: fs::Metadata| {
            self.file
                .metadata()
                .is_ok_and(|ours| inode(&ours) == inode(&lock))
        };
        if fs::symlink_metadata(&lock).is_ok_and(is_ours) {
            remove(&lock);
        }
        for name in ["index", "index.lock", "index.before", "message"] {
            remove(&own(self.repository, name));
        }
    }

    /// The move of a sync that was killed, unless it is known to be done.
    pub(crate) fn unfinished(&mut self) -> Result<Option<Move>, Stop> {
        let mut note = String::new();
        let read = self
            .file
            .rewind()
            .and_then(|()| self.file.read_to_string(&mut note));
        read.map_err(|error| Stop::io("cannot read", &path(self.repository), &error))?;
        // No branch has a space in its name; and a note that was cut off was never acted on.
        let mut words = note
            .strip_suffix('\n')
            .unwrap_or_default()
            .split(' ')
            .map(str::to_owned);
        if let (Some(from), Some(to), Some(branch)) = (words.next(), words.next(), words.next()) {
            return Ok(Some(Move { branch, from, to }));
        }
        self.is_unfinished = false;
        Ok(None)
    }

    pub(crate) fn note(&mut self, way: &Move) -> Result<(), Stop> {
        self.is_unfinished = true;
        let note = format!("{} {} {}\n", way.from, way.to, way.branch);
        let write = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(note.as_bytes())?;
            file.sync_data()
        };
        write(&mut self.file)
            .map_err(|error| Stop::io("cannot write", &path(self.repository), &error))
    }

    pub(crate) fn forget(&mut self) {
        self.is_unfinished = false;
    }
}

impl Drop for SyncTurn<'_> {
    fn drop(&mut self) {
        self.clear_up();
        if !self.is_unfinished {
            remove(&path(self.repository));
        }
        let _ = flock(&self.file, Flock::Unlock);
    }
}

fn inode(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Somebody has the turn, or was killed in it.
pub(crate) fn is_left(repository: &Repository) -> bool {
    fs::symlink_metadata(path(repository)).is_ok()
}

pub(crate) fn path(repository: &Repository) -> PathBuf {
    own(repository, "turn")
}

/// A file of ours beside the index, for the sync that has the turn.
pub(crate) fn own(repository: &Repository, name: &str) -> PathBuf {
    repository.git_dir.join(format!("beadlock.{name}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "files that git or this sync has written, and that have their place again"
)]
pub(crate) fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
