//! A directory that is looked up once. Whatever is asked of it later is asked by descriptor, so that a rename of it,
//! or of a directory above it, changes nothing any more.
//!
//! Its path is one without symbolic links. One that has come into it since is not followed: another user may have put
//! it there to lead the look-up somewhere else.

use std::path::PathBuf;
use std::{
    cell::OnceCell, ffi::OsStr, os::fd::AsFd, os::fd::BorrowedFd, os::fd::OwnedFd, path::Component,
    path::Path,
};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};

use crate::{error::Error, error::Result, filesystem::FileKind};

/// A directory, open for reading: its gate can be taken.
const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// A directory, open for look-ups alone.
const SEARCHED: OFlag = OFlag::O_PATH
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The open directory of a database, and the open directory above it.
#[derive(Debug)]
pub struct OpenDirectory {
    dir: OwnedFd,
    /// Why `dir` is open for look-ups alone: it may not be read. There can be no gate then.
    unread: Option<Errno>,
    /// Status of the directory, taken just after it was opened.
    stat: nix::Result<FileStat>,
    /// The directory above (`..`), once it is open; an error where it may not be searched.
    above: OnceCell<nix::Result<OwnedFd>>,
    path: PathBuf,
}

impl OpenDirectory {
    /// Opens the directory at `path`, which is absolute and has neither `..` nor symbolic links in it. Fails when it is
    /// not there, may not be reached, or is not a directory. ELOOP: a symbolic link is on the way; the error names it.
    pub fn open(path: &Path) -> Result<Self> {
        let opened = Self::open_alone(path)?;
        // Now: it may have been moved when its work begins.
        let _ = opened.above();
        Ok(opened)
    }

    /// [`Self::open`], but the directory above is opened only when it is asked for.
    pub fn open_alone(path: &Path) -> Result<Self> {
        let is_up = |name| matches!(name, Component::ParentDir);
        if !path.is_absolute() || path.components().any(is_up) {
            return Err(failed(path, Errno::EINVAL));
        }
        let how = OpenHow::new()
            .flags(READ)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        match openat2(AT_FDCWD, path, how) {
            Ok(dir) => Ok(Self::opened(dir, None, path)),
            // A kernel before 5.6, a sandbox that does not know the call, or an error that has to be named.
            Err(_) => Self::open_by_names(path),
        }
    }

    /// Opens the directory one name at a time, for a kernel or an error with which `openat2(2)` is not enough.
    fn open_by_names(path: &Path) -> Result<Self> {
        let (above, name) = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) => (above, name),
            _ => (path, OsStr::new(".")),
        };
        let way: Vec<&Path> = above.ancestors().collect();
        let mut fd = None;
        for dir in way.into_iter().rev() {
            let name = dir.file_name().unwrap_or(OsStr::new("/"));
            fd = Some(search(fd.as_ref(), name).map_err(|errno| failed(dir, errno))?);
        }
        Self::open_at(fd.as_ref(), name, path)
    }

    fn open_at(above: Option<&OwnedFd>, name: &OsStr, path: &Path) -> Result<Self> {
        let opened = openat(at(above), name, READ, Mode::empty());
        let (dir, unread) = match opened {
            Ok(dir) => (dir, None),
            Err(errno @ (Errno::EACCES | Errno::EPERM)) => match search(above, name) {
                Ok(dir) => (dir, Some(errno)),
                Err(errno) => return Err(failed(path, errno)),
            },
            Err(errno) => return Err(failed(path, or_is_link(above, name, errno))),
        };
        Ok(Self::opened(dir, unread, path))
    }

    fn opened(dir: OwnedFd, unread: Option<Errno>, path: &Path) -> Self {
        let stat = fstat(&dir);
        Self {
            dir,
            unread,
            stat,
            above: OnceCell::new(),
            path: path.to_owned(),
        }
    }

    /// The directory above, opened with it or at the first question. Fails when the directory may not be searched.
    pub fn above(&self) -> Result<BorrowedFd<'_>> {
        match self.above.get_or_init(|| up(&self.dir)) {
            Ok(above) => Ok(above.as_fd()),
            Err(errno) => Err(Error::new("open the directory above", &self.path, *errno)),
        }
    }

    /// The path that the directory was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode of the directory. Fails where its status could not be had at the opening.
    pub fn inode(&self) -> Result<(u64, u64)> {
        let stat = self
            .stat
            .map_err(|errno| Error::new("look at", &self.path, errno))?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Status of the directory, taken just after it was opened; the errno where `fstat(2)` failed.
    pub fn stat(&self) -> nix::Result<FileStat> {
        self.stat
    }

    /// A descriptor, and the names by which the directory above and the one above that are looked up from it.
    pub fn ways_up(&self) -> (BorrowedFd<'_>, [&'static str; 2]) {
        match self.above.get() {
            Some(Ok(above)) => (above.as_fd(), [".", ".."]),
            _ => (self.dir.as_fd(), ["..", "../.."]),
        }
    }

    /// The descriptor that a gate can be taken on, or else one for look-ups and why there can be no gate; the directory
    /// above, where it is open; and the path.
    pub fn into_parts(self) -> (OwnedFd, Option<Error>, Option<OwnedFd>, PathBuf) {
        let Self {
            dir,
            unread,
            above,
            path,
            ..
        } = self;
        let unread = unread.map(|errno| failed(&path, errno));
        (
            dir,
            unread,
            above.into_inner().and_then(nix::Result::ok),
            path,
        )
    }
}

impl AsFd for OpenDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// The directory above an open one; the top is above itself.
pub fn up(dir: impl AsFd) -> nix::Result<OwnedFd> {
    openat(dir, "..", SEARCHED, Mode::empty())
}

fn failed(path: &Path, errno: Errno) -> Error {
    Error::new("open the directory", path, errno)
}

fn at(above: Option<&OwnedFd>) -> BorrowedFd<'_> {
    above.map_or(AT_FDCWD, AsFd::as_fd)
}

/// Opens the directory of this name for look-ups; never through a symbolic link.
fn search(above: Option<&OwnedFd>, name: &OsStr) -> nix::Result<OwnedFd> {
    openat(at(above), name, SEARCHED, Mode::empty()).map_err(|errno| or_is_link(above, name, errno))
}

/// ELOOP instead of ENOTDIR where `name` is a symbolic link; any other errno stays as it is.
fn or_is_link(above: Option<&OwnedFd>, name: &OsStr, errno: Errno) -> Errno {
    let is_link = || {
        let stat = fstatat(at(above), name, AtFlags::AT_SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileKind::of(&stat) == FileKind::Symlink)
    };
    if errno == Errno::ENOTDIR && is_link() {
        Errno::ELOOP
    } else {
        errno
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests move what they have made"
)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::ErrorKind;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn inode(path: &Path) -> (u64, u64) {
        fs::metadata(path)
            .map(|meta| (meta.dev(), meta.ino()))
            .unwrap()
    }

    fn inode_above(opened: &OpenDirectory) -> (u64, u64) {
        let stat = fstat(opened.above().unwrap()).unwrap();
        (stat.st_dev, stat.st_ino)
    }

    /// `top/repo/.beads`.
    fn database() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        let dir = top.join("repo/.beads");
        fs::create_dir_all(&dir).unwrap();
        (root, top, dir)
    }

    #[test]
    fn it_stays_the_directory_that_it_was_wherever_that_is_moved() {
        let (_root, top, dir) = database();
        fs::create_dir_all(top.join("other/.beads")).unwrap();
        for open in [OpenDirectory::open, OpenDirectory::open_by_names] {
            let opened = open(&dir).unwrap();
            let (was, above) = (inode(&dir), inode(&top.join("repo")));
            fs::rename(top.join("repo"), top.join("moved")).unwrap();
            fs::rename(top.join("other"), top.join("repo")).unwrap();
            assert_eq!(
                (opened.inode().unwrap(), inode_above(&opened)),
                (was, above)
            );
            assert_ne!(inode(&dir), was);
            fs::rename(top.join("repo"), top.join("other")).unwrap();
            fs::rename(top.join("moved"), top.join("repo")).unwrap();
        }
    }

    #[test]
    fn no_link_is_followed_and_the_error_names_it() {
        let (_root, top, dir) = database();
        fs::rename(top.join("repo"), top.join("moved")).unwrap();
        symlink(top.join("moved"), top.join("repo")).unwrap();
        symlink(top.join("moved/.beads"), top.join("link")).unwrap();
        for (path, link) in [
            (dir, top.join("repo")),
            (top.join("link"), top.join("link")),
        ] {
            let error = OpenDirectory::open(&path).unwrap_err();
            assert_eq!(
                (error.raw_os_error(), error.path()),
                (Some(Errno::ELOOP as i32), link.as_path())
            );
        }
    }

    #[test]
    fn what_is_not_there_or_not_a_directory_is_an_error_of_its_own() {
        let (_root, top, dir) = database();
        fs::write(top.join("file"), "").unwrap();
        let kind = |path: &Path| OpenDirectory::open(path).unwrap_err().kind();
        assert_eq!(kind(&top.join("gone/.beads")), ErrorKind::NotFound);
        assert_eq!(kind(&top.join("repo/gone")), ErrorKind::NotFound);
        assert_eq!(kind(&top.join("file")), ErrorKind::NotADirectory);
        assert_eq!(kind(&top.join("file/.beads")), ErrorKind::NotADirectory);
        assert_eq!(kind(Path::new("repo/.beads")), ErrorKind::InvalidInput);
        assert_eq!(kind(&dir.join("..")), ErrorKind::InvalidInput);
    }

    #[test]
    fn the_top_is_above_itself() {
        for open in [OpenDirectory::open, OpenDirectory::open_by_names] {
            let opened = open(Path::new("/")).unwrap();
            assert_eq!(
                (opened.inode().unwrap(), inode_above(&opened)),
                (inode(Path::new("/")), inode(Path::new("/")))
            );
        }
    }
}
