//! Whose databases are served (DESIGN 8). A cycle runs commands that lie in the database's repository: root would run
//! what another user has put there.

use std::fs::{self, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use beadlock_checker::database::Database;
use beadlock_checker::escape::escaped_path;
use beadlock_checker::system_words;
use nix::sys::stat::fstat;
use nix::unistd::{Uid, User, geteuid};

use crate::log::shown;

/// Whose databases are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owners {
    /// Root's alone.
    Root,
    /// Everybody's: as another user than root one can run nothing in the name of others.
    All,
}

impl Owners {
    /// Root's own, unless others' are allowed; everybody's for another user.
    pub(crate) fn of_this_user(allow_foreign_owner: bool) -> Self {
        if geteuid().is_root() && !allow_foreign_owner { Self::Root } else { Self::All }
    }

    /// A database may be served: it, the directory above it, where commands run, and the directory whose redirect leads
    /// to it are ours.
    ///
    /// # Errors
    /// Whose it is, and what to do.
    pub(crate) fn check(self, database: &Database) -> Result<(), String> {
        self.check_seen(database, fs::metadata(&database.dir).ok().as_ref())
    }

    /// The same, when its directory has been looked at.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn check_seen(self, database: &Database, seen: Option<&Metadata>) -> Result<(), String> {
        if self == Self::All {
            return Ok(());
        }
        let (dir, named) = (database.dir.as_path(), database.named.as_path());
        let led = if named == dir { None } else { Some(named) };
        check_directory(dir, seen)?;
        let mut others = [dir.parent(), led].into_iter().flatten();
        others.try_for_each(|dir| check_directory(dir, fs::metadata(dir).ok().as_ref()))
    }

    /// The same for one directory that is open; `shown` is for words.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(crate) fn check_open(self, dir: impl AsFd, shown: &Path) -> Result<(), String> {
        match self {
            Self::All => Ok(()),
            Self::Root => match fstat(dir) {
                Ok(stat) => check_owner(shown, stat.st_uid),
                Err(errno) => {
                    Err(format!("cannot look at {}: {}", escaped_path(shown), system_words(&errno.into())))
                }
            },
        }
    }
}

/// One that cannot be looked at is nobody's: what is to be done there fails by itself.
fn check_directory(dir: &Path, seen: Option<&Metadata>) -> Result<(), String> {
    seen.map_or(Ok(()), |seen| check_owner(dir, seen.uid()))
}

fn check_owner(dir: &Path, uid: u32) -> Result<(), String> {
    if uid == 0 {
        return Ok(());
    }
    let owner = match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => format!("{} (uid {uid})", beadlock_checker::escape::escaped(&user.name)),
        _ => format!("uid {uid}"),
    };
    Err(format!(
        "{} belongs to {owner}, and as root the agent would run commands there; run it as that user, or give \
             --allow-foreign-owner",
        shown(dir)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_checker::database::Environment;
    use std::os::unix::fs::chown;

    #[test]
    fn root_serves_its_own_alone() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("repo/.beads");
        fs::create_dir_all(&dir).unwrap();
        let database = Database::named(&dir, &Environment::default()).unwrap();
        assert_eq!(Owners::Root.check(&database).is_ok(), geteuid().is_root());
        assert_eq!(Owners::All.check(&database), Ok(()));
        if !geteuid().is_root() {
            return;
        }
        for foreign in [dir.clone(), root.path().join("repo")] {
            chown(&foreign, Some(54_321), None).unwrap();
            let words = Owners::Root.check(&database).unwrap_err();
            assert!(words.starts_with(&shown(&fs::canonicalize(&foreign).unwrap())), "{words}");
            assert!(words.contains(" belongs to uid 54321, and as root the agent would"), "{words}");
            assert_eq!(Owners::All.check(&database), Ok(()));
            chown(&foreign, Some(0), None).unwrap();
        }
    }
}
