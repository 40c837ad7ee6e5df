//! From a path to the file that is meant, and its lock file.

use crate::error::Problem;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{fs, io::ErrorKind, sync::Arc};

use beadlock_base::{error::system_words, escape::escaped_path, permission, shell::make_directory};
use beadlock_core::gate_holders::GateHolders;
use beadlock_core::record::file::{lock_of, locked_by};
use beadlock_core::target::Scheme;
use nix::sys::stat::{SFlag, lstat};

use crate::error::{Code, Error};
use crate::target::prefixed;
use crate::words::{Part, quoted};

/// So many symbolic links lead to a file at most, as the kernel has it.
const LINKS: usize = 40;

/// Which file the flock is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// `file:PATH`: the lock file `PATH.lock` beside the file.
    Beside,
    /// `flock:PATH`: the file or the directory itself.
    Itself,
}

impl Locks {
    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Self::Beside => Scheme::File,
            Self::Itself => Scheme::Flock,
        }
    }

    /// The file to be locked for `file`.
    fn lock_of(self, file: &Path) -> Option<CString> {
        let path = match self {
            Self::Beside => lock_of(file),
            Self::Itself => file.to_owned(),
        };
        CString::new(path.into_os_string().into_vec()).ok()
    }
}

/// A file, and the file that an flock is on: the lock file beside it, or itself. To clone it costs nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTarget(Arc<Paths>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Paths {
    locks: Locks,
    named: PathBuf,
    /// Absolute, and no symbolic link itself.
    file: PathBuf,
    lock: CString,
    /// Of a lock file that is made; `None`: the usual ones.
    permissions: Option<u32>,
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
        let file = without_links(absolute(path)?, shown)?;
        if let Some(data) = locked_by(&file) {
            refuse_lock_file(path, &file, &data)?;
        }
        Self::exact(Locks::Beside, file, path.to_owned())
            .ok_or_else(|| nul_byte(Locks::Beside, path))
    }

    /// The file or the directory at `path`, to be locked itself. A file need not be there; a directory must. A symbolic
    /// link stands for what it leads to.
    pub fn itself(path: &Path) -> Result<Self, Error> {
        let shown = || escaped_path(path);
        let of = |file: PathBuf| {
            Self::exact(Locks::Itself, file, path.to_owned())
                .ok_or_else(|| nul_byte(Locks::Itself, path))
        };
        if let Ok(there) = fs::canonicalize(path) {
            return match fs::metadata(&there) {
                Ok(meta) if !meta.is_file() && !meta.is_dir() => Err(Error::usage(format!(
                    "flock:{} is neither a file nor a directory, and was not opened; name one of these",
                    shown()
                ))),
                // What cannot be looked at is told when it cannot be opened.
                _ => of(there),
            };
        }
        let bytes = path.as_os_str().as_bytes();
        if path.file_name().is_none() || bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
            return Err(Error::new(
                Code::NoTarget,
                format!(
                    "flock:{} does not exist, and only a file is made; {}",
                    shown(),
                    make_directory(path)
                ),
            ));
        }
        of(without_links(absolute(path)?, shown)?)
    }

    /// A file that was found by another process. `None`: no file's name has a NUL byte.
    pub fn exact(locks: Locks, file: PathBuf, named: PathBuf) -> Option<Self> {
        let lock = locks.lock_of(&file)?;
        Some(Self(Arc::new(Paths {
            locks,
            named,
            file,
            lock,
            permissions: None,
        })))
    }

    pub(crate) fn of_paths(locks: Locks, file: PathBuf, named: PathBuf) -> Self {
        let lock = locks.lock_of(&file).unwrap_or_default();
        Self(Arc::new(Paths {
            locks,
            named,
            file,
            lock,
            permissions: None,
        }))
    }

    /// The same with these permissions for a lock file that is made.
    pub(crate) fn with_permissions(self, mode: u32) -> Self {
        let mut paths = Arc::unwrap_or_clone(self.0);
        paths.permissions = Some(mode);
        Self(Arc::new(paths))
    }

    pub(crate) fn permissions(&self) -> Option<u32> {
        self.0.permissions
    }

    /// Which file the flock is on.
    pub(crate) fn locks(&self) -> Locks {
        self.0.locks
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
        Ok(Self::exact(self.locks(), dir.join(name), self.named().to_owned()).unwrap_or(self))
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
        format!("{}{}", self.locks().scheme().prefix(), self.shown())
    }

    pub(crate) fn part(&self) -> Part<'static> {
        let prefix = self.locks().scheme().prefix();
        Part::Words(vec![prefixed(prefix, self.named())])
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|error| {
        let (shown, why) = (escaped_path(path), system_words(&error));
        Error::io(format!("cannot find {shown}: {why}"), error.kind())
    })
}

fn nul_byte(locks: Locks, path: &Path) -> Error {
    let (prefix, shown) = (locks.scheme().prefix(), escaped_path(path));
    Error::usage(format!(
        "{prefix}{shown} has a NUL byte, which no file's name has"
    ))
}

/// Refuses the lock file of another file, `data`, which would get a lock file of its own: whoever locks the file that
/// was named, as flock(1) does, would not be kept out.
fn refuse_lock_file(named: &Path, file: &Path, data: &Path) -> Result<(), Error> {
    let (shown, itself) = (
        escaped_path(named),
        quoted(&prefixed(Scheme::Flock.prefix(), named)),
    );
    if fs::symlink_metadata(data).is_ok_and(|meta| meta.is_file()) {
        let data = escaped_path(data);
        return Err(Error::usage(format!(
            "file:{shown} is the lock file of {data}, which never has any content; name {data}, or did you mean \
             {itself}?"
        )));
    }
    let what = match fs::symlink_metadata(file) {
        Ok(meta) if meta.is_file() && meta.len() == 0 => "is an empty lock file",
        Ok(meta) if meta.is_file() && !GateHolders::now().holders(file).is_empty() => {
            "is locked itself"
        }
        _ => return Ok(()),
    };
    let same = quoted(&prefixed(
        Scheme::File.prefix(),
        named.with_file_name(data.file_name().unwrap_or_default()),
    ));
    Err(Error::usage(format!(
        "{shown} {what}, and file:{shown} would lock {shown}.lock beside it; did you mean {itself}? ({same} is the \
         same lock)"
    )))
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
        ErrorKind::NotFound => Error::new(
            Code::NoTarget,
            format!("{dir} does not exist; {}", make_directory(path)),
        ),
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
        fs::write(top.path().join("Cargo.lock"), "version = 4").unwrap();
        fs::write(top.path().join("build.lock"), "").unwrap();
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
        assert!(usage("build.lock").contains("build.lock is an empty lock file"));
        let locked = fs::File::open(top.path().join("Cargo.lock")).unwrap();
        assert!(beadlock_base::sys::flock(&locked, beadlock_base::sys::Flock::Try).unwrap());
        assert!(usage("Cargo.lock").contains("Cargo.lock is locked itself"));
        let error = FileTarget::of(&top.path().join("nowhere/x"))
            .unwrap()
            .canonical()
            .unwrap_err();
        assert_eq!(error.code(), Code::NoTarget, "{error}");
    }
}
