//! What keeps a file from being replaced, where its own attributes tell it: the words of the system are about the
//! rename, and say nothing of the cause.

use std::{ffi::OsStr, fmt, fs::File, io};

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};

/// Why no other file can take this one's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// Something is mounted on the file itself.
    MountPoint,
    /// `chattr +i`
    Immutable,
    /// `chattr +a`
    AppendOnly,
}

impl Obstacle {
    /// Of the file of this name in an open directory. `None`: there is none, or this system does not tell.
    pub fn of(dir: &File, name: &OsStr) -> Option<Self> {
        let stat = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).ok()?;
        Self::among(stat.stx_attributes & stat.stx_attributes_mask)
    }

    fn among(attributes: StatxAttributes) -> Option<Self> {
        [
            (StatxAttributes::MOUNT_ROOT, Self::MountPoint),
            (StatxAttributes::IMMUTABLE, Self::Immutable),
            (StatxAttributes::APPEND, Self::AppendOnly),
        ]
        .into_iter()
        .find_map(|(attribute, obstacle)| attributes.contains(attribute).then_some(obstacle))
    }

    pub fn kind(self) -> io::ErrorKind {
        match self {
            Self::MountPoint => io::ErrorKind::ResourceBusy,
            Self::Immutable | Self::AppendOnly => io::ErrorKind::PermissionDenied,
        }
    }
}

impl fmt::Display for Obstacle {
    /// What the file is, and what to do: `is a mount point of its own (…); …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MountPoint => "is a mount point of its own (docker -v file:file); mount its directory instead",
            Self::Immutable => "is immutable (chattr +i); chattr -i lets it be written again",
            Self::AppendOnly => "is append-only (chattr +a); beadlock append adds lines to it",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_an_obstacle_and_none_is_none() {
        let none = StatxAttributes::empty();
        assert_eq!(Obstacle::among(none), None);
        assert_eq!(Obstacle::among(StatxAttributes::COMPRESSED), None);
        assert_eq!(Obstacle::among(StatxAttributes::IMMUTABLE), Some(Obstacle::Immutable));
        assert_eq!(Obstacle::among(StatxAttributes::APPEND), Some(Obstacle::AppendOnly));
        let both = StatxAttributes::IMMUTABLE | StatxAttributes::MOUNT_ROOT;
        assert_eq!(Obstacle::among(both), Some(Obstacle::MountPoint));
    }

    #[test]
    fn a_plain_file_and_no_file_have_none() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x"), "").unwrap();
        let open = File::open(dir.path()).unwrap();
        assert_eq!(Obstacle::of(&open, OsStr::new("x")), None);
        assert_eq!(Obstacle::of(&open, OsStr::new("y")), None);
    }
}
