//! The error of a failed call on a path, with that path. Busy, held and stale are answers, not errors.

use std::{fmt, io, path::Path, path::PathBuf};

use nix::errno::Errno;

/// A failed call on a path: which step, which path, and what the system said.
#[derive(Debug)]
pub struct Error {
    doing: &'static str,
    path: Box<Path>,
    source: io::Error,
}

/// The result of a call that may fail on a path.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failure of the step `doing` on the path.
    #[doc(hidden)]
    pub fn new(
        doing: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self {
            doing,
            path: path.into().into_boxed_path(),
            source: source.into(),
        }
    }

    /// The file or directory on which the step failed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The kind of error that the system returned.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    /// There can be no gate here at all: the directory may not be read, is not there, or knows no flock. False for
    /// what may pass, such as too many open files: no cycle may go on without a gate for that.
    pub fn means_no_gate(&self) -> bool {
        let errno = self
            .raw_os_error()
            .map_or(Errno::UnknownErrno, Errno::from_raw);
        matches!(
            errno,
            Errno::EACCES
                | Errno::EPERM
                | Errno::ENOENT
                | Errno::ENOTDIR
                | Errno::ENOLCK
                | Errno::EOPNOTSUPP
                | Errno::ENOSYS
                | Errno::EINVAL
        )
    }

    /// True when both are failures of the same step on the same path with the same error.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        (self.doing, &self.path, self.kind(), self.raw_os_error())
            == (other.doing, &other.path, other.kind(), other.raw_os_error())
    }

    /// The errno, where there is one.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl fmt::Display for Error {
    /// `failed to DOING PATH: what the system said (errno)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = crate::escape::escaped_path(&self.path);
        write!(
            f,
            "failed to {} {path}: {}",
            self.doing,
            system_words(&self.source)
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// The system's own words for an error, without Rust's `(os error N)`; of too many open files which limit it is.
pub fn system_words(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EMFILE) => "too many open files (ulimit -n)".to_owned(),
        Some(Errno::ENFILE) => "too many open files on this machine (fs.file-max)".to_owned(),
        Some(errno) => errno.desc().to_lowercase(),
        None => error.to_string(),
    }
}
