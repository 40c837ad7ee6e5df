//! The directory that is examined: a database, or any other directory that was named.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::system_words;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use crate::error::{Code, Error};
use crate::protocol::beads::Acceptance;
use crate::protocol::resolve;
use crate::settings::environment::Environment;

/// A directory, open for as long as it is examined, but neither for reading nor for the gate.
#[derive(Debug)]
pub struct Subject {
    dir: OwnedFd,
    /// Without links and redirects.
    pub path: PathBuf,
    /// How it was named or found, for lines.
    pub given: String,
    /// The directory that was named, where that is only the one above the database.
    pub above: Option<String>,
}

impl Subject {
    /// The directory that was named. Without a name the database that is found; for a directory that is no database
    /// and holds one, `.beads`, that one. A plain directory is examined as it is.
    ///
    /// # Errors
    /// As everywhere: exit 1 when it is not there, 2 when the command line is wrong.
    pub fn resolve(named: Option<&OsStr>, environment: &Environment) -> Result<Self, Error> {
        let (found, above) = match (resolve(named, environment, Acceptance::Any), named) {
            (Err(error), Some(dir)) if error.code() == Code::Usage => {
                // Whatever is wrong with the name itself is as wrong with this one.
                let below = Path::new(dir).join(".beads");
                let found =
                    resolve(Some(below.as_os_str()), environment, Acceptance::Any).map_err(|_| error)?;
                (found, Some(dir.to_owned()))
            }
            (found, _) => (found?, None),
        };
        let path = found.dir().to_owned();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = open(&path, flags, Mode::empty()).map_err(|errno| {
            let (shown, error) = (escaped_path(&path), std::io::Error::from(errno));
            Error::io(format!("failed to open {shown}: {}", system_words(&error)), error.kind())
        })?;
        let above = above.map(|dir: OsString| escaped_path(Path::new(&dir)));
        Ok(Self { dir, path, given: found.given, above })
    }
}

impl AsFd for Subject {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}
