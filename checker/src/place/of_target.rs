//! The places of `lock:PATH` and `memory:DIR` (docs/design.md#targets).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Names, Place};
use crate::directory;
use crate::escape::escaped_path;
use crate::no_database::NoDatabase;

impl Place {
    /// The place of `lock:PATH`, with `path` relative to `cwd`: its directory without links, the file's name as it is.
    ///
    /// # Errors
    /// When the directory is not there or cannot be reached, and for a name that is no lock's: one that can only be a
    /// directory's (`run/`), ends like a side file's or an unfinished lock's of another lock, or is longer than
    /// [`Names::LIMIT`] (exit 2). A directory that lies where the lock would is unreadable, as in a database.
    pub fn of_lock(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        let shown = escaped_path(path);
        let no_name = || {
            NoDatabase::usage(format!("lock:{shown} names no file; name one, such as lock:path/build.lock"))
        };
        let bytes = path.as_os_str().as_bytes();
        let names_a_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let name = path.file_name().filter(|_| !names_a_directory).ok_or_else(no_name)?;
        if let Some(owner) = Names::belongs_to(name) {
            let owner = escaped_path(&path.with_file_name(owner));
            return Err(NoDatabase::usage(format!(
                "lock:{shown} is what lock:{owner} calls a file beside it; name another"
            )));
        }
        let (length, limit) = (name.len(), Names::LIMIT);
        if length > limit {
            return Err(NoDatabase::usage(format!(
                "lock:{shown}: a lock's name has at most {limit} bytes, this one has {length}: the files beside it \
                 are called by it and more; name another"
            )));
        }
        let parent = cwd.join(path.parent().unwrap_or(Path::new("")));
        let dir = directory::of_lock(&parent, &shown)?;
        Self::named(dir, name).ok_or_else(no_name)
    }

    /// The place of `memory:DIR`, with `path` relative to `cwd`: the directory without links; it need not be there.
    ///
    /// # Errors
    /// When something else is there, or it cannot be reached.
    pub fn of_memory(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        Ok(Self::memory(directory::with_lock(path, cwd)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_has_a_directory_and_a_name_of_its_own() {
        let top = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(top.path()).unwrap();
        std::fs::create_dir_all(top.join("run/sub")).unwrap();
        std::os::unix::fs::symlink("run", top.join("link")).unwrap();
        let place = |path: &str| Place::of_lock(Path::new(path), &top);
        assert_eq!(place("link/x.lock").unwrap().path(), top.join("run/x.lock"));
        assert_eq!(place("x").unwrap().dir(), top);
        assert_eq!(place("link").unwrap().path(), top.join("link"));
        assert_eq!(place("run").unwrap().path(), top.join("run"));
        for wrong in
            ["run/", "run/.", "run/new/", "run/new/.", ".", "run/..", "/", "x.aside", "run/x.tmp-5-0123abcd"]
        {
            let error = place(wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong}: {error}");
        }
        assert!(place(&"x".repeat(223)).is_ok());
        let error = place(&format!("run/{}", "x".repeat(224))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("has at most 223 bytes, this one has 224"), "{error}");
        let error = place("nowhere/x").unwrap_err();
        assert_eq!((error.exit_code(), error.code()), (1, "NO_TARGET"), "{error}");
    }
}
