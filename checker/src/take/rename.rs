//! The moves between the lock's name and the side name: never over anything (docs/design.md#move-aside).
#![expect(clippy::disallowed_methods, reason = "the one place where lock files are moved")]

use std::{ffi::CStr, os::fd::BorrowedFd};

use nix::fcntl::{AtFlags, RenameFlags, renameat, renameat2};
use nix::{errno::Errno, unistd::UnlinkatFlags, unistd::linkat, unistd::unlinkat};

use crate::place::Names;

/// The lock's name and the side name in one directory.
#[derive(Clone, Copy)]
pub(super) struct Renames<'a> {
    pub dir: BorrowedFd<'a>,
    pub names: &'a Names,
    pub renameat2: bool,
}

/// How a move ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Yes,
    /// There is nothing under the old name any more.
    Vanished,
    /// There is something under the new name.
    Taken,
}

impl Renames<'_> {
    /// The lock to the side name.
    pub(super) fn move_aside(self) -> nix::Result<Moved> {
        let (lock, aside) = (self.names.lock(), self.names.aside());
        if let Some(moved) = self.no_replace(lock, aside)? {
            return Ok(moved);
        }
        // The way back is a link: what cannot be linked must not be moved (another user's file, where hard links
        // are protected; a file system without any).
        let linked = self.link(lock, aside)?;
        if linked != Moved::Yes {
            return Ok(linked);
        }
        self.delete_aside()?;
        // Nobody but the holder of the gate touches the side name, so it cannot appear in between.
        moved(renameat(self.dir, lock, self.dir, aside))
    }

    /// What is aside to the lock's name.
    pub(super) fn move_back(self) -> nix::Result<Moved> {
        self.rename_aside(self.names.lock())
    }

    /// What is aside to the name that a broken lock is kept under.
    pub(super) fn keep(self, name: &CStr) -> nix::Result<Moved> {
        self.rename_aside(name)
    }

    /// Swaps the two; `Ok(false)` where the file system cannot.
    pub(super) fn exchange(self) -> nix::Result<bool> {
        if !self.renameat2 {
            return Ok(false);
        }
        match renameat2(self.dir, self.names.aside(), self.dir, self.names.lock(), RenameFlags::RENAME_EXCHANGE) {
            // ENOENT: one of them has gone meanwhile, so there is another situation to look at.
            Ok(()) | Err(Errno::ENOENT) => Ok(true),
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Deletes what is aside. False: there was nothing.
    pub(super) fn delete_aside(self) -> nix::Result<bool> {
        match unlinkat(self.dir, self.names.aside(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    fn rename_aside(self, name: &CStr) -> nix::Result<Moved> {
        if let Some(moved) = self.no_replace(self.names.aside(), name)? {
            return Ok(moved);
        }
        let linked = self.link(self.names.aside(), name)?;
        if linked == Moved::Yes {
            // A crash here leaves one file under both names; recovery knows that of the lock's name, and puts what is
            // kept back as well.
            self.delete_aside()?;
        }
        Ok(linked)
    }

    /// A move over nothing; `None` where there is no such call.
    fn no_replace(self, from: &CStr, to: &CStr) -> nix::Result<Option<Moved>> {
        if !self.renameat2 {
            return Ok(None);
        }
        match renameat2(self.dir, from, self.dir, to, RenameFlags::RENAME_NOREPLACE) {
            Err(Errno::EINVAL | Errno::ENOSYS | Errno::EOPNOTSUPP) => Ok(None),
            answer => moved(answer).map(Some),
        }
    }

    fn link(self, from: &CStr, to: &CStr) -> nix::Result<Moved> {
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
