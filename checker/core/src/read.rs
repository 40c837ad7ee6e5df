//! Reading a lock file: at most 64 KiB, without blocking and without following a link (docs/design.md#reading). No
//! other module reads one.

use std::{
    ffi::CStr, fs::File, io, iter, os::fd::AsFd, os::unix::ffi::OsStrExt, os::unix::fs::FileExt,
    path::Path,
};
use std::{thread::sleep, time::Duration, time::Instant};

use nix::{
    errno::Errno, fcntl::OFlag, fcntl::openat, sys::stat::FileStat, sys::stat::Mode,
    sys::stat::fstat,
};

use crate::{record::StartedAt, unread::Unread};
use beadlock_base::{filesystem::FileKind, regular::CAREFULLY};

/// Largest size of a lock file, in bytes.
pub(crate) const LIMIT: usize = 64 * 1024;

/// Size up to which a file is read onto the stack, in bytes. A record of beadlock has some 500.
const USUAL: usize = 1024;

/// Length up to which a path is put together on the stack, in bytes.
const USUAL_PATH: usize = 512;

/// Time for which a file is tried again that another process holds under a write lease, as a heartbeat does.
const LEASE_PATIENCE: Duration = Duration::from_millis(50);

/// Identity of a file. Two equal values mean the same file only while the file is held open: a free inode number may be
/// given to another file (docs/design.md#create).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    /// Identity of an open file. If `fstat` fails, the value equals that of no file.
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

/// Result of opening a lock file.
#[derive(Debug)]
pub(crate) enum Sight {
    Absent,
    /// The file is a regular one, and open.
    File(LockFile),
    /// The file is of another kind, or cannot be opened.
    Unreadable(Unread),
}

/// Open lock file. Its inode number stays in use while this value lives.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    stat: FileStat,
}

/// Opens the lock file `name` in the directory `dir` for reading. With `AT_FDCWD` as `dir`, `name` is a path.
pub(crate) fn open(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> Sight {
    open_for(OFlag::O_RDONLY, dir, name)
}

/// Opens the lock file `name` in the directory `dir` for reading and writing, without truncating it.
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

/// Calls `call` with the path `dir/name`. A path shorter than `USUAL_PATH` needs no heap.
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

/// Opens the lock file `name` in the directory at the path `dir`.
pub(crate) fn open_in(dir: &Path, name: &CStr) -> Sight {
    with_path(dir, name, open_path).unwrap_or_else(|errno| Sight::Unreadable(errno.into()))
}

/// True if a file of any kind is called `name` in the directory at the path `dir`. Opens nothing.
pub(crate) fn exists_in(dir: &Path, name: &CStr) -> nix::Result<bool> {
    with_path(dir, name, |path| exists_at(nix::fcntl::AT_FDCWD, path))?
}

pub(crate) fn open_path(path: &(impl nix::NixPath + ?Sized)) -> Sight {
    open(nix::fcntl::AT_FDCWD, path)
}

/// True if a file of any kind is called `name` in the directory `dir`. Opens nothing.
pub(crate) fn exists_at(dir: impl AsFd, name: &(impl nix::NixPath + ?Sized)) -> nix::Result<bool> {
    Ok(inode_at(dir, name)?.is_some())
}

/// Identity of the file that is called `name` in the directory `dir`, without following a link. `None`: no file is.
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

    /// Calls `see` with the whole content as it is now. Content shorter than `USUAL` needs no heap. Errors:
    /// [`Unread::TooLarge`], or the errno of the read.
    pub(crate) fn see<T>(&self, see: impl FnOnce(&[u8]) -> T) -> Result<T, Unread> {
        let mut usual = [0; USUAL];
        match self.fill(&mut usual, 0)? {
            USUAL => self.rest_after(usual.to_vec()).map(|bytes| see(&bytes)),
            filled => Ok(see(&usual[..filled])),
        }
    }

    /// True if the file was larger than 64 KiB when it was opened. beadlock writes no such file.
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

    /// Reads on after `bytes`, the beginning of the content, and returns the whole content.
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

    /// Reads from `start` until `bytes` is full or the file ends. Returns the number of bytes.
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
            // The read stopped where the file ended at the open: another read, for 0 bytes, is not needed.
            if start + filled == size && filled < bytes.len() {
                break;
            }
        }
        Ok(filled)
    }

    /// Writes `bytes` at `offset`, in one write. The file must come from [`open_to_change`].
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

    /// Time of the last change of the file's content, attributes or names (ctime), as of the open. The clock is that of
    /// the machine that writes the file system.
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
