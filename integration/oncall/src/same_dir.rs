//! The directory of a target over the time of a command. Without it there is no lock either: "free" would be said of
//! what is not there.

use beadlock_claim::error::Problem;
use std::{fs, io, os::unix::fs::MetadataExt};

use beadlock_base::{error::system_words, escape::escaped_path};

use beadlock_claim::error::{Code, Error};
use beadlock_claim::target::Target;

/// The device and the inode of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SameDir(u64, u64);

impl SameDir {
    /// The directory that the target's lock lies in, as it is now; [`Code::NoTarget`]: it is not there any more.
    pub fn of(target: &Target) -> Result<Self, Error> {
        let found = fs::metadata(target.dir()).and_then(|meta| match meta.is_dir() {
            true => Ok(Self(meta.dev(), meta.ino())),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        found.map_err(|error| {
            let (path, why) = (escaped_path(target.dir()), system_words(&error));
            let advice = "it was removed or renamed meanwhile; name it anew";
            Error::new(
                Code::NoTarget,
                format!("{path} is not there any more ({why}): {advice}"),
            )
        })
    }

    /// Checks that the directory is still there; [`Code::NoTarget`]: it is not, or another directory is in its place.
    pub fn still(self, target: &Target) -> Result<(), Error> {
        if Self::of(target)? == self {
            return Ok(());
        }
        let path = escaped_path(target.dir());
        let message =
            format!("{path} is another directory by now: it was replaced meanwhile; look again");
        Err(Error::new(Code::NoTarget, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_claim::environment::Environment;
    use beadlock_claim::protocol::{Acceptance, resolve};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test moves what it has made")]
    fn a_directory_that_was_moved_away_or_replaced_is_not_there() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        let target = resolve(
            Some(dir.as_os_str()),
            &Environment::default(),
            Acceptance::Any,
        )
        .unwrap();
        let ground = SameDir::of(&target).unwrap();
        ground.still(&target).unwrap();
        let said = |words: &str| {
            let error = ground.still(&target).unwrap_err();
            assert!(
                error.code() == Code::NoTarget && error.to_string().contains(words),
                "{error}"
            );
        };
        fs::rename(&dir, top.path().join("moved")).unwrap();
        said("is not there any more (no such file or directory)");
        fs::write(&dir, "").unwrap();
        said("is not there any more (not a directory)");
        fs::remove_file(&dir).unwrap();
        fs::create_dir(&dir).unwrap();
        said("is another directory by now");
    }
}
