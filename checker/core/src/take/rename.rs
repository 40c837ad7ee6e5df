//! Moves between the lock's name, the side name and the name of a broken lock (docs/design.md#move-aside). No move
//! replaces a file.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place where lock files are moved"
)]

use std::ffi::CStr;

use beadlock_base::sys::{RenameMode, renameat2};
use nix::fcntl::{AtFlags, renameat};
use nix::{errno::Errno, unistd::UnlinkatFlags, unistd::linkat, unistd::unlinkat};

use super::{Site, Step};

/// Result of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Yes,
    /// The old name has no file any more.
    Vanished,
    /// The new name has a file already.
    Taken,
}

impl<H: FnMut(Step)> Site<'_, H> {
    /// Moves whatever has the lock's name to the side name. The caller looks at the inode that arrived: a writer may
    /// have renamed its own record over the lock (docs/model.md#v2).
    pub(super) fn move_aside(&self) -> nix::Result<Moved> {
        let (lock, aside) = (self.names.lock(), self.names.aside());
        if let Some(moved) = self.no_replace(lock, aside)? {
            return Ok(moved);
        }
        // The way back is a link, so a file that cannot be linked must not be moved: another user's file under
        // protected hard links, or a file system without hard links. This link is the trial.
        let linked = self.link_name(lock, aside)?;
        if linked != Moved::Yes {
            return Ok(linked);
        }
        self.delete_aside()?;
        // Only the holder of the gate touches the side name, so this rename replaces nothing.
        moved(renameat(self.dir, lock, self.dir, aside))
    }

    /// Moves the side file back to the lock's name. [`Moved::Taken`]: another lock is there, and the side file stays.
    pub(super) fn move_back(&self) -> nix::Result<Moved> {
        self.rename_aside(self.names.lock())
    }

    /// Exchanges the side file and the lock. `Ok(false)`: the file system cannot exchange two files.
    pub(super) fn exchange(&self) -> nix::Result<bool> {
        if !self.means.renameat2 {
            return Ok(false);
        }
        match renameat2(
            self.dir,
            self.names.aside(),
            self.dir,
            self.names.lock(),
            RenameMode::Exchange,
        ) {
            // ENOENT: one of the two is gone. The caller looks again in both cases.
            Ok(()) | Err(Errno::ENOENT) => Ok(true),
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn delete_aside(&self) -> nix::Result<()> {
        match unlinkat(self.dir, self.names.aside(), UnlinkatFlags::NoRemoveDir) {
            Err(Errno::ENOENT) => Ok(()),
            answer => answer,
        }
    }

    /// Moves the side file to `name`, if that name is free.
    pub(super) fn rename_aside(&self, name: &CStr) -> nix::Result<Moved> {
        if let Some(moved) = self.no_replace(self.names.aside(), name)? {
            return Ok(moved);
        }
        let linked = self.link_name(self.names.aside(), name)?;
        if linked == Moved::Yes {
            // A crash here leaves one file under both names. Beside the lock's name, recovery deletes the side name.
            // Beside the name of a broken lock, recovery moves a live side file back to the lock's path.
            self.delete_aside()?;
        }
        Ok(linked)
    }

    /// Moves a file without replacing one. `None`: the system has no such call.
    fn no_replace(&self, from: &CStr, to: &CStr) -> nix::Result<Option<Moved>> {
        if !self.means.renameat2 {
            return Ok(None);
        }
        match renameat2(self.dir, from, self.dir, to, RenameMode::NoReplace) {
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(None),
            answer => moved(answer).map(Some),
        }
    }

    fn link_name(&self, from: &CStr, to: &CStr) -> nix::Result<Moved> {
        moved(linkat(self.dir, from, self.dir, to, AtFlags::empty()))
    }
}

fn moved(answer: nix::Result<()>) -> nix::Result<Moved> {
    match answer {
        Ok(()) => Ok(Moved::Yes),
        Err(Errno::ENOENT) => Ok(Moved::Vanished),
        Err(Errno::EEXIST) => Ok(Moved::Taken),
        Err(errno) => Err(errno),
    }
}
