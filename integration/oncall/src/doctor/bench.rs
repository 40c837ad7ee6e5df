//! The place of the trials: the directory that is examined, and the bench, a private directory inside it. The bench is
//! gone at the end. After a crash, the next doctor removes it, once its process is dead.
#![expect(
    clippy::disallowed_methods,
    reason = "it removes the files and directories that it has made, by their own names"
)]

use beadlock_claim::error::Problem;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs::File, io, thread::sleep};

use beadlock_base::process::Liveness;
use beadlock_base::{error::system_words, escape::escaped_path, helper::Helpers, process};
use beadlock_core::facts::{Ids, hostname, random_id};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statvfs::{Statvfs, fstatvfs};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::{guarantee::LockKind, results::TrialFailure};
use crate::list::listing::meant;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::protocol::{Acceptance, resolve};

/// The beginning of a bench's name. Agents and git ignore such names, as they ignore the lock file itself.
const PREFIX: &str = ".exclusive-lock.doctor-";
/// A directory on the bench: the stand-in for the one that a gate is taken on.
pub const GATE: &str = "gate";
/// The file on the bench that two processes share.
pub const FILE: &str = "file";
/// The age in seconds after which no process can use a bench any more, whatever a PID means where it was made.
const OLD: i64 = 3600;
/// How long removal is tried again: on FUSE and NFS, files that were open a moment ago stay for a while.
const PATIENCE: Duration = Duration::from_secs(1);

const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_CLOEXEC);
const OUR_DIRECTORY: OFlag = DIRECTORY.union(OFlag::O_NOFOLLOW);

#[derive(Debug)]
pub struct ExaminedDirectory {
    /// The directory, open for as long as it is examined, but neither for reading nor for the gate.
    pub dir: OwnedFd,
    /// The path of the directory, without links and redirects.
    pub path: PathBuf,
    /// The directory as it was named or found, for the report.
    pub given: String,
    /// The file name of its lock.
    pub lock: String,
    /// The properties of its lock that decide what is promised.
    pub kind: LockKind,
    /// The directory that was named, where that is only the one above the database.
    pub above: Option<String>,
}

impl ExaminedDirectory {
    /// The directory that was named. Without a name the database that is found; for a directory that is not a
    /// database and holds one, `.beads`, that one. A plain directory is examined as it is.
    ///
    /// # Errors
    /// Exit 1 when the directory is not there, 2 when the command line is wrong: as for every command.
    pub fn resolve(named: Option<&OsStr>, environment: &Environment) -> Result<Self, Error> {
        let (found, above) = match (resolve(named, environment, Acceptance::Any), named) {
            (Err(error), Some(dir)) if error.code() == Code::Usage => {
                // Whatever is wrong with the name itself is as wrong with this one.
                let below = Path::new(dir).join(".beads");
                let found = resolve(Some(below.as_os_str()), environment, Acceptance::Any)
                    .map_err(|_| error)?;
                (found, Some(escaped_path(Path::new(dir))))
            }
            (found, _) => (found?, None),
        };
        let path = found.dir().to_owned();
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = open(&path, flags, Mode::empty()).map_err(|errno| {
            let (shown, error) = (escaped_path(&path), io::Error::from(errno));
            Error::io(
                format!("failed to open {shown}: {}", system_words(&error)),
                error.kind(),
            )
        })?;
        let given = found.given.clone();
        let meant = meant(found, &environment.of_database());
        let lock = meant.path();
        let name = lock.file_name().unwrap_or_default();
        Ok(Self {
            dir,
            path,
            given,
            lock: name.to_string_lossy().into_owned(),
            kind: LockKind::of(&meant),
            above,
        })
    }
}

/// The input of every trial: the examined directory, the bench, and settings of the caller.
#[derive(Debug)]
pub struct TrialSite<'a> {
    pub directory: &'a ExaminedDirectory,
    /// The working directory, for commands that the report advises to type.
    pub cwd: &'a Path,
    /// The value of `PATH`, along which merge drivers are looked for.
    pub search_path: &'a OsStr,
    /// The free space of the file system, asked for before the bench takes its part.
    pub free: nix::Result<Statvfs>,
    pub made: nix::Result<Bench<'a>>,
}

impl<'a> TrialSite<'a> {
    /// Makes the bench, after asking for the free space.
    pub fn prepare(
        helpers: Helpers,
        directory: &'a ExaminedDirectory,
        cwd: &'a Path,
        search_path: &'a OsStr,
    ) -> Self {
        let free = fstatvfs(&directory.dir);
        Self {
            directory,
            cwd,
            search_path,
            free,
            made: Bench::make(helpers, directory),
        }
    }

    /// The bench, empty but for the gate. Fails when none could be made.
    pub fn bench(&self) -> Result<&Bench<'a>, TrialFailure> {
        let bench = self
            .made
            .as_ref()
            .map_err(|_| TrialFailure::untried("nothing can be made here"))?;
        let _ = empty(bench.above, &bench.name, &[GATE]);
        Ok(bench)
    }
}

/// A private directory inside the examined one; dropped, it is removed.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The helpers that this program can run as: the second process is one.
    pub helpers: Helpers,
    above: BorrowedFd<'a>,
    name: String,
    dir: OwnedFd,
    path: PathBuf,
}

impl<'a> Bench<'a> {
    /// Makes a bench in the directory, and removes the benches there that dead processes have left.
    fn make(helpers: Helpers, directory: &'a ExaminedDirectory) -> nix::Result<Self> {
        let above = directory.dir.as_fd();
        let name = format!(
            "{PREFIX}{}-{}{}",
            std::process::id(),
            here(),
            &random_id()[..8]
        );
        mkdirat(above, name.as_str(), Mode::S_IRWXU)?;
        let opened = openat(above, name.as_str(), OUR_DIRECTORY, Mode::empty());
        let dir = opened.inspect_err(|_| {
            let _ = unlinkat(above, name.as_str(), UnlinkatFlags::RemoveDir);
        })?;
        let bench = Self {
            helpers,
            above,
            path: directory.path.join(&name),
            name,
            dir,
        };
        mkdirat(&bench.dir, GATE, Mode::S_IRWXU)?;
        bench.sweep();
        Ok(bench)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file that is not there yet, for reading and writing.
    pub fn create(&self, name: &str) -> nix::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        openat(&self.dir, name, flags, Mode::from_bits_truncate(0o644)).map(File::from)
    }

    /// Opens a file or a directory of the bench for reading.
    pub fn open(&self, name: &str) -> nix::Result<File> {
        openat(
            &self.dir,
            name,
            OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map(File::from)
    }

    /// The content of a file on the bench.
    pub fn read(&self, name: &str) -> io::Result<String> {
        io::read_to_string(self.open(name)?)
    }

    /// Removes the bench, and tries again for up to a second; fails as the last attempt did.
    pub fn clear(&self) -> nix::Result<()> {
        let begun = Instant::now();
        loop {
            match remove(self.above, &self.name) {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(errno) if begun.elapsed() >= PATIENCE => return Err(errno),
                Err(_) => sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Removes the benches of dead processes: those made on this machine, and those an hour older than this one.
    fn sweep(&self) {
        let Ok(mut above) = Dir::openat(self.above, c".", DIRECTORY, Mode::empty()) else {
            return;
        };
        let Ok(now) = fstat(&self.dir) else { return };
        // An error is not passed by reading on.
        for entry in above.iter().map_while(Result::ok) {
            let name = entry.file_name().to_str().unwrap_or_default();
            if self.is_left_over(name, &now).unwrap_or(false) {
                let _ = remove(self.above, name);
            }
        }
    }

    /// Whether `name` is the bench of a dead process: made where a PID means what it means here, or long ago. `None`
    /// counts as no.
    fn is_left_over(&self, name: &str, now: &FileStat) -> Option<bool> {
        let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        if process::probe(pid.parse().ok()?) != Liveness::Gone {
            return None;
        }
        let stat = fstatat(self.above, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_dir =
            SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR;
        let is_old = now.st_mtime.saturating_sub(stat.st_mtime) > OLD;
        Some(is_dir && stat.st_uid == geteuid().as_raw() && (rest.starts_with(&here()) || is_old))
    }
}

impl AsFd for Bench<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// Tells the machine, boot and PID namespace where a PID means what it means here from others: eight digits. Another
/// build of this program may have others, and is then as strange as another machine.
fn here() -> String {
    let ids = Ids::current();
    let mut hasher = DefaultHasher::new();
    (hostname(), &ids.machine_id, &ids.boot_id, &ids.pid_ns).hash(&mut hasher);
    format!("{:08x}", hasher.finish() & 0xFFFF_FFFF)
}

/// Removes the directory and what lies in it: files, and empty directories. Follows nothing.
fn remove(above: BorrowedFd<'_>, name: &str) -> nix::Result<()> {
    empty(above, name, &[])?;
    unlinkat(above, name, UnlinkatFlags::RemoveDir)
}

/// Removes the files and the empty directories in the directory, but for those that are `kept`.
fn empty(above: BorrowedFd<'_>, name: &str, kept: &[&str]) -> nix::Result<()> {
    let mut dir = Dir::openat(above, name, OUR_DIRECTORY, Mode::empty())?;
    let names: Vec<_> = dir
        .iter()
        .map_while(Result::ok)
        .map(|entry| entry.file_name().to_owned())
        .collect();
    let stays = |name: &[u8]| {
        [".", ".."]
            .iter()
            .chain(kept)
            .any(|kept| kept.as_bytes() == name)
    };
    for name in names.iter().filter(|name| !stays(name.to_bytes())) {
        if unlinkat(&dir, name.as_c_str(), UnlinkatFlags::NoRemoveDir).is_err() {
            let _ = unlinkat(&dir, name.as_c_str(), UnlinkatFlags::RemoveDir);
        }
    }
    Ok(())
}

/// Whether `path` is a bench, by its name: the second process may work only there.
pub fn is_bench(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()))
}
