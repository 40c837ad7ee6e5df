//! Obstacles that keep a lock file from being read although nothing is wrong with it: too few descriptors, or a lease.
//! The lock may be alive, so nothing here ever leads to its removal.

use nix::errno::Errno;

/// Why a lock file could not be read just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// This process may open no more files (EMFILE).
    Descriptors,
    /// No process on this machine may open more files (ENFILE).
    FileTable,
    /// Another process has the file open under a write lease, and does not give it up.
    Lease,
}

impl Obstacle {
    /// The obstacle that this errno of an `open` tells of; `None`: another one, which is about the file.
    pub(crate) fn of_errno(errno: i32) -> Option<Self> {
        match Errno::from_raw(errno) {
            Errno::EMFILE => Some(Self::Descriptors),
            Errno::ENFILE => Some(Self::FileTable),
            _ => None,
        }
    }

    /// Advice to a person in one line: the lock may be alive, and what to try.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Descriptors => {
                "the lock may be alive; raise the limit of this process and try again"
            }
            Self::FileTable => {
                "the lock may be alive; end what has them, or raise the limit, and try again"
            }
            Self::Lease => {
                "the lock may be alive, and which process has the lease is not known here; try again, or look: \
                 grep LEASE /proc/locks"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unread::Unread;
    use beadlock_base::filesystem::FileKind;

    #[test]
    fn a_file_that_was_not_seen_may_be_alive_and_one_that_was_is_wrong() {
        let of = |errno: Errno| Unread::from(errno).obstacle();
        assert_eq!(of(Errno::EMFILE), Some(Obstacle::Descriptors));
        assert_eq!(of(Errno::ENFILE), Some(Obstacle::FileTable));
        assert_eq!(of(Errno::EACCES), None);
        assert_eq!(Unread::Leased.obstacle(), Some(Obstacle::Lease));
        for wrong in [Unread::TooLarge, Unread::NotRegular(FileKind::Fifo)] {
            assert!(!wrong.may_be_alive(), "{wrong}");
        }
    }
}
