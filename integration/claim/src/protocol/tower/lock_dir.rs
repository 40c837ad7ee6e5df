//! The directory that named locks lie in: where it is, who may write it, that it is made for one user alone, and its
//! locks.

use crate::error::Problem;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, ffi::OsStr, io, os::unix::ffi::OsStrExt};

use beadlock_base::error::system_words;
use beadlock_base::escape::escaped_path;
use beadlock_core::record::tower::{DEFAULT_DIR, LockName};
use beadlock_core::target::Scheme;

use super::target;
use crate::environment::{Environment, LOCK_DIR};
use crate::observe::{DirWarning, Notice, Observer};
use crate::{error::Error, target::Target};

/// `--lock-dir`, else `$BEADLOCK_LOCK_DIR`, else the [`default`]. Absolute, and without links where it is there.
pub fn of(environment: &Environment) -> PathBuf {
    let absolute = unresolved(environment);
    fs::canonicalize(&absolute).unwrap_or(absolute)
}

/// The lock directory by its letters alone: absolute, with its links, and without a look at the file system.
pub fn unresolved(environment: &Environment) -> PathBuf {
    match environment.get(LOCK_DIR) {
        Some(dir) => environment.of_database().cwd.join(dir),
        None => default(environment),
    }
}

/// The lock directory where nobody has named one: for root the document's, else a directory of the user's.
pub fn default(environment: &Environment) -> PathBuf {
    let is_root = nix::unistd::geteuid().is_root();
    let of_user = (!is_root).then(|| of_user(environment)).flatten();
    of_user.unwrap_or_else(|| DEFAULT_DIR.into())
}

/// The user's lock directory, in the place for state by the XDG specification. `None`: the user has no home.
fn of_user(environment: &Environment) -> Option<PathBuf> {
    let absolute = |name| {
        environment
            .get(name)
            .map(Path::new)
            .filter(|dir| dir.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME").map(Path::to_owned);
    let state = state.or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("tower-fleet/locks"))
}

/// Whether `dir` is the document's directory, also where that is a link.
pub fn is_the_documents(dir: &Path) -> bool {
    dir == Path::new(DEFAULT_DIR)
        || fs::canonicalize(DEFAULT_DIR).is_ok_and(|documents| documents == dir)
}

/// Warnings about a lock directory, to be read before its locks are trusted; none where there is no directory.
pub fn warnings(dir: &Path) -> Vec<DirWarning> {
    let Ok(meta) = fs::metadata(dir) else {
        return Vec::new();
    };
    let (owner, us) = (meta.uid(), nix::unistd::geteuid().as_raw());
    let (mode, dir) = (meta.mode() & 0o777, || dir.to_owned());
    let mut warnings = Vec::new();
    if owner != us {
        let dir = dir();
        warnings.push(DirWarning::OtherOwner { dir, owner, us });
    }
    if mode & 0o022 != 0 {
        warnings.push(DirWarning::Writable { dir: dir(), mode });
    } else if mode & 0o077 != 0 {
        warnings.push(DirWarning::Readable { dir: dir(), mode });
    }
    warnings
}

/// Makes the lock directory of a claim where it does not exist, for this user alone. Returns whether it did not.
pub fn make(dir: &Path) -> Result<bool, Error> {
    let is_new =
        fs::symlink_metadata(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map(|()| is_new).map_err(|error| {
        let (shown, why) = (escaped_path(dir), system_words(&error));
        let words = format!(
            "the lock directory {shown} cannot be made: {why}; name another: --lock-dir DIR"
        );
        Error::io(words, error.kind())
    })
}

/// The root of a list that stands for the lock directory.
pub fn is_root_of_names(root: &OsStr) -> bool {
    root == Scheme::Tower.prefix()
}

/// The locks in the lock directory by name, and how many directories were read: none when it is not there.
pub fn of_names(
    environment: &Environment,
    observer: &dyn Observer,
) -> Result<(Vec<Target>, u64), Error> {
    let dir = of(environment);
    let entries = match fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(unread(&dir, &error)),
    };
    for warning in warnings(&dir) {
        observer.notice(&Notice::Directory(&warning));
    }
    let mut names = BTreeSet::new();
    for entry in entries {
        let name = entry.map_err(|error| unread(&dir, &error))?.file_name();
        let bytes = name.as_bytes();
        // One that is aside for the moment is there, too.
        let Some(stem) = bytes
            .strip_suffix(b".aside")
            .unwrap_or(bytes)
            .strip_suffix(b".lock")
        else {
            continue;
        };
        let stem = String::from_utf8_lossy(stem);
        match LockName::parse(&stem) {
            Ok(name) => {
                names.insert(name.as_str().to_owned());
            }
            Err(why) => observer.notice(&Notice::NotANamedLock {
                file: &name,
                dir: &dir,
                why: &why,
            }),
        }
    }
    let typed = environment.typed_lock_dir();
    let found = names.iter().filter_map(|name| LockName::parse(name).ok());
    Ok((found.map(|name| target(&dir, &name, typed)).collect(), 1))
}

/// The names of the locks in `dir`. Nothing is said of what cannot be read: a shell asks.
pub fn names(dir: &Path) -> Vec<String> {
    let files = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name());
    let names: BTreeSet<String> = files
        .filter_map(|file| {
            let stem = file.to_str()?.strip_suffix(".lock")?;
            LockName::parse(stem).is_ok().then(|| stem.to_owned())
        })
        .collect();
    names.into_iter().collect()
}

fn unread(dir: &Path, error: &io::Error) -> Error {
    let why = format!(
        "cannot read the lock directory {}: {}",
        escaped_path(dir),
        system_words(error)
    );
    Error::io(why, error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_made_for_one_user_alone() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("logs/locks");
        assert!(warnings(&dir).is_empty(), "there is none");
        assert!(make(&dir).unwrap());
        assert!(!make(&dir).unwrap(), "it is there");
        for made in [&dir, &top.path().join("logs")] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o700);
        }
        assert!(warnings(&dir).is_empty());
        fs::write(top.path().join("file"), "").unwrap();
        let error = make(&top.path().join("file/locks"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("cannot be made: not a directory") && error.contains("--lock-dir"),
            "{error}"
        );
    }

    #[test]
    fn who_else_may_reach_it_is_said() {
        let top = tempfile::tempdir().unwrap();
        for (mode, is_said) in [
            (0o700, false),
            (0o755, true),
            (0o710, true),
            (0o770, true),
            (0o702, true),
        ] {
            fs::set_permissions(top.path(), fs::Permissions::from_mode(mode)).unwrap();
            let said = warnings(top.path());
            assert_eq!(said.len(), usize::from(is_said), "{mode:o}: {said:?}");
        }
    }

    #[test]
    fn without_root_it_is_where_the_users_programs_keep_their_state() {
        for (variables, dir) in [
            (
                &[("HOME", "/home/ann")][..],
                Some("/home/ann/.local/state/tower-fleet/locks"),
            ),
            (
                &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/s")],
                Some("/s/tower-fleet/locks"),
            ),
            (&[("XDG_STATE_HOME", "/s")], Some("/s/tower-fleet/locks")),
            (
                &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "s")],
                Some("/home/ann/.local/state/tower-fleet/locks"),
            ),
            (&[("HOME", "home")], None),
            (&[], None),
        ] {
            assert_eq!(
                of_user(&Environment::of(variables)),
                dir.map(PathBuf::from),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn the_documents_is_the_default_of_root_and_where_there_is_no_home() {
        assert_eq!(
            of(&Environment::default()),
            Path::new("/root/tower-fleet/logs/locks")
        );
        assert!(is_the_documents(Path::new("/root/tower-fleet/logs/locks/")));
        assert!(!is_the_documents(Path::new("/root/tower-fleet/logs")));
        let named = Environment::of(&[(LOCK_DIR, "/nowhere/x")]);
        assert_eq!(of(&named), Path::new("/nowhere/x"));
    }
}
