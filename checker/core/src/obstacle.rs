//! What keeps a lock file from being read although nothing is wrong with it: too few descriptors, or a lease. The
//! lock may be alive, so nothing here ever leads to its removal.

use nix::errno::Errno;

use crate::read;
use beadlock_base::error::system_words;

/// Why a lock file could not be read just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// This process may open no more files (EMFILE).
    Descriptors,
    /// Nobody on this machine may (ENFILE).
    FileTable,
    /// Another process has the file open under a write lease, and does not give it up.
    Lease,
}

impl Obstacle {
    /// What the words for an unreadable lock file are about; `None`: something is wrong with the file.
    pub fn of(detail: &str) -> Option<Self> {
        let says = |errno: Errno| detail.ends_with(&system_words(&errno.into()));
        match () {
            () if says(Errno::EMFILE) => Some(Self::Descriptors),
            () if says(Errno::ENFILE) => Some(Self::FileTable),
            () => detail.ends_with(read::LEASED).then_some(Self::Lease),
        }
    }

    /// What to do about it.
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

    #[test]
    fn the_words_of_a_failure_tell_what_it_was() {
        let of = |errno: Errno| {
            Obstacle::of(&format!(
                "failed to read lock file: {}",
                system_words(&errno.into())
            ))
        };
        assert_eq!(of(Errno::EMFILE), Some(Obstacle::Descriptors));
        assert_eq!(of(Errno::ENFILE), Some(Obstacle::FileTable));
        assert_eq!(of(Errno::EACCES), None);
        assert_eq!(Obstacle::of(read::LEASED), Some(Obstacle::Lease));
        assert_eq!(Obstacle::of("malformed lock file: unexpected EOF"), None);
        assert_eq!(Obstacle::of(""), None);
    }
}
