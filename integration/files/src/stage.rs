//! The stage: where new content is written before it is the file's. It has no name, so that nothing is left of it
//! whenever this process ends; a file system without such files has it as `PATH.tmp`, which the next operation under
//! the lock removes.

use std::fs::File;
use std::io::{self, Seek};

use beadlock_base::sys::process_id;
use nix::errno::Errno;
use nix::sys::stat::{FileStat, Mode, fchmod};
use nix::unistd::{Gid, Uid, fchown};

use super::error::{Error, Hint};
use super::{acl, acl::Acl, entry::Beside, entry::NamedFile};

const PERMISSIONS: u32 = 0o7777;

/// Mode, owners and ACL that the stage has got from the file already.
#[derive(Debug, PartialEq, Eq)]
struct Given {
    mode: u32,
    owners: (u32, u32),
    acl: Option<Acl>,
}

/// New content on its way. Dropped, nothing is left of it.
#[derive(Debug)]
#[must_use = "dropped, its content is gone"]
pub struct Stage<'e> {
    entry: &'e NamedFile,
    file: File,
    has_name: bool,
    is_synced: bool,
    given: Option<Given>,
    process: u32,
}

impl<'e> Stage<'e> {
    fn of(entry: &'e NamedFile, file: File, has_name: bool) -> Self {
        Self {
            entry,
            file,
            has_name,
            is_synced: false,
            given: None,
            process: process_id(),
        }
    }

    /// A stage without a name, which needs no lock; `None` where there are none.
    pub fn unnamed(entry: &'e NamedFile) -> Result<Option<Self>, Error> {
        let file = entry.create_unnamed()?;
        Ok(file.map(|file| Self::of(entry, file, false)))
    }

    /// A stage called `PATH.tmp`. Only under the lock.
    pub fn named(entry: &'e NamedFile) -> Result<Self, Error> {
        // The stage is as private as the file until it gets the file's mode.
        let mode = entry.look(Beside::Itself)?.map_or(0o666, |_| 0o600);
        let file = entry.create(Beside::Stage, mode)?;
        Ok(Self::of(entry, file, true))
    }

    /// A stage without a name, else one that has a name. Only under the lock.
    pub fn new(entry: &'e NamedFile) -> Result<Self, Error> {
        Self::unnamed(entry)?.map_or_else(|| Self::named(entry), Ok)
    }

    pub(crate) fn entry(&self) -> &'e NamedFile {
        self.entry
    }

    /// The open file that the new content is written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Completes the content: the stage gets mode, ACL and owner of the file, and is synced.
    pub fn seal(&mut self, original: Option<&FileStat>) -> Result<(), Error> {
        if let Some(original) = original {
            self.resemble(original)?;
        }
        if !self.is_synced {
            let synced = self.file.sync_all();
            synced.map_err(|error| {
                self.entry
                    .failed("sync the new content of", Beside::Itself, error)
            })?;
            self.is_synced = true;
        }
        Ok(())
    }

    fn resemble(&mut self, original: &FileStat) -> Result<(), Error> {
        let mode = original.st_mode & PERMISSIONS;
        let acl = self.entry.acl()?;
        let wanted = Given {
            mode,
            owners: (original.st_uid, original.st_gid),
            acl,
        };
        if self.given.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let now = self.entry.stat(&self.file)?;
        let uid = (now.st_uid != original.st_uid).then(|| Uid::from_raw(original.st_uid));
        let gid = (now.st_gid != original.st_gid).then(|| Gid::from_raw(original.st_gid));
        let is_given = uid.is_some() || gid.is_some();
        if is_given {
            fchown(&self.file, uid, gid).map_err(|errno| self.not_given(original, errno))?;
        }
        let is_listed = acl::give(&self.file, wanted.acl.as_ref())
            .map_err(|error| self.entry.failed("keep the ACL of", Beside::Itself, error))?;
        // Giving it away takes bits of the mode off, and an ACL has some of them.
        if is_given || is_listed || now.st_mode & PERMISSIONS != mode {
            fchmod(&self.file, Mode::from_bits_truncate(mode))
                .map_err(|errno| self.entry.failed("set the mode of", Beside::Stage, errno))?;
            self.is_synced = false;
        }
        self.given = Some(wanted);
        Ok(())
    }

    fn not_given(&self, original: &FileStat, errno: Errno) -> Error {
        let error = self
            .entry
            .failed("keep the owner of", Beside::Itself, errno);
        if errno != Errno::EPERM {
            return error;
        }
        error.with(Hint::Owner {
            uid: original.st_uid,
            gid: original.st_gid,
        })
    }

    /// Gives the stage the name `PATH.tmp`. Only under the lock, where what a crash has left there is gone.
    pub fn name(mut self) -> Result<Self, Error> {
        if !self.has_name {
            match self.entry.name_unnamed(&self.file, Beside::Stage) {
                Ok(()) => self.has_name = true,
                // Files without a name, and no way to give them one: no /proc, or no hard links.
                Err(Errno::ENOENT | Errno::EPERM | Errno::EOPNOTSUPP | Errno::EXDEV) => {
                    return self.copied();
                }
                Err(errno) => return Err(self.entry.failed("create", Beside::Stage, errno)),
            }
        }
        Ok(self)
    }

    /// Copies the content to a stage that has a name from the beginning.
    fn copied(self) -> Result<Self, Error> {
        let mut copy = Self::named(self.entry)?;
        let mut from = &self.file;
        let copied = from
            .rewind()
            .and_then(|()| io::copy(&mut from, &mut &copy.file));
        copied.map_err(|error| {
            self.entry
                .failed("write the new content of", Beside::Itself, error)
        })?;
        let like = self.entry.stat(&self.file)?;
        copy.seal(Some(&like))?;
        Ok(copy)
    }

    /// Renames the stage over the file: in one step, whatever was there.
    pub fn become_the_file(mut self) -> Result<(), Error> {
        self.entry.rename(Beside::Stage, Beside::Itself)?;
        self.has_name = false;
        Ok(())
    }
}

impl Drop for Stage<'_> {
    /// In a fork nothing is removed: the stage is a copy, and the parent goes on with the file.
    fn drop(&mut self) {
        if self.has_name && self.process == process_id() {
            // What cannot be removed now is removed by the next operation.
            let _ = self.entry.remove(Beside::Stage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_s_copy_of_a_stage_removes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let entry = NamedFile::open(&dir.path().join("todo.json")).unwrap();
        let stage = Stage::named(&entry).unwrap();
        let path = dir.path().join("todo.json.tmp");
        let file = stage.file.try_clone().unwrap();
        let process = process_id() + 1;
        drop(Stage {
            entry: &entry,
            file,
            has_name: true,
            is_synced: false,
            given: None,
            process,
        });
        assert!(path.exists(), "it was another process's");
        drop(stage);
        assert!(!path.exists());
    }
}
