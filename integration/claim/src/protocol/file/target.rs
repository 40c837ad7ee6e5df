//! From a path to the file that is meant, and its lock file.

use crate::error::Problem;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, io::ErrorKind, sync::Arc};

use beadlock_base::{error::system_words, escape::escaped_path, permission};
use beadlock_core::record::file::{lock_of, locked_by};
use nix::sys::stat::{SFlag, lstat};

use crate::error::{Code, Error};
use crate::target::prefixed;
use crate::words::{Part, to_type};

/// So many symbolic links lead to a file at most, as the kernel has it.
const LINKS: usize = 40;

/// A file, and the lock file beside it. To clone it costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget(Arc<Paths>);

#[derive(Debug, PartialEq, Eq)]
struct Paths {
    named: PathBuf,
    /// Absolute, and no symbolic link itself.
    file: PathBuf,
    lock: CString,
}

impl FileTarget {
    /// The file at `path`, which need not be there. A symbolic link stands for what it leads to.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let shown = || escaped_path(path);
        let bytes = path.as_os_str().as_bytes();
        if path.file_name().is_none() || bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
            return Err(Error::usage(format!(
                "file:{} names no file; name one, such as file:path/todo.json",
                shown()
            )));
        }
        let absolute = std::path::absolute(path).map_err(|error| {
            Error::io(
                format!("cannot find {}: {}", shown(), system_words(&error)),
                error.kind(),
            )
        })?;
        let file = without_links(absolute, shown)?;
        if let Some(data) = locked_by(&file)
            && fs::symlink_metadata(&data).is_ok_and(|meta| meta.is_file())
        {
            let data = escaped_path(&data);
            return Err(Error::usage(format!(
                "file:{} is the lock file of {data}, which never has any content; name {data}",
                shown()
            )));
        }
        Self::exact(file, path.to_owned()).ok_or_else(|| {
            Error::usage(format!(
                "file:{} has a NUL byte, which no file's name has",
                shown()
            ))
        })
    }

    /// A file that was found by another process. `None`: no file's name has a NUL byte.
    pub fn exact(file: PathBuf, named: PathBuf) -> Option<Self> {
        let lock = CString::new(lock_of(&file).into_os_string().into_vec()).ok()?;
        Some(Self(Arc::new(Paths { named, file, lock })))
    }

    pub(crate) fn of_paths(file: PathBuf, named: PathBuf) -> Self {
        let lock = CString::new(lock_of(&file).into_os_string().into_vec()).unwrap_or_default();
        Self(Arc::new(Paths { named, file, lock }))
    }

    pub(crate) fn named(&self) -> &Path {
        &self.0.named
    }

    /// This file with the links in its directory's path resolved, so that it has one name alone.
    pub fn canonical(self) -> Result<Self, Error> {
        let file = self.file();
        let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else {
            return Ok(self);
        };
        let dir = fs::canonicalize(dir).map_err(|error| no_directory(file, &error))?;
        Ok(Self::exact(dir.join(name), self.named().to_owned()).unwrap_or(self))
    }

    /// The file itself: absolute, and no symbolic link. It need not exist.
    pub fn file(&self) -> &Path {
        &self.0.file
    }

    pub(crate) fn lock(&self) -> &Path {
        Path::new(OsStr::from_bytes(self.0.lock.as_bytes()))
    }

    pub(crate) fn lock_name(&self) -> &CStr {
        &self.0.lock
    }

    pub(crate) fn dir(&self) -> &Path {
        self.file().parent().unwrap_or(Path::new("/"))
    }

    /// The file as it was named, for messages: `todo.json`.
    pub fn shown(&self) -> String {
        escaped_path(self.named())
    }

    /// The file as it was named, with its scheme: `file:todo.json`.
    pub fn given(&self) -> String {
        format!("file:{}", self.shown())
    }

    pub(crate) fn part(&self) -> Part<'static> {
        Part::Words(vec![prefixed("file:", self.named())])
    }
}

/// Follows the symbolic links that the last part of the path is.
fn without_links(mut file: PathBuf, shown: impl Fn() -> String) -> Result<PathBuf, Error> {
    for _ in 0..LINKS {
        // What cannot be looked at is told when its lock file cannot be opened.
        let Ok(stat) = lstat(&file) else {
            return Ok(file);
        };
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        if kind == SFlag::S_IFLNK {
            let link = fs::read_link(&file).map_err(|error| {
                Error::io(
                    format!("cannot follow {}: {}", shown(), system_words(&error)),
                    error.kind(),
                )
            })?;
            file = file.parent().unwrap_or(Path::new("/")).join(link);
        } else if kind == SFlag::S_IFREG {
            return Ok(file);
        } else {
            let what = if kind == SFlag::S_IFDIR {
                "a directory"
            } else {
                "no regular file"
            };
            return Err(Error::usage(format!(
                "{} is {what}; only files are locked so: name one, such as file:path/todo.json",
                escaped_path(&file)
            )));
        }
    }
    Err(Error::new(
        Code::Io,
        format!("{}: too many symbolic links", shown()),
    ))
}

pub fn no_directory(file: &Path, error: &std::io::Error) -> Error {
    let path = file.parent().unwrap_or(Path::new("/"));
    let dir = escaped_path(path);
    match error.kind() {
        ErrorKind::NotFound if path.iter().any(|part| part == "~") => Error::new(
            Code::NoTarget,
            format!(
                "{dir} does not exist; a shell leaves a ~ as it is there, so type $HOME for it"
            ),
        ),
        ErrorKind::NotFound => {
            let then = format!(
                "make it first: {}",
                to_type("mkdir -p {}", &[Part::Path(path)])
            );
            Error::new(Code::NoTarget, format!("{dir} does not exist; {then}"))
        }
        ErrorKind::NotADirectory => Error::new(Code::NoTarget, format!("{dir} is not a directory")),
        kind => {
            let closed = permission::directory_above(path)
                .map(|why| format!("; {why}"))
                .unwrap_or_default();
            Error::io(
                format!("cannot reach {dir}: {}{closed}", system_words(error)),
                kind,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_and_what_it_leads_to_are_one_file() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir(top.join("real")).unwrap();
        symlink("real", top.join("dir")).unwrap();
        symlink("../second", top.join("real/first")).unwrap();
        symlink("real/todo.json", top.join("second")).unwrap();
        let of = |path: &str| {
            FileTarget::of(&top.join(path))
                .unwrap()
                .canonical()
                .unwrap()
        };
        for path in [
            "dir/first",
            "second",
            "real/todo.json",
            "real/../dir/todo.json",
        ] {
            assert_eq!(of(path).file(), top.join("real/todo.json"), "{path}");
            assert_eq!(of(path).lock(), top.join("real/todo.json.lock"), "{path}");
        }
        symlink("loop", top.join("loop")).unwrap();
        assert!(
            FileTarget::of(&top.join("loop"))
                .unwrap_err()
                .to_string()
                .contains("too many symbolic links")
        );
    }

    #[test]
    fn what_is_no_file_is_refused_by_name() {
        let top = tempfile::tempdir().unwrap();
        let usage = |path: &str| {
            let error = FileTarget::of(&top.path().join(path)).unwrap_err();
            assert_eq!(error.code(), Code::Usage, "{path}: {error}");
            error.to_string()
        };
        fs::create_dir(top.path().join("dir")).unwrap();
        fs::write(top.path().join("todo.json"), "{}").unwrap();
        fs::write(top.path().join("Cargo.lock"), "").unwrap();
        nix::unistd::mkfifo(&top.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(usage("dir").contains("is a directory"));
        assert!(usage("fifo").contains("no regular file"));
        assert!(usage("a\0b").contains("has a NUL byte"));
        for no_name in ["..", "todo.json/", "todo.json/."] {
            assert!(usage(no_name).contains("names no file"), "{no_name}");
        }
        assert!(usage("todo.json.lock").contains("is the lock file of"));
        assert!(
            FileTarget::of(&top.path().join("Cargo.lock")).is_ok(),
            "a file of its own"
        );
        let error = FileTarget::of(&top.path().join("nowhere/x"))
            .unwrap()
            .canonical()
            .unwrap_err();
        assert_eq!(error.code(), Code::NoTarget, "{error}");
    }
}
