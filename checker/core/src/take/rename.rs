//! The moves between the lock's name and the side name: never over anything (docs/design.md#move-aside).
#![expect(
    clippy::disallowed_methods,
    reason = "the one place where lock files are moved"
)]

use std::ffi::CStr;

use nix::fcntl::{AtFlags, RenameFlags, renameat, renameat2};
use nix::{errno::Errno, unistd::UnlinkatFlags, unistd::linkat, unistd::unlinkat};

use super::{Site, Step};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    Yes,
    /// There is nothing under the old name any more.
    Vanished,
    /// There is something under the new name.
    Taken,
}

impl<H: FnMut(Step)> Site<'_, H> {
    pub(super) fn move_aside(&self) -> nix::Result<Moved> {
        let (lock, aside) = (self.names.lock(), self.names.aside());
        if let Some(moved) = self.no_replace(lock, aside)? {
            return Ok(moved);
        }
        // The way back is a link: what cannot be linked must not be moved (another user's file, where hard links
        // are protected; a file system without any).
        let linked = self.link_name(lock, aside)?;
        if linked != Moved::Yes {
            return Ok(linked);
        }
        self.delete_aside()?;
        // Nobody but the holder of the gate touches the side name, so it cannot appear in between.
        moved(renameat(self.dir, lock, self.dir, aside))
    }

    pub(super) fn move_back(&self) -> nix::Result<Moved> {
        self.rename_aside(self.names.lock())
    }

    /// Swaps the two; `Ok(false)` where the file system cannot.
    pub(super) fn exchange(&self) -> nix::Result<bool> {
        if !self.means.renameat2 {
            return Ok(false);
        }
        match renameat2(
            self.dir,
            self.names.aside(),
            self.dir,
            self.names.lock(),
            RenameFlags::RENAME_EXCHANGE,
        ) {
            // ENOENT: one of them has gone meanwhile, so there is another situation to look at.
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

    pub(super) fn rename_aside(&self, name: &CStr) -> nix::Result<Moved> {
        if let Some(moved) = self.no_replace(self.names.aside(), name)? {
            return Ok(moved);
        }
        let linked = self.link_name(self.names.aside(), name)?;
        if linked == Moved::Yes {
            // A crash here leaves one file under both names; recovery knows that of the lock's name, and puts what is
            // kept back as well.
            self.delete_aside()?;
        }
        Ok(linked)
    }

    /// A move over nothing; `None` where there is no such call.
    fn no_replace(&self, from: &CStr, to: &CStr) -> nix::Result<Option<Moved>> {
        if !self.means.renameat2 {
            return Ok(None);
        }
        match renameat2(self.dir, from, self.dir, to, RenameFlags::RENAME_NOREPLACE) {
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
