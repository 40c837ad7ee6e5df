//! Where the trials are made: a database or any other directory that was named, and the bench inside it.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::system_words;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statvfs::{Statvfs, fstatvfs};

use super::bench::Bench;
use super::outcome::TrialFailure;
use crate::error::{Code, Error};
use crate::protocol::{Acceptance, resolve};
use crate::settings::environment::Environment;

/// A directory, open for as long as it is examined, but neither for reading nor for the gate.
#[derive(Debug)]
pub struct ExaminedDirectory {
    dir: OwnedFd,
    /// Without links and redirects.
    pub path: PathBuf,
    /// How it was named or found, for lines.
    pub given: String,
    /// The directory that was named, where that is only the one above the database.
    pub above: Option<String>,
}

impl ExaminedDirectory {
    /// The directory that was named. Without a name the database that is found; for a directory that is not a
    /// database and holds one, `.beads`, that one. A plain directory is examined as it is.
    ///
    /// # Errors
    /// As everywhere: exit 1 when it is not there, 2 when the command line is wrong.
    pub fn resolve(named: Option<&OsStr>, environment: &Environment) -> Result<Self, Error> {
        let (found, above) = match (resolve(named, environment, Acceptance::Any), named) {
            (Err(error), Some(dir)) if error.code() == Code::Usage => {
                // Whatever is wrong with the name itself is as wrong with this one.
                let below = Path::new(dir).join(".beads");
                let found = resolve(Some(below.as_os_str()), environment, Acceptance::Any).map_err(|_| error)?;
                (found, Some(escaped_path(Path::new(dir))))
            }
            (found, _) => (found?, None),
        };
        let path = found.dir().to_owned();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = open(&path, flags, Mode::empty()).map_err(|errno| {
            let (shown, error) = (escaped_path(&path), std::io::Error::from(errno));
            Error::io(format!("failed to open {shown}: {}", system_words(&error)), error.kind())
        })?;
        Ok(Self { dir, path, given: found.given, above })
    }
}

impl AsFd for ExaminedDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// What a trial is given.
#[derive(Debug)]
pub struct TrialSite<'a> {
    /// The directory that is examined.
    pub directory: &'a ExaminedDirectory,
    /// The working directory, for what is to be typed.
    pub cwd: &'a Path,
    /// What is free on the file system, asked before the bench takes its part.
    pub free: nix::Result<Statvfs>,
    /// The bench inside the directory.
    pub made: nix::Result<Bench<'a>>,
}

impl<'a> TrialSite<'a> {
    /// Makes the bench.
    pub fn prepare(directory: &'a ExaminedDirectory, cwd: &'a Path) -> Self {
        let free = fstatvfs(directory);
        Self { directory, cwd, free, made: Bench::make(directory.as_fd(), &directory.path) }
    }

    /// The bench, empty.
    ///
    /// # Errors
    /// When none could be made.
    pub fn bench(&self) -> Result<&Bench<'a>, TrialFailure> {
        let bench = self.made.as_ref().map_err(|_| TrialFailure::untried("nothing can be made here"))?;
        bench.tidy();
        Ok(bench)
    }
}
