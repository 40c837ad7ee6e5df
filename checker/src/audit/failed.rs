//! What goes wrong with the file, in words.

use std::{fmt, io, path::Path, path::PathBuf};

use nix::errno::Errno;

use crate::{error::words, escape::escaped_path};

/// Why there is no audit trail, or a line is not in it. `Display` says what, which file, why, and what to do.
#[derive(Debug)]
pub struct Failed {
    path: PathBuf,
    act: AuditAct,
    why: String,
    todo: &'static str,
    kind: io::ErrorKind,
    is_news: bool,
}

/// What was tried.
#[derive(Debug)]
pub(super) enum AuditAct {
    Open,
    Write { event: &'static str, lock: PathBuf },
}

impl Failed {
    pub(super) fn new(path: &Path, act: AuditAct, error: &io::Error, is_news: bool) -> Self {
        let errno = error.raw_os_error().map(Errno::from_raw);
        let why = match errno {
            Some(Errno::ELOOP) => "it is a symbolic link".to_owned(),
            _ => words(error),
        };
        let todo = match (error.kind(), errno) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => "make room there",
            (io::ErrorKind::FileTooLarge, _) => "raise the limit for files (ulimit -f), or name another",
            (io::ErrorKind::PermissionDenied, _) => "name one that this user may write",
            (io::ErrorKind::ReadOnlyFilesystem, _) => "name one elsewhere",
            (_, Some(Errno::EMFILE | Errno::ENFILE | Errno::EIO)) => "see to that",
            _ => "name a regular file in a directory that is there",
        };
        Self { path: path.to_owned(), act, why, todo, kind: error.kind(), is_news }
    }

    /// False for a line after another that could not be written either: it has been said.
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { act, why, todo, .. } = self;
        let path = escaped_path(&self.path);
        match act {
            AuditAct::Open => write!(f, "the audit file {path} cannot be opened: {why}; {todo}"),
            AuditAct::Write { event, lock } => {
                let lock = escaped_path(lock);
                write!(
                    f,
                    "{event} of {lock} is not in the audit file {path}: {why}; {todo}; the work goes on without it"
                )
            }
        }
    }
}

impl std::error::Error for Failed {}
