//! The lock file, open, and the flock on it.

use crate::error::Problem;
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::File, io, path::Path, thread::sleep, time::Duration};

use beadlock_base::regular::CAREFULLY;
use beadlock_base::sys::{Flock, flock, process_id};
use beadlock_base::{
    error::system_words, escape::escaped_path, filesystem::shared_file_system, permission,
};
use beadlock_core::record::file::Mode;
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::{Mode as Permissions, SFlag, fchmod, fstat, lstat};

use super::target::{FileTarget, Locks, no_directory};
use crate::error::{Code, Error};
use crate::words::{Part, to_type};

/// How often an open is tried: a lease on the file may refuse it, and another process may make the file first.
const TRIES: usize = 200;

/// How many bytes a name may have on the file systems of Linux.
const LONGEST_NAME: usize = 255;

/// Device and number: which file it is, for as long as it is open.
pub type FileId = (u64, u64);

/// A lock file, open: for writing where that is allowed, and never written. A file or a directory that is locked itself
/// is open for reading alone: those who watch it are not to hear that it was open for writing.
#[derive(Debug)]
pub struct OpenLockFile {
    file: File,
    inode: FileId,
    is_writable: bool,
}

impl OpenLockFile {
    /// Opens the lock file; makes it, empty, where it does not exist. Fails with [`Code::LockFailed`] where it cannot
    /// be opened or made, and with [`Code::NoTarget`] where its directory does not exist.
    pub fn open(target: &FileTarget) -> Result<Self, Error> {
        Self::open_or(target, true)
            .and_then(|found| found.ok_or_else(|| failed(target, &Errno::ENOENT.into())))
    }

    /// Opens the lock file, and does not make it; `None`: it does not exist. Fails where it cannot be opened.
    pub fn find(target: &FileTarget) -> Result<Option<Self>, Error> {
        Self::open_or(target, false)
    }

    fn open_or(target: &FileTarget, makes: bool) -> Result<Option<Self>, Error> {
        let access = access(target);
        let is_for_writing = access == OFlag::O_RDWR;
        for _ in 0..TRIES {
            let (file, is_writable) = match open(target, access) {
                Ok(file) => (file, is_for_writing),
                // Made by itself: an open that would make it is refused in /tmp where it is somebody else's.
                Err(Errno::ENOENT) if makes => {
                    match open(target, access | OFlag::O_CREAT | OFlag::O_EXCL) {
                        Ok(file) => {
                            set_permissions(target, &file)?;
                            (file, is_for_writing)
                        }
                        Err(Errno::EEXIST) => continue,
                        Err(errno @ (Errno::ENOENT | Errno::ENOTDIR)) => {
                            return Err(no_directory(target.file(), &errno.into()));
                        }
                        Err(errno) => return Err(not_made(target, &errno.into())),
                    }
                }
                Err(Errno::ENOENT) => return Ok(None),
                // An flock needs no more than a descriptor.
                Err(Errno::EACCES | Errno::EPERM | Errno::EROFS)
                    if is_for_writing || target.locks() == Locks::Beside =>
                {
                    match open(target, OFlag::O_RDONLY) {
                        Ok(file) => (file, false),
                        Err(errno) => return Err(failed(target, &errno.into())),
                    }
                }
                Err(Errno::EAGAIN) => {
                    sleep(Duration::from_millis(5));
                    continue;
                }
                // A directory, or a program that runs.
                Err(Errno::EISDIR | Errno::ETXTBSY)
                    if is_for_writing && target.locks() == Locks::Itself =>
                {
                    match open(target, OFlag::O_RDONLY) {
                        Ok(file) => (file, false),
                        Err(errno) => return Err(failed(target, &errno.into())),
                    }
                }
                Err(errno) => return Err(failed(target, &errno.into())),
            };
            let stat = fstat(&file).map_err(|errno| failed(target, &errno.into()))?;
            match stat.st_mode & SFlag::S_IFMT.bits() {
                kind if kind == SFlag::S_IFREG.bits() => {}
                kind if kind == SFlag::S_IFDIR.bits() && target.locks() == Locks::Itself => {}
                kind if kind == SFlag::S_IFDIR.bits() => {
                    return Err(no_regular_file(target, "a directory"));
                }
                _ => return Err(no_regular_file(target, "no regular file")),
            }
            let inode = (stat.st_dev, stat.st_ino);
            return Ok(Some(Self {
                file,
                inode,
                is_writable,
            }));
        }
        Err(failed(target, &Errno::EAGAIN.into()))
    }

    /// The lock file that another process has handed over open; `None`: it cannot be looked at. Not for writing.
    pub fn of(file: File) -> Option<Self> {
        let stat = fstat(&file).ok()?;
        Some(Self {
            inode: (stat.st_dev, stat.st_ino),
            file,
            is_writable: false,
        })
    }

    /// Which file is open, whatever has its name by now.
    pub fn inode(&self) -> FileId {
        self.inode
    }

    /// Whether the lock file is open for writing. It is never written.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    /// Whether this is the file that has the lock file's name now.
    pub fn is_named_by(&self, target: &FileTarget) -> bool {
        named_inode(target) == Some(self.inode)
    }

    /// Takes the flock; dropping the answer lets it go. The inner `Err` gives the file back: the flock is busy.
    pub(crate) fn flock(
        self,
        mode: Mode,
        patience: KernelWait,
    ) -> io::Result<Result<Flocked, Self>> {
        let how = match (mode, patience) {
            (Mode::Exclusive, KernelWait::Try) => Flock::Try,
            (Mode::Exclusive, KernelWait::Blocked) => Flock::Wait,
            (Mode::Shared, KernelWait::Try) => Flock::TryShared,
            (Mode::Shared, KernelWait::Blocked) => Flock::WaitShared,
        };
        Ok(if flock(&self, how)? {
            Ok(Flocked::of(self))
        } else {
            Err(self)
        })
    }
}

impl AsFd for OpenLockFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether the kernel is to be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelWait {
    Try,
    /// For as long as it takes: for a thread of its own.
    Blocked,
}

/// Which file has the lock file's name now; a symbolic link is one of its own. `None`: none, or it is not to be seen.
pub fn named_inode(target: &FileTarget) -> Option<FileId> {
    lstat(target.lock_name())
        .ok()
        .map(|stat| (stat.st_dev, stat.st_ino))
}

/// A lock file with the flock on it. Dropped, it is unlocked before it is closed, for a fork may have it open too; in a
/// fork it is closed alone.
#[derive(Debug)]
#[must_use = "dropping it lets the lock go at once"]
pub(crate) struct Flocked {
    file: OpenLockFile,
    process: u32,
}

impl Flocked {
    pub fn of(file: OpenLockFile) -> Self {
        Self {
            file,
            process: process_id(),
        }
    }

    /// Closes it here; another process with the same open file keeps the lock.
    pub fn leave(mut self) {
        self.process = 0;
    }

    pub fn file(&self) -> &OpenLockFile {
        &self.file
    }
}

impl Drop for Flocked {
    fn drop(&mut self) {
        if self.process == process_id() {
            // The close that follows unlocks as well, when it is the last one.
            let _ = flock(&self.file, Flock::Unlock);
        }
    }
}

/// How the lock file is opened. On a network file system the kernel may want it open for writing, because an exclusive
/// flock is a lock on its bytes there.
fn access(target: &FileTarget) -> OFlag {
    match target.locks() {
        Locks::Itself if shared_file_system(target.dir()).is_none() => OFlag::O_RDONLY,
        Locks::Beside | Locks::Itself => OFlag::O_RDWR,
    }
}

/// Opens the lock file, whatever is there, without waiting for anybody.
fn open(target: &FileTarget, how: OFlag) -> nix::Result<File> {
    let carefully = OFlag::O_NOFOLLOW | CAREFULLY;
    let permissions = match target.locks() {
        Locks::Beside => 0o644,
        // As flock(1) makes it.
        Locks::Itself => 0o666,
    };
    loop {
        match fcntl::open(
            target.lock_name(),
            how | carefully,
            Permissions::from_bits_truncate(permissions),
        ) {
            Err(Errno::EINTR) => {}
            opened => return opened.map(File::from),
        }
    }
}

/// Gives a lock file that was just made the permissions that were asked for.
fn set_permissions(target: &FileTarget, made: &File) -> Result<(), Error> {
    target.permissions().map_or(Ok(()), |mode| {
        fchmod(made, Permissions::from_bits_truncate(mode))
            .map_err(|errno| not_made(target, &errno.into()))
    })
}

fn errno(error: &io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::UnknownErrno, Errno::from_raw)
}

pub(crate) fn failed(target: &FileTarget, error: &io::Error) -> Error {
    match errno(error) {
        Errno::ELOOP => no_regular_file(target, "a symbolic link"),
        Errno::EISDIR => no_regular_file(target, "a directory"),
        Errno::ENXIO => no_regular_file(target, "a socket"),
        Errno::ENOTDIR => no_directory(target.file(), error),
        Errno::ENAMETOOLONG => refused(target, &too_long(target), error),
        Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::ENOSYS => refused(
            target,
            "its file system knows no locks; keep the file on another one",
            error,
        ),
        Errno::EACCES | Errno::EPERM => {
            let its_own = || match target.locks() {
                Locks::Beside => "who made it may let others in: chmod 0644".to_owned(),
                Locks::Itself => "who owns it may let others in: chmod a+r".to_owned(),
            };
            refused(
                target,
                &permission::directory_above(target.lock()).unwrap_or_else(its_own),
                error,
            )
        }
        _ => refused(target, "see to that, then try again", error),
    }
}

fn not_made(target: &FileTarget, error: &io::Error) -> Error {
    let then = match errno(error) {
        Errno::EACCES | Errno::EPERM | Errno::EROFS => {
            "its directory must be writable for that, or the file be there"
        }
        Errno::ENOSPC | Errno::EDQUOT => "make room, then try again",
        _ => "see to that, then try again",
    };
    let (lock, why) = (lock_file(target), system_words(error));
    not_locked(target, &format!("{lock} cannot be made: {why}; {then}"))
}

/// What is too long, and for what: the file itself may be there.
fn too_long(target: &FileTarget) -> String {
    let length = |path: &Path| path.file_name().unwrap_or_default().len();
    let (name, beside) = (length(target.file()), length(target.lock()));
    if beside > LONGEST_NAME && target.locks() == Locks::Itself {
        format!(
            "its name has {name} bytes, and a name has at most {LONGEST_NAME}; give it a shorter one"
        )
    } else if beside > LONGEST_NAME {
        let most = LONGEST_NAME - (beside - name);
        format!(
            "the file's name has {name} bytes, and with a lock file beside it at most {most}; give it a shorter one"
        )
    } else {
        "the whole path is too long for the system; keep the file in a directory with a shorter one"
            .to_owned()
    }
}

fn refused(target: &FileTarget, then: &str, error: &io::Error) -> Error {
    let (lock, why) = (lock_file(target), system_words(error));
    not_locked(target, &format!("{lock} cannot be locked: {why}; {then}"))
}

/// The file that the flock is on, for messages.
fn lock_file(target: &FileTarget) -> String {
    let path = escaped_path(target.lock());
    match target.locks() {
        Locks::Beside => format!("the lock file {path}"),
        Locks::Itself => path,
    }
}

fn no_regular_file(target: &FileTarget, what: &str) -> Error {
    let (lock, look) = (
        escaped_path(target.lock()),
        to_type("ls -ld {}", &[Part::Path(target.lock())]),
    );
    not_locked(
        target,
        &format!("{lock} is {what}, and was not touched; move it out of the way: {look}"),
    )
}

fn not_locked(target: &FileTarget, why: &str) -> Error {
    let detail = format!("lock_file={}", escaped_path(target.lock()));
    Error::new(
        Code::LockFailed,
        format!("cannot lock {}: {why}", target.shown()),
    )
    .detailed(detail)
}
