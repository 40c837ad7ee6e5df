//! Targets: what is locked, as it is written on a command line, `[beads:]DIR`, `dir:PATH`, `lock:PATH`, `tower:NAME`,
//! `memory:DIR`, `file:PATH` or `flock:PATH` (docs/design.md#targets); and the places of those that are paths.

use std::{ffi::OsStr, ffi::OsString, os::unix::ffi::OsStrExt, path::Path, path::PathBuf};

use crate::place::Place;
use crate::{
    directory::{self, NoDatabase},
    record::{Names, RecordKind},
};
use beadlock_base::escape::escaped;
use beadlock_base::{
    escape::escaped_path,
    shell::{Part, to_type},
};

/// A parsed target: a scheme, and what stands behind its colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedTarget {
    /// The scheme before the colon; `beads` where none is written.
    pub scheme: Scheme,
    /// The text after the colon, to the byte.
    pub rest: PathBuf,
}

/// The schemes of targets. Code that has to know all schemes asks here, so that none is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `beads:DIR`
    Beads,
    /// `dir:PATH`
    Dir,
    /// `lock:PATH`
    Lock,
    /// `tower:NAME`
    Tower,
    /// `memory:DIR`
    Memory,
    /// `file:PATH`
    File,
    /// `flock:PATH`
    Flock,
}

impl Scheme {
    /// All of them, in the order in which they are listed for people.
    pub const ALL: [Self; 7] = [
        Self::Beads,
        Self::Dir,
        Self::Lock,
        Self::Tower,
        Self::Memory,
        Self::File,
        Self::Flock,
    ];

    /// The scheme with its colon, what follows it, and an example of what to name.
    fn words(self) -> [&'static str; 3] {
        match self {
            Self::Beads => [
                "beads:",
                "DIR",
                "the target is empty; name a directory, such as path/.beads",
            ],
            Self::Dir => [
                "dir:",
                "PATH",
                "the target is empty; name a directory, such as dir:path",
            ],
            Self::Lock => [
                "lock:",
                "PATH",
                "the target is empty; name a file, such as lock:path/build.lock",
            ],
            Self::Tower => [
                "tower:",
                "NAME",
                "tower: names no lock; name one, such as tower:app-production",
            ],
            Self::Memory => [
                "memory:",
                "DIR",
                "the target is empty; name a directory, such as memory:path/memory",
            ],
            Self::File => [
                "file:",
                "PATH",
                "the target is empty; name a file, such as file:path/todo.json",
            ],
            Self::Flock => [
                "flock:",
                "PATH",
                "the target is empty; name a file or a directory, such as flock:path/build.lock",
            ],
        }
    }

    /// The scheme with its colon: `memory:`.
    pub fn prefix(self) -> &'static str {
        self.words()[0]
    }

    fn shown(self, path: &Path) -> String {
        format!("{}{}", self.prefix(), escaped_path(path))
    }

    /// The scheme that `text` begins with, and the text behind the colon.
    pub fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let of = |scheme: Self| Some((scheme, text.strip_prefix(scheme.prefix().as_bytes())?));
        Self::ALL.into_iter().find_map(of)
    }

    /// `beads:DIR, lock:PATH, …`: the whole list, for a message.
    fn list() -> String {
        Self::ALL
            .map(|scheme| scheme.words()[..2].concat())
            .join(", ")
    }
}

impl ParsedTarget {
    /// Parses `SCHEME:REST` or a path. A scheme is letters up to the first colon, with no slash before it; a path that
    /// looks so is written `./a:b`. Errors: an unknown scheme, or nothing at all: the command line is wrong (exit 2).
    pub fn parse(text: &OsStr) -> Result<Self, NoDatabase> {
        let bytes = text.as_bytes();
        let (scheme, rest) = match Scheme::split(bytes) {
            Some(split) => split,
            None => match bytes.iter().position(|byte| *byte == b':') {
                Some(at) if !bytes[..at].contains(&b'/') => {
                    return Err(unknown_scheme(text, &bytes[..at]));
                }
                _ => (Scheme::Beads, bytes),
            },
        };
        if rest.is_empty() {
            return Err(NoDatabase::usage(scheme.words()[2].to_owned()));
        }
        Ok(Self {
            scheme,
            rest: PathBuf::from(OsStr::from_bytes(rest)),
        })
    }

    /// Typed as it is, the path is the directory of a database: it does not read as a scheme.
    pub(crate) fn is_plain(path: &Path) -> bool {
        Self::parse(path.as_os_str())
            .is_ok_and(|target| target.scheme == Scheme::Beads && target.rest == path)
    }

    /// The target `memory:DIR`: the lock that any directory can have.
    pub(crate) fn lock_of_directory(path: &Path) -> OsString {
        let mut target = OsString::from(Scheme::Memory.prefix());
        target.push(path);
        target
    }

    pub(crate) fn into_database(self) -> Result<PathBuf, NoDatabase> {
        let Self { scheme, rest } = self;
        let shown = match scheme {
            Scheme::Beads => return Ok(rest),
            Scheme::File | Scheme::Flock => return Err(NoDatabase::without_record(scheme, &rest)),
            other => other.shown(&rest),
        };
        Err(NoDatabase::usage(format!(
            "{shown} is no beads database; name one: path/.beads"
        )))
    }
}

fn unknown_scheme(text: &OsStr, scheme: &[u8]) -> NoDatabase {
    let here = Path::new(".").join(text);
    let path = to_type("{}", &[Part::Path(&here)]);
    let scheme = String::from_utf8_lossy(scheme);
    NoDatabase::usage(format!(
        "unknown scheme {}: (known: {}); a path with a colon is written {path}",
        escaped(&scheme),
        Scheme::list()
    ))
}

impl Place {
    /// The place of `lock:PATH`, with `path` relative to `cwd`: its directory without links, the file's name as it is.
    ///
    /// # Errors
    /// When the directory is not there or cannot be reached, and for a name that no lock can have (exit 2). Such a
    /// name can only be a directory's (`run/`), ends like the side file or the unfinished file of another lock, or is
    /// longer than [`Names::LIMIT`]. A directory that lies where the lock would is unreadable, as in a database.
    pub fn of_lock(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        Self::at_path((Scheme::Lock, RecordKind::Beads), path, cwd)
    }

    /// [`Place::of_lock`] by the rules of `record_kind`.
    #[doc(hidden)]
    pub fn at_path(
        (scheme, record_kind): (Scheme, RecordKind),
        path: &Path,
        cwd: &Path,
    ) -> Result<Self, NoDatabase> {
        let shown = scheme.shown(path);
        let example = scheme.shown(Path::new("path/build.lock"));
        let no_name = || {
            NoDatabase::usage(format!(
                "{shown} names no file; name one, such as {example}"
            ))
        };
        let bytes = path.as_os_str().as_bytes();
        let names_a_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let name = path
            .file_name()
            .filter(|_| !names_a_directory)
            .ok_or_else(no_name)?;
        if let Some(owner) = Names::belongs_to(name) {
            let owner = scheme.shown(&path.with_file_name(owner));
            let what = format!("{shown} is what {owner} calls a file beside it; name another");
            return Err(NoDatabase::usage(what));
        }
        let (length, limit) = (name.len(), Names::LIMIT);
        if length > limit {
            return Err(NoDatabase::usage(format!(
                "{shown}: a lock's name has at most {limit} bytes, this one has {length}: the files beside it \
                 are called by it and more; name another"
            )));
        }
        let parent = cwd.join(path.parent().unwrap_or(Path::new("")));
        let dir = directory::of_lock(&parent, &escaped_path(path), &shown)?;
        Names::of(record_kind, name)
            .map(|names| Self::new(dir, names))
            .ok_or_else(no_name)
    }

    /// The place of `memory:DIR`, with `path` relative to `cwd`: the directory without links; it need not be there.
    pub fn of_memory(path: &Path, cwd: &Path) -> Result<Self, NoDatabase> {
        let target = Scheme::Memory.shown(path);
        Ok(Self::memory(directory::with_lock(
            &cwd.join(path),
            &escaped_path(path),
            &target,
        )?))
    }
}

impl NoDatabase {
    /// The error for a `file:PATH` or a `flock:PATH` where a target with a lock file and a record is needed.
    fn without_record(scheme: Scheme, path: &Path) -> Self {
        let shown = scheme.shown(path);
        Self::usage(format!(
            "{shown} has no database, no record and no cycles: this is not for files"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::NoDatabaseKind;

    #[test]
    fn parses() {
        let parsed = |text: &str| ParsedTarget::parse(OsStr::new(text));
        let target = |scheme, rest: &str| ParsedTarget {
            scheme,
            rest: rest.into(),
        };
        assert_eq!(
            parsed("a/.beads").unwrap(),
            target(Scheme::Beads, "a/.beads")
        );
        assert_eq!(parsed("beads:a:b").unwrap(), target(Scheme::Beads, "a:b"));
        assert_eq!(parsed("./a:b").unwrap(), target(Scheme::Beads, "./a:b"));
        assert_eq!(parsed("/x/a:b").unwrap(), target(Scheme::Beads, "/x/a:b"));
        assert_eq!(
            parsed("lock:/x/a:b").unwrap(),
            target(Scheme::Lock, "/x/a:b")
        );
        assert_eq!(
            parsed("memory:x/memory").unwrap(),
            target(Scheme::Memory, "x/memory")
        );
        assert_eq!(
            parsed("file:todo.json").unwrap(),
            target(Scheme::File, "todo.json")
        );
        assert_eq!(
            parsed("tower:app-prod").unwrap(),
            target(Scheme::Tower, "app-prod")
        );
        assert_eq!(
            parsed("./tower:App").unwrap(),
            target(Scheme::Beads, "./tower:App")
        );
        assert!(
            parsed("tower:")
                .unwrap_err()
                .to_string()
                .contains("names no lock")
        );
        for wrong in [
            "", "beads:", "dir:", "lock:", "memory:", "file:", "flock:", "a:b", "ftp://x", ":x",
            "BEADS:x",
        ] {
            assert_eq!(parsed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
        assert!(parsed("a:b").unwrap_err().to_string().contains("./a:b"));
    }

    #[test]
    fn every_scheme_is_parsed_and_named_where_one_is_unknown() {
        let unknown = ParsedTarget::parse(OsStr::new("ftp:x"))
            .unwrap_err()
            .to_string();
        for scheme in Scheme::ALL {
            let text = format!("{}x", scheme.prefix());
            assert!(ParsedTarget::parse(OsStr::new(&text)).is_ok(), "{text}");
            assert_eq!(Scheme::split(text.as_bytes()), Some((scheme, &b"x"[..])));
            assert!(
                unknown.contains(&format!("{}{}", scheme.prefix(), scheme.words()[1])),
                "{unknown}"
            );
        }
        assert_eq!(Scheme::split(b"memory"), None);
        assert_eq!(Scheme::split(b"./memory:x"), None);
    }

    #[test]
    fn a_path_need_not_be_utf8() {
        let path = OsStr::from_bytes(b"a\xff/.beads");
        assert_eq!(
            ParsedTarget::parse(path).unwrap(),
            ParsedTarget {
                scheme: Scheme::Beads,
                rest: path.into()
            }
        );
    }

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
        for wrong in [
            "run/",
            "run/.",
            "run/new/",
            "run/new/.",
            ".",
            "run/..",
            "/",
            "x.aside",
            "run/x.tmp-5-0123abcd",
        ] {
            let error = place(wrong).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{wrong}: {error}");
        }
        assert!(place(&"x".repeat(223)).is_ok());
        let error = place(&format!("run/{}", "x".repeat(224))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error
                .to_string()
                .contains("has at most 223 bytes, this one has 224"),
            "{error}"
        );
        let error = place("nowhere/x").unwrap_err();
        assert_eq!(
            (error.exit_code(), error.kind()),
            (1, NoDatabaseKind::NotThere),
            "{error}"
        );
    }
}
