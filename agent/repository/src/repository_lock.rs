//! One sync at a time in a repository, and what one that was killed has left for the next.
//!
//! The turn is an flock on a file of our own in the git directory, so it ends with the process. `index.lock` is made as
//! a hard link to that file: one with the same inode is ours, and the sync that has the turn may remove it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::sys::{Flock, flock};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW};

use crate::{GitReason, Repository, SyncStop};

/// How long another database's sync of this repository may have its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// The turn of one sync in a repository. It ends when this is dropped, or with the process.
#[must_use = "dropped, it is the next one's"]
pub struct RepositoryLock<'a> {
    /// The repository.
    pub repository: &'a Repository,
    file: File,
}

impl<'a> RepositoryLock<'a> {
    /// Waits for its turn, and clears up after a sync that was killed in its own.
    pub fn take(repository: &'a Repository) -> Result<Self, SyncStop> {
        let path = path(repository);
        let failed = |error: io::Error| SyncStop::io("cannot lock", &path, &error);
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
                    let turn = Self { repository, file };
                    turn.clear_up();
                    return Ok(turn);
                }
            } else if begun.elapsed() >= PATIENCE {
                let why = format!("another sync of {} takes its time", repository.top());
                return Err(SyncStop::failed(GitReason::IndexLocked, why));
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
        for name in [
            "index",
            "index.lock",
            "index.before",
            "message",
            "merge.index",
            "merge.index.lock",
        ] {
            remove(&own(self.repository, name));
        }
        let _ = fs::remove_dir_all(own(self.repository, "merge"));
    }
}

impl Drop for RepositoryLock<'_> {
    fn drop(&mut self) {
        self.clear_up();
        remove(&path(self.repository));
        let _ = flock(&self.file, Flock::Unlock);
    }
}

fn inode(meta: &fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The file that the turn is a lock on.
pub fn path(repository: &Repository) -> PathBuf {
    own(repository, "turn")
}

/// A file of ours beside the index, for the sync that has the turn.
pub fn own(repository: &Repository, name: &str) -> PathBuf {
    repository.git_dir.join(format!("beadlock.{name}"))
}

/// Removes a file of git's or of ours, if it is there.
#[expect(
    clippy::disallowed_methods,
    reason = "files that git or this sync has written, and that have their place again"
)]
pub fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Where notes of ours stay from one sync to the next, in the git directory.
pub fn notes(repository: &Repository) -> PathBuf {
    repository.git_dir.join("beadlock")
}

/// Where the script is that starts gpg for a signature of a sync.
pub fn signer(repository: &Repository) -> PathBuf {
    notes(repository).join("gpg")
}

/// Writes a file of ours in one step.
#[expect(
    clippy::disallowed_methods,
    reason = "a note of this sync, in the git directory"
)]
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), SyncStop> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let write = || {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let mut file = File::create(&draft)?;
        io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| SyncStop::io("cannot write", path, &error))
}
