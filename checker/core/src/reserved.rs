//! A file that a user names for our output must not be a lock file: a report would write over it, and an audit trail
//! would make it malformed.

use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::MetadataExt, path::Path, path::PathBuf,
};

use crate::place::Names;

/// Why a file must not be used for output: it belongs to a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// The file has a name that lock files of databases and the files beside them have.
    ByName,
    /// The file is the lock file of the target, or lies beside it under its name.
    ByTarget,
}

impl Reserved {
    /// Whether output to `path` would go, also by a link, to one of `locks` or to any database's lock.
    pub fn of(path: &Path, locks: &[&Path]) -> Option<Self> {
        // What it leads to may be made only later: each link of the last part counts by its name.
        let resolved = resolved(path);
        let mut paths = [Some(path), resolved.as_deref()].into_iter().flatten();
        if paths
            .clone()
            .filter_map(Path::file_name)
            .any(is_of_a_database)
        {
            return Some(Self::ByName);
        }
        paths
            .any(|path| {
                locks
                    .iter()
                    .any(|lock| is_same(path, lock) || is_beside(path, lock))
            })
            .then_some(Self::ByTarget)
    }

    /// Why the file is refused, and what to do.
    pub fn words(self) -> &'static str {
        match self {
            Self::ByName => "has a lock file's name; name another file",
            Self::ByTarget => {
                "is the lock file of the target, or a file beside it; name another file"
            }
        }
    }
}

fn resolved(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..40 {
        let Ok(to) = fs::read_link(&path) else {
            return Some(path);
        };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    None
}

fn is_of_a_database(name: &OsStr) -> bool {
    name.as_bytes().starts_with(Names::BEADS.lock().to_bytes())
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

fn is_same(path: &Path, lock: &Path) -> bool {
    path == lock || inode(path).is_some_and(|inode_| inode(lock) == Some(inode_))
}

/// In the directory of `lock`, and called like one of its side files.
fn is_beside(path: &Path, lock: &Path) -> bool {
    let (Some(name), Some(lock_name)) = (path.file_name(), lock.file_name()) else {
        return false;
    };
    let is_broken = || {
        name.as_bytes()
            .starts_with(&[lock_name.as_bytes(), b".broken-"].concat())
    };
    let is_its = name == lock_name || Names::belongs_to(name) == Some(lock_name) || is_broken();
    let dir = |path: &Path| match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => inode(dir),
        _ => inode(Path::new(".")),
    };
    is_its && dir(path).is_some_and(|there| dir(lock) == Some(there))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests remove what they have made"
)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_lock_file_is_taken_by_whatever_name_it_goes() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        symlink(at("dir"), at("other")).unwrap();
        fs::write(at("dir/build.lock"), "{}").unwrap();
        fs::hard_link(at("dir/build.lock"), at("hard")).unwrap();
        symlink("dir/build.lock", at("soft")).unwrap();
        symlink("soft", at("soft2")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("dir/.exclusive-lock", at("dangling")).unwrap();
        let lock = at("dir/build.lock");
        let taken = |name: &str| Reserved::of(&at(name), &[&lock]);
        for name in [
            ".exclusive-lock",
            "x/.exclusive-lock.aside",
            ".exclusive-lock-x",
            "dangling",
        ] {
            assert_eq!(taken(name), Some(Reserved::ByName), "{name}");
        }
        for name in [
            "dir/build.lock",
            "dir/../dir/build.lock",
            "hard",
            "soft",
            "soft2",
            "other/build.lock",
        ] {
            assert_eq!(taken(name), Some(Reserved::ByTarget), "{name}");
        }
        for name in [
            "build.lock.aside",
            "build.lock.tmp-77-ab120934",
            "build.lock.broken-2.json",
        ] {
            assert_eq!(
                taken(&format!("other/{name}")),
                Some(Reserved::ByTarget),
                "{name}"
            );
        }
        for name in [
            "audit.jsonl",
            "build.lock",
            "dir/build.lock.json",
            "dir/x",
            "loop",
            "nowhere/build.lock",
        ] {
            assert_eq!(taken(name), None, "{name}");
        }
        fs::remove_file(&lock).unwrap();
        assert_eq!(taken("soft"), Some(Reserved::ByTarget), "it will be there");
        assert_eq!(taken("other/build.lock"), Some(Reserved::ByTarget));
    }
}
