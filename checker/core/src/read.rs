//! The only way a lock file is read: bounded, never blocking, never following a link (docs/design.md#reading).

use std::{
    ffi::CStr, fs::File, io, iter, os::fd::AsFd, os::unix::ffi::OsStrExt, os::unix::fs::FileExt,
    path::Path,
};
use std::{thread::sleep, time::Duration, time::Instant};

use nix::{
    errno::Errno, fcntl::OFlag, fcntl::openat, sys::stat::FileStat, sys::stat::Mode,
    sys::stat::fstat,
};

use crate::{dialect::StartedAt, unread::Unread};
use beadlock_base::{filesystem::FileKind, regular::CAREFULLY};

pub(crate) const LIMIT: usize = 64 * 1024;

/// A record of ours has some 500 bytes; what is shorter than this is read onto the stack.
const USUAL: usize = 1024;

/// Paths up to this length are put together on the stack.
const USUAL_PATH: usize = 512;

/// For how long a file that somebody has under a write lease is tried again.
const LEASE_PATIENCE: Duration = Duration::from_millis(50);

/// Which file something is. Means something only while that file is open, which keeps the number taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    /// Of a descriptor. It is open, so this cannot fail; should it, the answer does not fit any file.
    pub(crate) fn of_open(fd: impl AsFd) -> Self {
        fstat(fd).map_or(
            Self {
                device: u64::MAX,
                number: 0,
            },
            |stat| Self::of(&stat),
        )
    }

    pub(crate) fn of(stat: &FileStat) -> Self {
        Self {
            device: stat.st_dev,
            number: stat.st_ino,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Sight {
    Absent,
    /// A regular file, open for reading.
    File(LockFile),
    /// Something else, or something that may not be read.
    Unreadable(Unread),
}

/// A lock file that is open for reading: its inode is pinned while this lives.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    stat: FileStat,
}

/// Opens the lock file `name` in the directory `dir`, or at the path `name` when `dir` is the working directory.
pub(crate) fn open(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> Sight {
    open_for(OFlag::O_RDONLY, dir, name)
}

pub(crate) fn open_to_change(dir: impl AsFd, name: &CStr) -> Sight {
    open_for(OFlag::O_RDWR, dir, name)
}

fn open_for(access: OFlag, dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> Sight {
    let mut deadline = None;
    let flags = access | OFlag::O_NOFOLLOW | CAREFULLY;
    loop {
        return match openat(dir.as_fd(), name, flags, Mode::empty()) {
            Ok(fd) => LockFile::opened(File::from(fd)),
            Err(Errno::ENOENT) => Sight::Absent,
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN)
                if Instant::now()
                    < *deadline.get_or_insert_with(|| Instant::now() + LEASE_PATIENCE) =>
            {
                sleep(Duration::from_millis(5));
                continue;
            }
            Err(Errno::EAGAIN) => Sight::Unreadable(Unread::Leased),
            Err(Errno::ELOOP) => Sight::Unreadable(Unread::NotRegular(FileKind::Symlink)),
            Err(Errno::ENXIO) => Sight::Unreadable(Unread::NotRegular(FileKind::Socket)),
            Err(errno) => Sight::Unreadable(errno.into()),
        };
    }
}

/// Calls with `dir/name`, which is put together without the heap where it is short enough.
pub(crate) fn with_path<T>(
    dir: &Path,
    name: &CStr,
    call: impl FnOnce(&CStr) -> T,
) -> nix::Result<T> {
    let (dir, name) = (dir.as_os_str().as_bytes(), name.to_bytes_with_nul());
    let slash: &[u8] = if dir.is_empty() || dir.ends_with(b"/") {
        b""
    } else {
        b"/"
    };
    let parts = [dir, slash, name];
    let length = dir.len() + slash.len() + name.len();
    let mut usual = [0; USUAL_PATH];
    let mut long = Vec::new();
    let path = match usual.get_mut(..length) {
        Some(path) => {
            iter::zip(path.iter_mut(), parts.into_iter().flatten())
                .for_each(|(to, byte)| *to = *byte);
            &*path
        }
        None => {
            long.extend(parts.into_iter().flatten());
            &long
        }
    };
    CStr::from_bytes_with_nul(path)
        .map(call)
        .map_err(|_| Errno::EINVAL)
}

/// Opens the lock file `name` in `dir`, a path from the working directory.
pub(crate) fn open_in(dir: &Path, name: &CStr) -> Sight {
    with_path(dir, name, open_path).unwrap_or_else(|errno| Sight::Unreadable(errno.into()))
}

/// Whether anything has this name in `dir`, a path from the working directory. Never opens it.
pub(crate) fn exists_in(dir: &Path, name: &CStr) -> nix::Result<bool> {
    with_path(dir, name, |path| exists_at(nix::fcntl::AT_FDCWD, path))?
}

pub(crate) fn open_path(path: &(impl nix::NixPath + ?Sized)) -> Sight {
    open(nix::fcntl::AT_FDCWD, path)
}

/// Whether anything, of whatever kind, has this name in the directory. Never opens it.
pub(crate) fn exists_at(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<bool> {
    Ok(inode_at(dir, name)?.is_some())
}

/// Which file has this name in the directory; `None` when there is nothing.
pub(crate) fn inode_at(
    dir: impl AsFd,
    name: &(impl nix::NixPath + ?Sized),
) -> nix::Result<Option<Inode>> {
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
            Err(errno) => return Sight::Unreadable(errno.into()),
        };
        match FileKind::of(&stat) {
            FileKind::File => Sight::File(Self { file, stat }),
            kind => Sight::Unreadable(Unread::NotRegular(kind)),
        }
    }

    /// Shows `see` the whole content as it is now, one of the usual size without the heap; else why not.
    pub(crate) fn see<T>(&self, see: impl FnOnce(&[u8]) -> T) -> Result<T, Unread> {
        let mut usual = [0; USUAL];
        match self.fill(&mut usual, 0)? {
            USUAL => self.rest_after(usual.to_vec()).map(|bytes| see(&bytes)),
            filled => Ok(see(&usual[..filled])),
        }
    }

    /// It was larger than 64 KiB when it was opened, which nothing is that beadlock writes.
    pub(crate) fn is_too_large(&self) -> bool {
        usize::try_from(self.stat.st_size).is_ok_and(|size| size > LIMIT)
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, Unread> {
        self.see(<[u8]>::to_vec)
    }

    pub(crate) fn first(&self, count: usize) -> Result<Vec<u8>, Unread> {
        let mut bytes = vec![0; count];
        let filled = self.fill(&mut bytes, 0)?;
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The content, whose first bytes these are.
    fn rest_after(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Unread> {
        let filled = bytes.len();
        bytes.resize(LIMIT + 1, 0);
        let filled = filled + self.fill(&mut bytes[filled..], filled)?;
        if filled > LIMIT {
            return Err(Unread::TooLarge);
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Reads on from `start` until the end of the file or of `bytes`; how many there were.
    fn fill(&self, bytes: &mut [u8], start: usize) -> Result<usize, Unread> {
        let size = usize::try_from(self.stat.st_size).unwrap_or(usize::MAX);
        let mut filled = 0;
        while filled < bytes.len() {
            match self
                .file
                .read_at(&mut bytes[filled..], (start + filled) as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Unread::Os(
                        error.raw_os_error().unwrap_or(Errno::EIO as i32),
                    ));
                }
            }
            // Less than was asked for, and all that there was a moment ago: that was the end.
            if start + filled == size && filled < bytes.len() {
                break;
            }
        }
        Ok(filled)
    }

    /// Writes over what is at `offset`, in one write; for a file that was [opened so](open_to_change).
    pub(crate) fn overwrite(&self, bytes: &[u8], offset: usize) -> io::Result<()> {
        let written = self.file.write_at(bytes, offset as u64)?;
        if written == bytes.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    pub(crate) fn inode(&self) -> Inode {
        Inode::of(&self.stat)
    }

    /// When anything of it was last changed, its name too, as of when it was opened. By the clock of the machine that
    /// writes the file system.
    pub(crate) fn changed(&self) -> StartedAt {
        let nanos = u32::try_from(self.stat.st_ctime_nsec).unwrap_or_default();
        StartedAt::from_unix(self.stat.st_ctime, nanos)
    }

    pub(crate) fn stat_now(&self) -> nix::Result<FileStat> {
        fstat(&self.file)
    }
}

impl AsFd for LockFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

pub(crate) fn join(dir: &Path, name: &CStr) -> std::path::PathBuf {
    dir.join(std::ffi::OsStr::from_bytes(name.to_bytes()))
}
