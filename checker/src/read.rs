//! The only way a lock file is read: bounded, never blocking, never following a link (DESIGN 4).

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};

use crate::error::words;

/// The longest lock file that is read.
pub(crate) const LIMIT: usize = 64 * 1024;

/// For how long a file that somebody has under a write lease is tried again.
const LEASE_PATIENCE: Duration = Duration::from_millis(50);

/// Why such a file is unreadable for the moment.
pub(crate) const LEASED: &str = "another process has it under a write lease";

/// Which file something is. Means something only while that file is open, which keeps the number taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    /// Of a descriptor. It is open, so this cannot fail; should it, the answer is no file's number.
    pub(crate) fn of_open(fd: impl AsFd) -> Self {
        fstat(fd).map_or(Self { device: u64::MAX, number: 0 }, |stat| Self::of(&stat))
    }

    pub(crate) fn of(stat: &FileStat) -> Self {
        Self { device: stat.st_dev, number: stat.st_ino }
    }
}

/// What is at a lock file's path.
#[derive(Debug)]
pub(crate) enum Sight {
    /// Nothing.
    Absent,
    /// A regular file, open for reading.
    File(LockFile),
    /// Something else, or something that may not be read; in words.
    Unreadable(String),
}

/// A lock file that is open for reading: its inode is pinned while this lives.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    /// As it was when it was opened.
    stat: FileStat,
}

/// Opens the lock file `name` in the directory `dir`, or at the path `name` when `dir` is the working directory.
pub(crate) fn open(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> Sight {
    let deadline = Instant::now() + LEASE_PATIENCE;
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    loop {
        return match openat(dir.as_fd(), name, flags, Mode::empty()) {
            Ok(fd) => LockFile::opened(File::from(fd)),
            Err(Errno::ENOENT) => Sight::Absent,
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) if Instant::now() < deadline => {
                sleep(Duration::from_millis(5));
                continue;
            }
            Err(Errno::EAGAIN) => Sight::Unreadable(LEASED.to_owned()),
            Err(Errno::ELOOP) => Sight::Unreadable("it is a symbolic link".to_owned()),
            Err(Errno::ENXIO) => Sight::Unreadable("it is a socket".to_owned()),
            Err(errno) => Sight::Unreadable(words(&errno.into())),
        };
    }
}

/// Opens the lock file at `path`.
pub(crate) fn open_path(path: &(impl nix::NixPath + ?Sized)) -> Sight {
    open(nix::fcntl::AT_FDCWD, path)
}

/// Whether anything, of whatever kind, has this name in the directory. Never opens it.
///
/// # Errors
/// What `lstat` said, other than that there is nothing.
pub(crate) fn exists_at(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<bool> {
    Ok(inode_at(dir, name)?.is_some())
}

/// Which file has this name in the directory; `None` when there is nothing.
pub(crate) fn inode_at(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<Option<Inode>> {
    match nix::sys::stat::fstatat(dir, name, nix::fcntl::AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Inode::of(&stat))),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

impl LockFile {
    fn opened(file: File) -> Sight {
        let stat = match fstat(&file) {
            Ok(stat) => stat,
            Err(errno) => return Sight::Unreadable(words(&errno.into())),
        };
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFREG => Sight::File(Self { file, stat }),
            SFlag::S_IFDIR => Sight::Unreadable("it is a directory".to_owned()),
            SFlag::S_IFIFO => Sight::Unreadable("it is a FIFO".to_owned()),
            _ => Sight::Unreadable("it is not a regular file".to_owned()),
        }
    }

    /// The whole content as it is now.
    ///
    /// # Errors
    /// Words: what reading said, or that it is larger than 64 KiB.
    pub(crate) fn read(&self) -> Result<Vec<u8>, String> {
        let size = usize::try_from(self.stat.st_size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size.min(LIMIT) + 1];
        let mut filled = 0;
        loop {
            match self.file.read_at(&mut bytes[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(words(&error)),
            }
            if filled > LIMIT {
                return Err("it is larger than 64 KiB".to_owned());
            }
            if filled == bytes.len() {
                bytes.resize((filled * 2).min(LIMIT) + 1, 0);
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Which file it is.
    pub(crate) fn inode(&self) -> Inode {
        Inode::of(&self.stat)
    }

    /// As it is now.
    pub(crate) fn stat_now(&self) -> nix::Result<FileStat> {
        fstat(&self.file)
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `dir/name` for [`open_path`].
pub(crate) fn join(dir: &Path, name: &CStr) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    dir.join(std::ffi::OsStr::from_bytes(name.to_bytes()))
}
