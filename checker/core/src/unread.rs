//! Why a lock file could not be read, as a fact. Everything that decides goes by this; the words are made of it at the
//! edge (`decision/words.rs`).

use std::io;

use nix::errno::Errno;

use crate::{obstacle::Obstacle, record::Rejected};
use beadlock_base::filesystem::FileKind;

/// Why a lock file could not be read. `Display` has the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// The system refused to open it, or to read it, with this errno.
    Os(i32),
    /// Another process has it open under a write lease, and did not give that up while it was tried again.
    Leased,
    /// The file is not a regular one. A symbolic link is not followed, and a socket cannot be opened.
    NotRegular(FileKind),
    /// The file is larger than 64 KiB; beadlock writes no lock file of that size.
    TooLarge,
}

impl Unread {
    /// The passing condition that kept it from being read; `None`: something is wrong with the file.
    pub fn obstacle(self) -> Option<Obstacle> {
        match self {
            Self::Os(errno) => Obstacle::of_errno(errno),
            Self::Leased => Some(Obstacle::Lease),
            Self::NotRegular(_) | Self::TooLarge => None,
        }
    }

    /// Nothing is known to be wrong with the file: it may be the lock of somebody who lives.
    pub fn may_be_alive(self) -> bool {
        self.obstacle().is_some()
    }
}

impl From<Errno> for Unread {
    fn from(errno: Errno) -> Self {
        Self::Os(errno as i32)
    }
}

impl From<Unread> for io::Error {
    fn from(unread: Unread) -> Self {
        Self::other(unread.to_string())
    }
}

/// Why there is no record of a lock: its file could not be read, or what it says is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRecord {
    /// The file could not be read.
    Unread(Unread),
    /// The file was read, and its content is not a record of a lock.
    Rejected(Rejected),
}

impl NoRecord {
    /// The passing condition that kept the file from being read; `None`: something is wrong with it.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match self {
            Self::Unread(unread) => unread.obstacle(),
            Self::Rejected(_) => None,
        }
    }
}

impl From<Unread> for NoRecord {
    fn from(unread: Unread) -> Self {
        Self::Unread(unread)
    }
}

impl From<Rejected> for NoRecord {
    fn from(rejected: Rejected) -> Self {
        Self::Rejected(rejected)
    }
}
