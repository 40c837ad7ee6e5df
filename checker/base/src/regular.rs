//! The one way a file that others may have put there is read: a regular file alone, without waiting for the other end
//! of a FIFO, and no more of it than was agreed.

use std::{fmt, fs::File, io, io::Read, os::fd::AsFd, path::Path};

use nix::{
    NixPath,
    errno::Errno,
    fcntl::{AT_FDCWD, OFlag, openat},
    sys::stat::Mode,
};

/// The flags of every opening that must neither wait nor change anything but the file: a FIFO has no other end, a
/// terminal does not become ours, and no child inherits it.
pub const CAREFULLY: OFlag = OFlag::O_NONBLOCK
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// A symbolic link in place of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// The file is the one that it leads to.
    Followed,
    /// [`NotRead::Link`].
    Refused,
}

/// Why there is no such content.
#[derive(Debug)]
pub enum NotRead {
    /// The system said so.
    System(io::Error),
    /// A symbolic link, where none is followed.
    Link,
    /// A directory.
    Directory,
    /// A FIFO, a socket or a device.
    Special,
    /// More than this number of bytes.
    TooLarge(u64),
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: u64 = 1024 * 1024;
        match self {
            Self::System(error) => f.write_str(&crate::error::system_words(error)),
            Self::Link => f.write_str("it is a symbolic link"),
            Self::Directory => f.write_str("it is a directory"),
            Self::Special => f.write_str("it is not a regular file"),
            Self::TooLarge(limit) if limit % MIB == 0 => {
                write!(f, "it is larger than {} MiB", limit / MIB)
            }
            Self::TooLarge(limit) => write!(f, "it is larger than {} KiB", limit / 1024),
        }
    }
}

impl From<io::Error> for NotRead {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<NotRead> for io::Error {
    fn from(unread: NotRead) -> Self {
        let kind = match unread {
            NotRead::System(error) => return error,
            NotRead::Directory => io::ErrorKind::IsADirectory,
            NotRead::Link | NotRead::Special => io::ErrorKind::InvalidInput,
            NotRead::TooLarge(_) => io::ErrorKind::FileTooLarge,
        };
        Self::new(kind, unread.to_string())
    }
}

/// The regular file at `path`, open for reading.
///
/// # Errors
/// Why it is not.
pub fn open(path: &Path, links: Links) -> Result<File, NotRead> {
    open_at(AT_FDCWD, path, links)
}

/// [`open`] of `name` in the directory `dir`.
///
/// # Errors
/// As [`open`].
pub fn open_at(
    dir: impl AsFd,
    name: &(impl NixPath + ?Sized),
    links: Links,
) -> Result<File, NotRead> {
    let access = match links {
        Links::Followed => OFlag::O_RDONLY,
        Links::Refused => OFlag::O_RDONLY | OFlag::O_NOFOLLOW,
    };
    let file = loop {
        match openat(dir.as_fd(), name, access | CAREFULLY, Mode::empty()) {
            Ok(fd) => break File::from(fd),
            Err(Errno::EINTR) => {}
            Err(Errno::ELOOP) if links == Links::Refused => return Err(NotRead::Link),
            // A socket, or a device without a driver.
            Err(Errno::ENXIO) => return Err(NotRead::Special),
            Err(errno) => return Err(NotRead::System(errno.into())),
        }
    };
    let kind = file.metadata()?.file_type();
    match () {
        () if kind.is_file() => Ok(file),
        () if kind.is_dir() => Err(NotRead::Directory),
        () => Err(NotRead::Special),
    }
}

/// The whole of a regular file of at most `limit` bytes.
///
/// # Errors
/// Why there is none.
pub fn read(path: &Path, links: Links, limit: u64) -> Result<Vec<u8>, NotRead> {
    whole(open(path, links)?, limit)
}

/// [`read`] as text.
///
/// # Errors
/// As [`read`]; [`io::ErrorKind::InvalidData`]: it is not UTF-8.
pub fn read_text(path: &Path, links: Links, limit: u64) -> Result<String, NotRead> {
    String::from_utf8(read(path, links, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8").into())
}

/// The rest of an open file, of at most `limit` bytes.
///
/// # Errors
/// Why there is none.
pub fn whole(file: File, limit: u64) -> Result<Vec<u8>, NotRead> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(NotRead::TooLarge(limit));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, os::unix::net::UnixListener};

    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_a_regular_file_of_fitting_size_is_read_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
        symlink("fifo", at("to-fifo")).unwrap();
        fs::create_dir(at("dir")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();

        let read = |name: &str, links, limit| {
            read(&at(name), links, limit)
                .map(|bytes| String::from_utf8(bytes).unwrap())
                .map_err(|why| why.to_string())
        };
        let refused = |words: &str| Err(words.to_owned());
        assert_eq!(read("file", Links::Refused, 5), Ok("12345".to_owned()));
        assert_eq!(read("link", Links::Followed, 5), Ok("12345".to_owned()));
        assert_eq!(
            read("link", Links::Refused, 5),
            refused("it is a symbolic link")
        );
        assert_eq!(
            read("dir", Links::Followed, 5),
            refused("it is a directory")
        );
        for special in ["fifo", "to-fifo", "socket"] {
            assert_eq!(
                read(special, Links::Followed, 5),
                refused("it is not a regular file")
            );
        }
        assert_eq!(
            read("none", Links::Followed, 5),
            refused("no such file or directory")
        );
        fs::write(at("large"), vec![b'x'; 2049]).unwrap();
        assert_eq!(
            read("large", Links::Followed, 2048),
            refused("it is larger than 2 KiB")
        );
    }
}
