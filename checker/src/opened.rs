//! A directory that is looked up once. Whatever is asked of it later is asked by descriptor, so that a rename of it, or of
//! a directory above it, changes nothing any more.
//!
//! The path is followed name by name and through no symbolic link: it is one without links, and a link in it was put
//! there since. Another user who may write to a directory on the way could lead the look-up anywhere; therefore the
//! caller may look at each directory that the look-up passes, by its descriptor, before the next name is looked up.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat};

use crate::error::{Error, Result};

/// A directory that may be searched, open for look-ups alone.
const SEARCHED: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// The open directory of a database, and the open directory above it.
#[derive(Debug)]
pub struct OpenDirectory {
    dir: OwnedFd,
    /// Why `dir` is open for look-ups alone: it may not be read. There can be no gate then.
    unread: Option<Errno>,
    /// Its `..` as it was found just after it was opened; where it may not be searched, why there is none.
    above: nix::Result<OwnedFd>,
    path: PathBuf,
}

impl OpenDirectory {
    /// Opens the directory at `path`, which is absolute and has neither `..` nor symbolic links in it.
    ///
    /// # Errors
    /// When it is not there, may not be searched for, or is not a directory. ELOOP: a symbolic link is on the way; the
    /// error names it.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_through(path, |_, _| Ok(()))
    }

    /// The same, and shows `pass` each directory on the way, from the top, but for the last and the one above that: their
    /// descriptors are there when it is open. An error of `pass` ends the look-up.
    ///
    /// # Errors
    /// As [`OpenDirectory::open`], and those of `pass`.
    pub fn open_through<E: From<Error>>(
        path: &Path,
        mut pass: impl FnMut(BorrowedFd<'_>, &Path) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, E> {
        let is_up = |name| matches!(name, Component::ParentDir);
        if !path.is_absolute() || path.components().any(is_up) {
            return Err(failed(path, Errno::EINVAL).into());
        }
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name),
            _ => (path, OsStr::new(".")),
        };
        let way: Vec<&Path> = above.ancestors().collect();
        let mut fd = None;
        for dir in way.into_iter().rev() {
            let name = dir.file_name().unwrap_or(OsStr::new("/"));
            let next = search(fd.as_ref(), name).map_err(|errno| failed(dir, errno))?;
            if dir != above {
                pass(next.as_fd(), dir)?;
            }
            fd = Some(next);
        }
        Self::open_at(fd.as_ref(), name, path).map_err(E::from)
    }

    fn open_at(above: Option<&OwnedFd>, name: &OsStr, path: &Path) -> Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(at(above), name, flags, Mode::empty());
        let (dir, unread) = match opened {
            Ok(dir) => (dir, None),
            Err(errno @ (Errno::EACCES | Errno::EPERM)) => match search(above, name) {
                Ok(dir) => (dir, Some(errno)),
                Err(errno) => return Err(failed(path, errno)),
            },
            Err(errno) => return Err(failed(path, or_is_link(above, name, errno))),
        };
        let above = openat(&dir, "..", SEARCHED, Mode::empty());
        Ok(Self { dir, unread, above, path: path.to_owned() })
    }

    /// The open directory above it, as it was found just after it was opened.
    ///
    /// # Errors
    /// When the directory may not be searched, so that nothing is known of the one above.
    pub fn above(&self) -> Result<BorrowedFd<'_>> {
        match &self.above {
            Ok(above) => Ok(above.as_fd()),
            Err(errno) => Err(Error::new("open the directory above", &self.path, *errno)),
        }
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its device and inode.
    ///
    /// # Errors
    /// What `fstat` said.
    pub fn inode(&self) -> Result<(u64, u64)> {
        let stat = fstat(&self.dir).map_err(|errno| Error::new("look at", &self.path, errno))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// The descriptor that a gate can be taken on, or else one for look-ups and why there can be no gate; the directory
    /// above, where it is open; and the path.
    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Error>, Option<OwnedFd>, PathBuf) {
        let Self { dir, unread, above, path } = self;
        let unread = unread.map(|errno| failed(&path, errno));
        (dir, unread, above.ok(), path)
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

fn failed(path: &Path, errno: Errno) -> Error {
    Error::new("open the directory", path, errno)
}

fn at(above: Option<&OwnedFd>) -> BorrowedFd<'_> {
    above.map_or(AT_FDCWD, AsFd::as_fd)
}

/// Opens the directory of this name for look-ups; never through a symbolic link.
fn search(above: Option<&OwnedFd>, name: &OsStr) -> nix::Result<OwnedFd> {
    openat(at(above), name, SEARCHED | OFlag::O_NOFOLLOW, Mode::empty())
        .map_err(|errno| or_is_link(above, name, errno))
}

/// A symbolic link is not a directory (ENOTDIR); what it is instead is worth an errno of its own.
fn or_is_link(above: Option<&OwnedFd>, name: &OsStr, errno: Errno) -> Errno {
    let is_link = || {
        let stat = fstatat(at(above), name, AtFlags::AT_SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFLNK.bits())
    };
    if errno == Errno::ENOTDIR && is_link() { Errno::ELOOP } else { errno }
}
