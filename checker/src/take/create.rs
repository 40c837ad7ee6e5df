//! Creating a lock: written whole where nobody sees it, then linked, never over anything (DESIGN 6, "Create").
#![expect(clippy::disallowed_methods, reason = "an unfinished lock is removed under its own name")]

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{UnlinkatFlags, fdatasync, linkat, unlinkat};

use super::release::Held;
use super::{DRAFT_PREFIX, LOCK, Site, Step};
use crate::dialect::beads::Record;
use crate::error::{Error, Result};
use crate::facts::{Liveness, random_id};
use crate::process;
use crate::read::{self, Inode};

/// A lock that is written and synced, and has no name yet, or one that nobody looks at.
pub(super) struct Draft {
    file: File,
    name: Option<Named>,
}

struct Named {
    dir: OwnedFd,
    name: String,
}

impl Drop for Named {
    fn drop(&mut self) {
        // What cannot be removed now is swept when this process is dead.
        let _ = unlinkat(&self.dir, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Writes `record` to a file without a name and syncs it: after a power cut there is no lock or a whole one.
    pub(super) fn draft(&self, record: &Record) -> Result<Draft> {
        let mut draft = self.unnamed()?;
        let error = |doing, source: std::io::Error| Error::new(doing, read::join(self.path, LOCK), source);
        draft.file.write_all(record.to_json().as_bytes()).map_err(|source| error("write", source))?;
        // Whatever the umask: a daemon of another user must be able to read it.
        fchmod(&draft.file, Mode::from_bits_truncate(0o644))
            .map_err(|errno| error("set the mode of", errno.into()))?;
        fdatasync(&draft.file).map_err(|errno| error("sync", errno.into()))?;
        Ok(draft)
    }

    fn unnamed(&self) -> Result<Draft> {
        let mode = Mode::from_bits_truncate(0o644);
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        if self.means.unnamed_files {
            match openat(self.dir, c".", flags | OFlag::O_TMPFILE, mode) {
                Ok(fd) => return Ok(Draft { file: File::from(fd), name: None }),
                // The file system or the kernel has none.
                Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {}
                Err(errno) => return Err(self.error("create", LOCK, errno)),
            }
        }
        self.sweep();
        let name = format!("{DRAFT_PREFIX}{}-{}", std::process::id(), &random_id()[..8]);
        let dir =
            openat(self.dir, c".", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty());
        let dir = dir.map_err(|errno| self.error("create", LOCK, errno))?;
        let fd = openat(self.dir, name.as_str(), flags | OFlag::O_CREAT | OFlag::O_EXCL, mode);
        let fd = fd.map_err(|errno| self.error("create", LOCK, errno))?;
        Ok(Draft { file: File::from(fd), name: Some(Named { dir, name }) })
    }

    /// Removes unfinished locks of processes that are dead. Only with the gate held: nobody else makes any.
    fn sweep(&self) {
        if !self.gated {
            return;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut dir) = Dir::openat(self.dir, c".", flags, Mode::empty()) else { return };
        for entry in dir.iter().flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            let Some(pid) = name.strip_prefix(DRAFT_PREFIX).and_then(|rest| rest.split('-').next()) else {
                continue;
            };
            if pid.parse().is_ok_and(|pid| process::probe(pid) == Liveness::Gone) {
                let _ = unlinkat(self.dir, name, UnlinkatFlags::NoRemoveDir);
            }
        }
    }

    /// Gives the draft the lock's name. `Ok(false)`: there is a lock.
    pub(super) fn link(&self, draft: &Draft) -> Result<bool> {
        let linked = match &draft.name {
            Some(named) => linkat(self.dir, named.name.as_str(), self.dir, LOCK, AtFlags::empty()),
            None => match linkat(&draft.file, c"", self.dir, LOCK, AtFlags::AT_EMPTY_PATH) {
                // Needs a capability before Linux 6.10.
                Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => {
                    let path = format!("/proc/self/fd/{}", draft.file.as_raw_fd());
                    linkat(AT_FDCWD, path.as_str(), self.dir, LOCK, AtFlags::AT_SYMLINK_FOLLOW)
                }
                answer => answer,
            },
        };
        match linked {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(self.error("create", LOCK, errno)),
        }
    }

    /// Pins the inode of the linked draft, by a descriptor that can neither read nor write it.
    pub(super) fn hold(&self, draft: &Draft, record: &Record) -> Result<Held> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let by_number = format!("/proc/self/fd/{}", draft.file.as_fd().as_raw_fd());
        let pin = openat(AT_FDCWD, by_number.as_str(), flags, Mode::empty())
            .or_else(|_| openat(self.dir, LOCK, flags | OFlag::O_NOFOLLOW, Mode::empty()))
            .map_err(|errno| self.error("pin", LOCK, errno))?;
        let stat = fstat(&draft.file).map_err(|errno| self.error("look at", LOCK, errno))?;
        Ok(Held::new(self.path, pin, Inode::of(&stat), record.clone()))
    }
}
