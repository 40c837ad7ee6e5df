//! Creating a lock: the record is written to a file without a name, synced unless told otherwise, and then linked to the lock's path
//! (docs/design.md#create). A link replaces nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "an unfinished lock gets its name, or is removed under its own"
)]

use std::{
    ffi::CStr, ffi::CString, fs::File, io::Write, os::fd::AsRawFd, os::fd::OwnedFd, path::PathBuf,
};

use nix::{dir::Dir, errno::Errno, fcntl::AtFlags, fcntl::OFlag, fcntl::openat};
use nix::{
    fcntl::AT_FDCWD, sys::stat::Mode, sys::stat::fchmod, sys::stat::fstat, sys::stat::fstatat,
};
use nix::{unistd::UnlinkatFlags, unistd::fdatasync, unistd::linkat, unistd::unlinkat};

use super::{Durability, Site, Step, held::Held};
use crate::{facts::random_id, record::Record};
use crate::{
    place::Place,
    read::{self, Inode},
};
use beadlock_base::process;
use beadlock_base::sys::{RenameMode, renameat2};
use beadlock_base::{
    error::{Error, Result},
    filesystem::FileKind,
    process::Liveness,
};

/// Lock file that is written and synced, and not at the lock's path yet. No reader opens it.
pub(super) struct LockDraftFile {
    /// Descriptor for writing. `link` closes it before it returns the guard: a file that is open for writing can get
    /// no read lease.
    file: File,
    name: Option<Named>,
    /// Descriptor that keeps the inode number in use and can neither read nor write, with that inode.
    pub(super) pin: (OwnedFd, Inode),
    /// Descriptor of the directory, for the guard. Opened before the link, so that a failure leaves no lock behind.
    dir_pin: OwnedFd,
    json: String,
    /// Record that a reader parses from `json`.
    pub(super) record: Box<Record>,
}

struct Named {
    dir: OwnedFd,
    name: CString,
}

impl Drop for Named {
    fn drop(&mut self) {
        // A draft that cannot be deleted now is swept once this process is dead.
        let _ = unlinkat(&self.dir, self.name.as_c_str(), UnlinkatFlags::NoRemoveDir);
    }
}

const FLAGS: OFlag = OFlag::O_WRONLY.union(OFlag::O_CLOEXEC);
const PIN: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

impl<H: FnMut(Step)> Site<'_, H> {
    /// Writes `record` to a file without a name, and syncs it unless it [need not be](Durability::Unsynced). Without the
    /// sync, a power cut may leave an empty lock, which every daemon skips for ever (docs/design.md#create).
    pub(super) fn draft(&self, record: &Record) -> Result<LockDraftFile> {
        self.draft_of(record.to_json())
    }

    /// Writes `json` to a file without a name, and syncs it as [`Site::draft`] does. Errors: EINVAL when no reader would accept the content, or
    /// it is larger than `read::LIMIT`; else what the system refused.
    pub(super) fn draft_of(&self, json: String) -> Result<LockDraftFile> {
        let record = self
            .names
            .parse(json.as_bytes())
            .ok()
            .map(Box::new)
            .filter(|_| json.len() <= read::LIMIT);
        let Some(record) = record else {
            return Err(
                self.lock_error("claim with a record that nobody could read", Errno::EINVAL)
            );
        };
        self.sweep();
        match self.unnamed()? {
            Some((file, pin)) => self.write(LockDraftFile {
                file,
                name: None,
                pin: self.numbered(pin)?,
                dir_pin: self.pin_dir()?,
                json,
                record,
            }),
            None => self.named(json, record),
        }
    }

    fn mode(&self) -> Mode {
        Mode::from_bits_truncate(self.names.record_kind().properties().file_mode)
    }

    fn write(&self, mut draft: LockDraftFile) -> Result<LockDraftFile> {
        let error = |doing, source: std::io::Error| {
            Error::new(doing, read::join(self.path, self.names.lock()), source)
        };
        draft
            .file
            .write_all(draft.json.as_bytes())
            .map_err(|source| error("write", source))?;
        fchmod(&draft.file, self.mode()).map_err(|errno| error("set the mode of", errno.into()))?;
        if self.durability == Durability::Synced || self.names.has_foreign_writers() {
            fdatasync(&draft.file).map_err(|errno| error("sync", errno.into()))?;
        }
        Ok(draft)
    }

    fn unnamed(&self) -> Result<Option<(File, OwnedFd)>> {
        if !self.means.unnamed_files {
            return Ok(None);
        }
        let file = match openat(self.dir, c".", FLAGS | OFlag::O_TMPFILE, self.mode()) {
            Ok(fd) => File::from(fd),
            // The file system or the kernel has no unnamed files.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => {
                return Ok(None);
            }
            Err(errno) => return Err(self.lock_error("create", errno)),
        };
        match openat(AT_FDCWD, &by_number(&file), PIN, Mode::empty()) {
            Ok(pin) => Ok(Some((file, pin))),
            // Without /proc an unnamed file cannot be pinned.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(None),
            Err(errno) => Err(self.lock_error("pin", errno)),
        }
    }

    fn named(&self, json: String, record: Box<Record>) -> Result<LockDraftFile> {
        let error = |errno| self.lock_error("create", errno);
        let name = self.names.draft(std::process::id(), &random_id()[..8]);
        let (dir, dir_pin) = (self.pin_dir()?, self.pin_dir()?);
        let flags = FLAGS | OFlag::O_CREAT | OFlag::O_EXCL;
        let fd = openat(self.dir, name.as_c_str(), flags, self.mode()).map_err(error)?;
        let named = Named { dir, name };
        let pin = openat(
            self.dir,
            named.name.as_c_str(),
            PIN | OFlag::O_NOFOLLOW,
            Mode::empty(),
        )
        .map_err(error)?;
        let pin = self.numbered(pin)?;
        self.write(LockDraftFile {
            file: File::from(fd),
            name: Some(named),
            pin,
            dir_pin,
            json,
            record,
        })
    }

    /// Adds the inode to a pin. A claim that could not recognize its own file must fail before the link.
    fn numbered(&self, pin: OwnedFd) -> Result<(OwnedFd, Inode)> {
        let stat =
            fstat(&pin).map_err(|errno| self.lock_error("look at the new file for", errno))?;
        Ok((pin, Inode::of(&stat)))
    }

    pub(super) fn pin_dir(&self) -> Result<OwnedFd> {
        let pinned = openat(self.dir, c".", PIN | OFlag::O_DIRECTORY, Mode::empty());
        pinned.map_err(|errno| self.lock_error("pin the directory of", errno))
    }

    /// Deletes the drafts of dead processes. Only with the gate held: no other process makes a draft then.
    fn sweep(&self) {
        if !self.gated {
            return;
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut dir) = Dir::openat(self.dir, c".", flags, Mode::empty()) else {
            return;
        };
        for entry in dir.iter() {
            // After an error `readdir` makes no progress.
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            let process = self.names.process_of_draft(name);
            if process.is_some_and(|pid| process::probe(pid) == Liveness::Gone)
                && self.may_be_a_draft(name)
            {
                let _ = unlinkat(self.dir, name, UnlinkatFlags::NoRemoveDir);
            }
        }
    }

    fn may_be_a_draft(&self, name: &CStr) -> bool {
        fstatat(self.dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| {
            FileKind::of(&stat) == FileKind::File
                && usize::try_from(stat.st_size).is_ok_and(|size| size <= read::LIMIT)
        })
    }

    /// Links the draft to the lock's path, and returns the guard. `Ok(Err(draft))`: another lock is there.
    pub(super) fn link(
        &self,
        draft: LockDraftFile,
    ) -> Result<std::result::Result<Held, LockDraftFile>> {
        Ok(self.link_as(draft, self.names.lock())?.map(
            |LockDraftFile {
                 file,
                 name,
                 pin,
                 dir_pin,
                 record,
                 ..
             }| {
                drop((name, file));
                let dir = std::path::absolute(self.path).unwrap_or_else(|_| self.path.to_owned());
                Held::new(Place::new(dir, self.names.clone()), dir_pin, pin, record)
            },
        ))
    }

    /// Links the draft to the name `to`. `Ok(Err(draft))`: the name is taken.
    pub(super) fn link_as(
        &self,
        mut draft: LockDraftFile,
        to: &CStr,
    ) -> Result<std::result::Result<LockDraftFile, LockDraftFile>> {
        let linked = match &draft.name {
            None => self.link_unnamed(&draft.file, to),
            Some(named) => linkat(
                self.dir,
                named.name.as_c_str(),
                self.dir,
                to,
                AtFlags::empty(),
            ),
        };
        match linked {
            Ok(()) => {}
            Err(Errno::EEXIST) => return Ok(Err(draft)),
            // The unnamed file cannot be linked: there is no /proc, or no hard links. A named draft takes its place.
            Err(Errno::ENOENT | Errno::EPERM | Errno::EOPNOTSUPP | Errno::EXDEV)
                if draft.name.is_none() =>
            {
                return self.link_as(self.named(draft.json, draft.record)?, to);
            }
            // The file system has no hard links: rename the draft, over nothing.
            Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) if self.means.renameat2 => {
                let renamed = draft.name.as_ref().map_or(Err(Errno::ENOENT), |named| {
                    renameat2(
                        self.dir,
                        named.name.as_c_str(),
                        self.dir,
                        to,
                        RenameMode::NoReplace,
                    )
                });
                match renamed {
                    // The draft's name is gone, and its guard must not delete by it.
                    Ok(()) => draft.name.take().map_or((), std::mem::forget),
                    Err(Errno::EEXIST) => return Ok(Err(draft)),
                    Err(errno) => return Err(self.lock_error("create", errno)),
                }
            }
            Err(errno) => return Err(self.lock_error("create", errno)),
        }
        Ok(Ok(draft))
    }

    fn link_unnamed(&self, file: &File, to: &CStr) -> nix::Result<()> {
        match linkat(file, c"", self.dir, to, AtFlags::AT_EMPTY_PATH) {
            // Before Linux 6.10 AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH; the link in /proc does not.
            Err(Errno::ENOENT | Errno::EPERM | Errno::EINVAL) => linkat(
                AT_FDCWD,
                &by_number(file),
                self.dir,
                to,
                AtFlags::AT_SYMLINK_FOLLOW,
            ),
            answer => answer,
        }
    }
}

fn by_number(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
