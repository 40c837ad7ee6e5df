//! The way to a file or directory that git reads, runs or looks into, from the top to its end.
//!
//! The way is walked name by name, each by a descriptor of the one before, as the kernel does it. Each directory on the
//! way is checked, and each symbolic link, also those that a link leads through: a user who may change one of them
//! decides what is at the end. For the end itself more is checked: nobody else may write to it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, fstat, major, minor};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

use beadlock_base::{filesystem::FileKind, open_directory::up};

use crate::{Doubt, Sticky, Trusted};

/// Flags that open a name for look-ups alone, also a file that must not be opened, such as a named pipe.
const LOOK: OFlag = OFlag::O_PATH
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The most symbolic links that are followed on one way: as many as the kernel follows.
const LINKS: usize = 40;

/// Result of walking a way: what is at its end, or why it is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WayEnd {
    /// A trusted file or directory, by this path without links.
    There(PathBuf, FileKind),
    /// Nothing, and nobody else could put anything there.
    Nothing,
    /// The files, links and directories that are doubted, on the way and at the end, in this order; at least one.
    Doubted(Vec<Doubted>),
}

impl WayEnd {
    /// `end` where nothing is doubted; else the doubts, of each path only the last one.
    fn of(mut doubted: Vec<Doubted>, end: Self) -> Self {
        doubted.reverse();
        let mut kept: Vec<Doubted> = Vec::new();
        for doubted in doubted {
            if kept.iter().all(|known| known.path != doubted.path) {
                kept.push(doubted);
            }
        }
        kept.reverse();
        match kept.is_empty() {
            true => end,
            false => Self::Doubted(kept),
        }
    }
}

/// One file, link or directory of a way that is not trusted, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubted {
    /// Its path without links.
    pub path: PathBuf,
    /// Whether it is a file, a link, a directory or something else.
    pub kind: FileKind,
    /// Its permission bits.
    pub mode: u32,
    /// Why it is not trusted.
    pub doubt: Doubt,
    /// True for a directory or a link on the way, false for the end of the way.
    pub is_on_the_way: bool,
}

/// One file, link or directory on the way, open for look-ups.
struct Step {
    fd: OwnedFd,
    stat: FileStat,
    /// Its path without links.
    path: PathBuf,
}

impl Step {
    fn top() -> nix::Result<Self> {
        let fd = openat(AT_FDCWD, "/", LOOK | OFlag::O_DIRECTORY, Mode::empty())?;
        Ok(Self {
            stat: fstat(&fd)?,
            fd,
            path: "/".into(),
        })
    }

    fn kind(&self) -> FileKind {
        FileKind::of(&self.stat)
    }

    fn below(&self, name: &OsStr) -> nix::Result<Self> {
        let fd = openat(&self.fd, name, LOOK, Mode::empty())?;
        Ok(Self {
            stat: fstat(&fd)?,
            fd,
            path: self.path.join(name),
        })
    }

    fn above(&self) -> nix::Result<Self> {
        let fd = up(&self.fd)?;
        let path = self.path.parent().unwrap_or(&self.path).to_owned();
        Ok(Self {
            stat: fstat(&fd)?,
            fd,
            path,
        })
    }

    fn doubted(&self, doubt: Doubt, is_on_the_way: bool) -> Doubted {
        Doubted {
            kind: self.kind(),
            mode: self.stat.st_mode & 0o7777,
            path: self.path.clone(),
            doubt,
            is_on_the_way,
        }
    }
}

impl Trusted {
    /// Walks the way of an absolute path. A missing file is [`WayEnd::Nothing`] only where nobody else may make it.
    ///
    /// # Errors
    /// What a system call said; `EINVAL` for a path that is not absolute, `ELOOP` for too many links and for one of
    /// `/proc`, which leads where no text says.
    pub fn go(self, path: &Path) -> io::Result<WayEnd> {
        if !path.is_absolute() {
            return Err(Errno::EINVAL.into());
        }
        let mut ahead = names(path);
        let (mut here, mut links) = (Step::top()?, 0);
        let mut doubted = Vec::new();
        while let Some(name) = ahead.pop() {
            let doubt = self.doubts_dir(&here, Sticky::IsEnough);
            doubted.extend(doubt.map(|doubt| here.doubted(doubt, true)));
            if name == ".." {
                here = here.above()?;
                continue;
            }
            let next = match here.below(&name) {
                Ok(next) => next,
                // Who may make a name here decides what will be at the end.
                Err(Errno::ENOENT) => {
                    let doubt = self.doubts_dir(&here, Sticky::IsNot);
                    doubted.extend(doubt.map(|doubt| here.doubted(doubt, true)));
                    return Ok(WayEnd::of(doubted, WayEnd::Nothing));
                }
                Err(errno) => return Err(errno.into()),
            };
            match next.kind() {
                FileKind::Directory => here = next,
                FileKind::Symlink => {
                    let doubt = self.doubts_owner_of(&next.stat);
                    doubted.extend(doubt.map(|doubt| next.doubted(doubt, true)));
                    links += 1;
                    if links > LINKS || fstatfs(&here.fd)?.filesystem_type() == PROC_SUPER_MAGIC {
                        return Err(Errno::ELOOP.into());
                    }
                    let target = PathBuf::from(readlinkat(&next.fd, "")?);
                    if target.is_absolute() {
                        here = Step::top()?;
                    }
                    ahead.extend(names(&target));
                }
                _ if !ahead.is_empty() => return Err(Errno::ENOTDIR.into()),
                kind => {
                    let doubt = self.doubts_file(&here, &next, &name);
                    doubted.extend(doubt.map(|doubt| next.doubted(doubt, false)));
                    return Ok(WayEnd::of(doubted, WayEnd::There(next.path, kind)));
                }
            }
        }
        let doubt = self.doubts_dir(&here, Sticky::IsNot);
        doubted.extend(doubt.map(|doubt| here.doubted(doubt, false)));
        Ok(WayEnd::of(
            doubted,
            WayEnd::There(here.path, FileKind::Directory),
        ))
    }

    fn doubts_dir(self, dir: &Step, sticky: Sticky) -> Option<Doubt> {
        self.doubts_stat(&dir.stat, sticky, dir.fd.as_fd(), ".")
    }

    fn doubts_file(self, dir: &Step, file: &Step, name: &OsStr) -> Option<Doubt> {
        match file.kind() {
            // Nothing is read of /dev/null, whose it may be: in some containers nobody's.
            FileKind::Device if (major(file.stat.st_rdev), minor(file.stat.st_rdev)) == (1, 3) => {
                None
            }
            // What is read of a device does not come from those who write to it.
            FileKind::Device => self.doubts_owner_of(&file.stat),
            _ => self.doubts_stat(&file.stat, Sticky::IsNot, dir.fd.as_fd(), name),
        }
    }
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let name = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests;
