//! Where a lock file lies: a directory, the file's name in it, and the one side name
//! (docs/design.md#changing-a-lock-file).

use std::{ffi::OsStr, path::Path, path::PathBuf};

pub use crate::record::Names;
use crate::{read::join, record::LockName, record::RecordKind};

/// A place for one lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    dir: PathBuf,
    names: Names,
}

impl Place {
    /// The lock of the beads database in `dir`.
    pub fn beads(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            names: Names::BEADS,
        }
    }

    /// A lock file called `name` in `dir`. `None`: a file cannot be called so.
    pub fn named(dir: impl Into<PathBuf>, name: &OsStr) -> Option<Self> {
        Some(Self {
            dir: dir.into(),
            names: Names::of(RecordKind::Beads, name)?,
        })
    }

    /// The lock called `name` in the lock directory `dir`.
    #[doc(hidden)]
    pub fn tower(dir: impl Into<PathBuf>, name: &LockName) -> Self {
        Self {
            dir: dir.into(),
            names: name.names(),
        }
    }

    /// The one lock of the directory `dir` that is judged by its age.
    pub fn memory(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            names: Names::MEMORY,
        }
    }

    /// A lock of these names in `dir`.
    #[doc(hidden)]
    pub fn new(dir: impl Into<PathBuf>, names: Names) -> Self {
        Self {
            dir: dir.into(),
            names,
        }
    }

    /// The directory; the gate is the flock on it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Path of the lock file.
    pub fn path(&self) -> PathBuf {
        join(&self.dir, self.names.lock())
    }

    /// Path of the side file, under which a lock is set aside.
    pub fn aside(&self) -> PathBuf {
        join(&self.dir, self.names.aside())
    }

    /// The rules that the lock goes by.
    #[doc(hidden)]
    pub fn record_kind(&self) -> RecordKind {
        self.names.record_kind()
    }

    /// File names of the lock and of its side file.
    #[doc(hidden)]
    pub fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_name_is_the_locks_name_and_aside() {
        let place = Place::named("/run", OsStr::new("x.lock")).unwrap();
        assert_eq!(
            (place.path(), place.aside()),
            ("/run/x.lock".into(), "/run/x.lock.aside".into())
        );
        assert_eq!(Place::beads("/d").path(), Path::new("/d/.exclusive-lock"));
        assert_eq!(
            Place::named("/d", OsStr::new(".exclusive-lock")),
            Some(Place::beads("/d"))
        );
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert_eq!(Place::named("/d", OsStr::new(name)), None, "{name:?}");
        }
    }

    #[test]
    fn a_named_lock_has_its_kind_of_record_and_wants_its_own_name_inside() {
        let place = Place::tower("/locks", &LockName::parse("app-prod").unwrap());
        assert_eq!(place.path(), Path::new("/locks/app-prod.lock"));
        assert_eq!(place.aside(), Path::new("/locks/app-prod.lock.aside"));
        assert_eq!(
            (place.record_kind(), Place::beads("/d").record_kind()),
            (RecordKind::Tower, RecordKind::Beads)
        );
        let says = |bytes| place.names().parse(bytes).unwrap_err().to_string();
        let other = br#"{"lock_version":"v1","lock_name":"app"}"#;
        assert_eq!(
            says(other),
            "invalid lock file: lock_name must be app-prod (got app)"
        );
    }
}
