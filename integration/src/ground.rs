//! The directory of a target over the time of a command. Without it there is no lock either: "free" would be said of
//! what is not there.

use std::{io, os::unix::fs::MetadataExt, path::Path};

use beadlock_checker::internal::{escape::escaped_path, system_words};

use crate::claim::target::Target;
use crate::error::{Code, Error};

/// Which directory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ground {
    device: u64,
    inode: u64,
}

impl Ground {
    /// The directory that the target's lock lies in, as it is now.
    ///
    /// # Errors
    /// Exit 1, `NO_TARGET`, when it is not there any more.
    pub fn of(target: &Target) -> Result<Self, Error> {
        Self::at(target.dir()).map_err(|error| {
            let (path, why) = (escaped_path(target.dir()), system_words(&error));
            Error::new(
                Code::NoTarget,
                format!("{path} is not there any more ({why}): it was removed or renamed meanwhile; name it anew"),
            )
        })
    }

    /// It is still there.
    ///
    /// # Errors
    /// Exit 1, `NO_TARGET`, when it is not, or when another directory is in its place.
    pub fn still(self, target: &Target) -> Result<(), Error> {
        if Self::of(target)? == self {
            return Ok(());
        }
        let path = escaped_path(target.dir());
        let message = format!("{path} is another directory by now: it was replaced meanwhile; look again");
        Err(Error::new(Code::NoTarget, message))
    }

    fn at(dir: &Path) -> io::Result<Self> {
        let meta = std::fs::metadata(dir)?;
        if !meta.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { device: meta.dev(), inode: meta.ino() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Acceptance, resolve};
    use crate::settings::environment::Environment;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test moves what it has made")]
    fn a_directory_that_was_moved_away_or_replaced_is_not_there() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        std::fs::create_dir(&dir).unwrap();
        let target = resolve(Some(dir.as_os_str()), &Environment::default(), Acceptance::Any).unwrap();
        let ground = Ground::of(&target).unwrap();
        ground.still(&target).unwrap();
        let said = |words: &str| {
            let error = ground.still(&target).unwrap_err();
            assert!(error.code() == Code::NoTarget && error.to_string().contains(words), "{error}");
        };
        std::fs::rename(&dir, top.path().join("moved")).unwrap();
        said("is not there any more (no such file or directory)");
        std::fs::write(&dir, "").unwrap();
        said("is not there any more (not a directory)");
        std::fs::remove_file(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        said("is another directory by now");
    }
}
