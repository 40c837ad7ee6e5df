//! A full log is moved aside: `.1` is the newest of the older ones (docs/design.md#the-log).
//!
//! Agents that share a log must not move it aside twice for one reason: the second move would put the fresh file over
//! the older one. So a rotation takes a flock on the file, and looks again whether the name is still this file, and the
//! file still full. An agent that does not get the flock writes on, up to twice the size. Then it waits, but not for
//! long: anybody who may read the log can hold a flock on it.
//!
//! A log that cannot be moved aside is emptied: one that grows without bound does more harm than one that forgets.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_base::sys::{Flock, flock};
use nix::fcntl::{AtFlags, renameat};
use nix::sys::stat::{fstat, fstatat};

use super::{inode, must_have_one_name};

/// How long another agent may hold the flock of a file of twice the size.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub(super) struct LogLimits {
    /// The largest size of one file, in bytes. A longer line has a file of its own.
    pub(super) size: u64,
    pub(super) keep: u32,
}

impl LogLimits {
    /// A file of this size has no room for more bytes. An empty one always has.
    pub(super) fn are_reached(self, size: u64, more: usize) -> bool {
        size > 0 && size.saturating_add(more as u64) > self.size
    }
}

/// Why a full file could not be moved aside, and why it could not be emptied either.
pub(super) type Stuck = (io::Error, Option<io::Error>);

#[derive(Debug, Clone, Copy)]
pub(super) struct FullLog<'a> {
    pub(super) dir: &'a OwnedFd,
    pub(super) name: &'a OsStr,
    pub(super) file: &'a File,
    pub(super) limits: LogLimits,
    /// The bytes that there is no room for.
    pub(super) more: usize,
}

impl FullLog<'_> {
    pub(super) fn rotate(self) -> Result<(), Stuck> {
        let begun = Instant::now();
        let is_locked = loop {
            match flock(self.file, Flock::Try) {
                Ok(false) if !self.is_far_too_large() => return Ok(()),
                Ok(false) if begun.elapsed() < PATIENCE => sleep(Duration::from_millis(1)),
                // Somebody keeps it, or there is no flock here: go on without.
                answer => break answer.unwrap_or(false),
            }
        };
        let rotated = self.rotate_alone();
        if is_locked {
            // Closing does not suffice: a child that was forked just now has the same open file.
            let _ = flock(self.file, Flock::Unlock);
        }
        rotated
    }

    fn rotate_alone(self) -> Result<(), Stuck> {
        if !self.is_still() {
            return Ok(());
        }
        match self.make_room() {
            // Somebody may have moved it without the flock.
            Err(error) if self.is_still() => Err((error, self.empty().err())),
            _ => Ok(()),
        }
    }

    fn is_far_too_large(self) -> bool {
        self.file
            .metadata()
            .is_ok_and(|meta| meta.len() > self.limits.size.saturating_mul(2))
    }

    /// The file still has the name, and is still full.
    fn is_still(self) -> bool {
        let named = fstatat(self.dir, self.name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(open)) = (named, fstat(self.file)) else {
            return false;
        };
        let size = u64::try_from(open.st_size).unwrap_or(0);
        inode(&named) == inode(&open) && self.limits.are_reached(size, self.more)
    }

    /// Moves every file one number up, the last one out.
    fn make_room(self) -> io::Result<()> {
        if self.limits.keep == 0 {
            return self.empty();
        }
        for number in (1..self.limits.keep).rev() {
            // A file that cannot be moved up is replaced by the next.
            let _ = self.rename(number, number + 1);
        }
        Ok(self.rename(0, 1)?)
    }

    /// Empties the file, unless it has a second name by now.
    fn empty(self) -> io::Result<()> {
        must_have_one_name(self.file.metadata()?.nlink())?;
        self.file.set_len(0)
    }

    fn rename(self, from: u32, to: u32) -> nix::Result<()> {
        let numbered = |number: u32| -> OsString {
            let number = if number > 0 {
                format!(".{number}")
            } else {
                String::new()
            };
            [self.name, number.as_ref()].into_iter().collect()
        };
        renameat(
            self.dir,
            numbered(from).as_os_str(),
            self.dir,
            numbered(to).as_os_str(),
        )
    }
}
