//! A file by its name in a directory that is open, and the files beside it that are called by it. The one place where
//! they are linked, renamed and removed, all of it relative to that directory.
#![expect(
    clippy::disallowed_methods,
    reason = "a data file's stage and backups are called by its name; no lock is"
)]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{borrow::Cow, fs::File, io, os::fd::AsRawFd, os::unix::fs::OpenOptionsExt};

use beadlock_base::escape::escaped_path;
use beadlock_base::regular;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use rustix::fs::{StatxAttributes, StatxFlags, statx};

use super::acl::Acl;
use super::error::{Error, Hint, Pin};

/// Which file of an [`NamedFile`]: the file itself, or one beside it that is called by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// `PATH`: the file itself.
    Itself,
    /// `PATH.tmp`: what is about to become the file.
    Stage,
    /// `PATH.1.tmp`: a copy of the file that is still being made, where there are no hard links.
    Copy,
    /// `PATH.tmp1`: the file as it was, which becomes `PATH.1` when the new content is in its place.
    Waiting,
    /// `PATH.1` the newest.
    Backup(u32),
    /// `PATH.lock`, which is only looked at here.
    Lock,
}

/// A name in an open directory. The file need not be there.
#[derive(Debug)]
pub struct NamedFile {
    dir: File,
    path: PathBuf,
    name: OsString,
}

/// Flags for files that may be anything: never follows a link, never waits for a FIFO's other end.
const CAREFULLY: OFlag = OFlag::O_NOFOLLOW.union(regular::CAREFULLY);

impl NamedFile {
    /// Opens the directory of a path whose last component is not a symbolic link.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path
            .file_name()
            .ok_or_else(|| Error::io("write", path, Errno::EISDIR))?;
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let dir = File::options()
            .read(true)
            .custom_flags(OFlag::O_DIRECTORY.bits())
            .open(parent);
        let dir = dir.map_err(|error| Error::io("open", parent, error))?;
        Ok(Self {
            dir,
            path: path.to_owned(),
            name: name.to_owned(),
        })
    }

    /// The path that the entry was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, which: Beside) -> PathBuf {
        self.path.with_file_name(self.name_of(which))
    }

    fn name_of(&self, which: Beside) -> OsString {
        let mut name = self.name.clone();
        match which {
            Beside::Itself => {}
            Beside::Stage => name.push(".tmp"),
            Beside::Copy => name.push(".1.tmp"),
            // No longer than `.lock`: where the lock file can have its name, so can this.
            Beside::Waiting => name.push(".tmp1"),
            Beside::Backup(number) => name.push(format!(".{number}")),
            Beside::Lock => name.push(".lock"),
        }
        name
    }

    pub(crate) fn failed(
        &self,
        doing: impl Into<Cow<'static, str>>,
        which: Beside,
        error: impl Into<io::Error>,
    ) -> Error {
        Error::io(doing, &self.path_of(which), error)
    }

    /// Status of the file there, never followed; `None`: nothing is there. Fails for anything but a regular file.
    pub fn look(&self, which: Beside) -> Result<Option<FileStat>, Error> {
        match fstatat(
            &self.dir,
            self.name_of(which).as_os_str(),
            AtFlags::AT_SYMLINK_NOFOLLOW,
        ) {
            Ok(stat) => self.regular(which, stat).map(Some),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failed("look at", which, errno)),
        }
    }

    pub(crate) fn acl(&self) -> Result<Option<Acl>, Error> {
        Acl::of(&self.path).map_err(|error| self.failed("read the ACL of", Beside::Itself, error))
    }

    fn regular(&self, which: Beside, stat: FileStat) -> Result<FileStat, Error> {
        let what = match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFREG => return Ok(stat),
            SFlag::S_IFDIR => "a directory",
            SFlag::S_IFLNK => "a symbolic link",
            SFlag::S_IFIFO => "a FIFO",
            _ => "no regular file",
        };
        let path = self.path_of(which);
        Err(Error::InTheWay { path, what })
    }

    /// The file, or one beside it, for reading; `None`: there is none.
    pub fn read(&self, which: Beside) -> Result<Option<File>, Error> {
        self.open_there(which, OFlag::O_RDONLY)
    }

    /// The file for reading and adding to its end, and whether it was made for that.
    pub(crate) fn open_to_append(&self) -> Result<(File, bool), Error> {
        let flags = OFlag::O_RDWR | OFlag::O_APPEND;
        loop {
            if let Some(file) = self.open_there(Beside::Itself, flags)? {
                return Ok((file, false));
            }
            match self.open_at(
                self.name.as_os_str(),
                flags | OFlag::O_CREAT | OFlag::O_EXCL,
                0o666,
            ) {
                Ok(file) => return Ok((file, true)),
                // Somebody who does not ask for the lock was faster.
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(self.failed("create", Beside::Itself, errno)),
            }
        }
    }

    fn open_there(&self, which: Beside, flags: OFlag) -> Result<Option<File>, Error> {
        let file = match self.open_at(self.name_of(which).as_os_str(), flags, 0) {
            Ok(file) => file,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => {
                // A better word than the system's for anything but a file.
                self.look(which)?;
                return Err(self.failed("open", which, errno));
            }
        };
        self.regular(which, self.stat(&file)?)?;
        Ok(Some(file))
    }

    fn open_at(&self, name: &OsStr, flags: OFlag, mode: u32) -> nix::Result<File> {
        loop {
            match openat(
                &self.dir,
                name,
                flags | CAREFULLY,
                Mode::from_bits_truncate(mode),
            ) {
                Err(Errno::EINTR) => {}
                opened => return opened.map(File::from),
            }
        }
    }

    pub(crate) fn stat(&self, file: &File) -> Result<FileStat, Error> {
        fstat(file).map_err(|errno| self.failed("look at", Beside::Itself, errno))
    }

    /// A new file in the directory that has no name; `None` where there are none.
    pub(crate) fn create_unnamed(&self) -> Result<Option<File>, Error> {
        let flags = OFlag::O_RDWR | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
        match openat(&self.dir, c".", flags, Mode::from_bits_truncate(0o666)) {
            Ok(fd) => Ok(Some(File::from(fd))),
            // The file system or the kernel has none.
            Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.not_created(Beside::Stage, errno)),
        }
    }

    fn not_created(&self, which: Beside, errno: Errno) -> Error {
        let error = self.failed("create", which, errno);
        match errno {
            Errno::EACCES | Errno::EROFS => error.with(Hint::WritableDirectory),
            _ => error,
        }
    }

    /// A new file under this name; one that a crash has left there is removed first. Only under the lock.
    pub(crate) fn create(&self, which: Beside, mode: u32) -> Result<File, Error> {
        self.remove(which)?;
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL;
        let file = self.open_at(self.name_of(which).as_os_str(), flags, mode);
        file.map_err(|errno| self.not_created(which, errno))
    }

    /// Gives a file without a name this one, which nothing has. ENOENT and EPERM also where there is no way to name it.
    pub(crate) fn name_unnamed(&self, file: &File, which: Beside) -> nix::Result<()> {
        let name = self.name_of(which);
        let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        match linkat(
            AT_FDCWD,
            &by_number,
            &self.dir,
            name.as_os_str(),
            AtFlags::AT_SYMLINK_FOLLOW,
        ) {
            // There is no /proc. This needs a capability before Linux 6.10.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => linkat(
                file,
                c"",
                &self.dir,
                name.as_os_str(),
                AtFlags::AT_EMPTY_PATH,
            ),
            answer => answer,
        }
    }

    pub(crate) fn link_to(&self, to: Beside) -> nix::Result<()> {
        linkat(
            &self.dir,
            self.name.as_os_str(),
            &self.dir,
            self.name_of(to).as_os_str(),
            AtFlags::empty(),
        )
    }

    pub(crate) fn rename(&self, from: Beside, to: Beside) -> Result<(), Error> {
        let names = [from, to].map(|which| self.name_of(which));
        renameat(
            &self.dir,
            names[0].as_os_str(),
            &self.dir,
            names[1].as_os_str(),
        )
        .map_err(|errno| {
            let obstacle = (to == Beside::Itself).then(|| self.obstacle()).flatten();
            let onto = escaped_path(&self.path_of(to));
            obstacle
                .unwrap_or_else(|| self.failed(format!("move onto {onto} what was"), from, errno))
        })
    }

    /// The attribute that keeps every other file from taking this one's place, as far as the file itself can tell.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        let stat = statx(
            &self.dir,
            &self.name,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::TYPE,
        )
        .ok()?;
        let by = pin_among(stat.stx_attributes & stat.stx_attributes_mask)?;
        let path = self.path.clone();
        Some(Error::Pinned { path, by })
    }

    pub(crate) fn remove(&self, which: Beside) -> Result<bool, Error> {
        match unlinkat(
            &self.dir,
            self.name_of(which).as_os_str(),
            UnlinkatFlags::NoRemoveDir,
        ) {
            Ok(()) => Ok(true),
            // Nothing has a name that is too long.
            Err(Errno::ENOENT | Errno::ENAMETOOLONG) => Ok(false),
            // A file system that is read-only says so before it has looked; and there is a better word than the
            // system's for anything but a file.
            Err(errno) => match self.look(which)? {
                None => Ok(false),
                Some(_) => Err(self.failed("remove", which, errno)),
            },
        }
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.dir.sync_all() {
            // A file system that cannot has nothing to be synced.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }
}

/// Attributes that keep every other file from taking this one's name; the first that a file has is the one to name.
const PINS: [(StatxAttributes, Pin); 3] = [
    (StatxAttributes::MOUNT_ROOT, Pin::MountPoint),
    (StatxAttributes::IMMUTABLE, Pin::Immutable),
    (StatxAttributes::APPEND, Pin::AppendOnly),
];

fn pin_among(attributes: StatxAttributes) -> Option<Pin> {
    let found = PINS
        .into_iter()
        .find(|(attribute, _)| attributes.contains(*attribute));
    found.map(|(_, pin)| pin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_an_obstacle_and_none_is_none() {
        assert_eq!(pin_among(StatxAttributes::empty()), None);
        assert_eq!(pin_among(StatxAttributes::COMPRESSED), None);
        assert_eq!(pin_among(StatxAttributes::IMMUTABLE), Some(Pin::Immutable));
        assert_eq!(pin_among(StatxAttributes::APPEND), Some(Pin::AppendOnly));
        let both = StatxAttributes::IMMUTABLE | StatxAttributes::MOUNT_ROOT;
        assert_eq!(pin_among(both), Some(Pin::MountPoint));
    }

    #[test]
    fn a_plain_file_and_no_file_have_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x"), "").unwrap();
        assert!(["x", "y"].iter().all(|name| {
            NamedFile::open(&dir.path().join(name))
                .unwrap()
                .obstacle()
                .is_none()
        }));
    }
}
