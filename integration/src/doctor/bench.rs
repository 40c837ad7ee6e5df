//! The bench: a private directory inside the one that is examined, where everything is tried. It is empty again and
//! gone at the end; what a crash leaves is swept by the next one, once its process is dead.
#![expect(
    clippy::disallowed_methods,
    reason = "it removes the files and directories that it has made, by their own names"
)]

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_checker::internal::facts::{Ids, Liveness, hostname, random_id};
use beadlock_checker::internal::process;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

/// Agents and git ignore what is called so, as they do the lock file itself.
pub const PREFIX: &str = ".exclusive-lock.doctor-";
/// A directory on it: the stand-in for the one that a gate is taken on.
pub const GATE: &CStr = c"gate";
/// The file on it that two processes share.
pub const FILE: &CStr = c"file";
/// After so many seconds nobody can be at it any more, whatever a PID means there.
const OLD: i64 = 3600;
/// How long files that were open a moment ago may stay, as they do on FUSE and NFS.
const PATIENCE: Duration = Duration::from_secs(1);

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A private directory; dropped, it is removed.
#[derive(Debug)]
pub struct Bench<'a> {
    above: BorrowedFd<'a>,
    name: String,
    dir: OwnedFd,
    path: PathBuf,
}

impl<'a> Bench<'a> {
    /// Makes one in `above`, whose path is `path`, and sweeps there what dead ones have left.
    pub fn make(above: BorrowedFd<'a>, path: &Path) -> nix::Result<Self> {
        let name = format!("{PREFIX}{}-{}{}", std::process::id(), here(), &random_id()[..8]);
        mkdirat(above, name.as_str(), Mode::S_IRWXU)?;
        let opened = openat(above, name.as_str(), DIRECTORY, Mode::empty());
        let dir = opened.inspect_err(|_| {
            let _ = unlinkat(above, name.as_str(), UnlinkatFlags::RemoveDir);
        })?;
        let bench = Self { above, path: path.join(&name), name, dir };
        mkdirat(&bench.dir, GATE, Mode::S_IRWXU)?;
        bench.sweep();
        Ok(bench)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file that is not there yet, for reading and writing.
    pub fn create(&self, name: &CStr) -> nix::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        openat(&self.dir, name, flags, Mode::from_bits_truncate(0o644)).map(File::from)
    }

    /// Opens what is there for reading: a file or a directory.
    pub fn open(&self, name: &CStr) -> nix::Result<File> {
        openat(&self.dir, name, OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()).map(File::from)
    }

    /// What a file holds.
    pub fn read(&self, name: &CStr) -> std::io::Result<String> {
        let mut text = String::new();
        self.open(name)?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Removes what a trial has left, so that the next one begins with an empty bench.
    pub fn tidy(&self) {
        let _ = empty(self.above, &self.name, &[GATE]);
    }

    /// Removes all of it, patiently; fails as the last attempt did.
    pub fn clear(&self) -> nix::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match remove(self.above, &self.name) {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(errno) if Instant::now() >= deadline => return Err(errno),
                Err(_) => sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Removes what dead processes of this machine have left, and what is an hour older than this one.
    fn sweep(&self) {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut above) = Dir::openat(self.above, c".", flags, Mode::empty()) else { return };
        let Ok(now) = fstat(&self.dir) else { return };
        // An error is not passed by reading on.
        for entry in above.iter().map_while(Result::ok) {
            let name = entry.file_name().to_str().unwrap_or_default();
            if self.is_left_over(name, &now).unwrap_or(false) {
                let _ = remove(self.above, name);
            }
        }
    }

    /// It is the bench of a dead process: it was made where its PID means what it means here, or long ago.
    fn is_left_over(&self, name: &str, now: &FileStat) -> Option<bool> {
        let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        if process::probe(pid.parse().ok()?) != Liveness::Gone {
            return None;
        }
        let stat = fstatat(self.above, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
        let is_dir = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR;
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

/// Removes what lies in the directory, but for what is to be `kept`.
fn empty(above: BorrowedFd<'_>, name: &str, kept: &[&CStr]) -> nix::Result<()> {
    let mut dir = Dir::openat(above, name, DIRECTORY, Mode::empty())?;
    let names: Vec<_> = dir.iter().map_while(Result::ok).map(|entry| entry.file_name().to_owned()).collect();
    let is_gone = |name: &CStr| !kept.contains(&name) && !matches!(name.to_bytes(), b"." | b"..");
    for name in names.iter().map(|name| name.as_c_str()).filter(|name| is_gone(name)) {
        if unlinkat(&dir, name, UnlinkatFlags::NoRemoveDir).is_err() {
            let _ = unlinkat(&dir, name, UnlinkatFlags::RemoveDir);
        }
    }
    Ok(())
}

/// True in a bench: where the second process may work.
pub fn is_bench(path: &Path) -> bool {
    path.file_name().is_some_and(|name| OsStr::as_bytes(name).starts_with(PREFIX.as_bytes()))
}
