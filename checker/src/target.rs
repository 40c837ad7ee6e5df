//! Targets: what is locked, as it is written on a command line, `[beads:]DIR`, `lock:PATH`, `tower:NAME`,
//! `memory:DIR` or `file:PATH` (docs/design.md#targets).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dialect::tower::LockName;
use crate::escape::{escaped, escaped_path};
use crate::no_database::NoDatabase;
use crate::shell::{Part, to_type};

/// A parsed target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The beads database in a directory.
    Beads(PathBuf),
    /// A lock file by the beads rule, at any path and without cycles.
    Lock(PathBuf),
    /// The named lock of this name, in whatever lock directory.
    Tower(LockName),
    /// The one lock of a directory, judged by its age.
    Memory(PathBuf),
    /// A file, by an flock beside it.
    File(PathBuf),
}

/// What stands before the colon of a target. Whatever has to know the schemes asks here, so that none is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `beads:DIR`
    Beads,
    /// `lock:PATH`
    Lock,
    /// `tower:NAME`
    Tower,
    /// `memory:DIR`
    Memory,
    /// `file:PATH`
    File,
}

impl Scheme {
    /// All of them, in the order in which they are listed for people.
    pub const ALL: [Self; 5] = [Self::Beads, Self::Lock, Self::Tower, Self::Memory, Self::File];

    /// With its colon: `memory:`.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Beads => "beads:",
            Self::Lock => "lock:",
            Self::Tower => "tower:",
            Self::Memory => "memory:",
            Self::File => "file:",
        }
    }

    /// What follows the colon, as help texts call it: `DIR`.
    fn rest(self) -> &'static str {
        match self {
            Self::Beads | Self::Memory => "DIR",
            Self::Lock | Self::File => "PATH",
            Self::Tower => "NAME",
        }
    }

    /// The scheme that `text` begins with, and the text behind the colon.
    pub fn split(text: &[u8]) -> Option<(Self, &[u8])> {
        let of = |scheme: Self| Some((scheme, text.strip_prefix(scheme.prefix().as_bytes())?));
        Self::ALL.into_iter().find_map(of)
    }

    /// `beads:DIR, lock:PATH, …`: the whole list, for a message.
    fn list() -> String {
        Self::ALL.map(|scheme| format!("{}{}", scheme.prefix(), scheme.rest())).join(", ")
    }
}

impl Target {
    /// Parses `SCHEME:REST` or a path. A scheme is letters up to the first colon, with no slash before it; a path
    /// that looks so is written `./a:b`.
    ///
    /// # Errors
    /// An unknown scheme, or nothing at all: the command line is wrong (exit 2).
    pub fn parse(text: &OsStr) -> Result<Self, NoDatabase> {
        let bytes = text.as_bytes();
        let (scheme, rest) = match Scheme::split(bytes) {
            Some(split) => split,
            None => match bytes.iter().position(|byte| *byte == b':') {
                Some(at) if !bytes[..at].contains(&b'/') => return Err(unknown_scheme(text, &bytes[..at])),
                _ => (Scheme::Beads, bytes),
            },
        };
        let path = PathBuf::from(OsStr::from_bytes(rest));
        let (target, example) = match scheme {
            Scheme::Beads => (Self::Beads(path), "a directory, such as path/.beads"),
            Scheme::Lock => (Self::Lock(path), "a file, such as lock:path/build.lock"),
            Scheme::Memory => (Self::Memory(path), "a directory, such as memory:path/memory"),
            Scheme::File => (Self::File(path), "a file, such as file:path/todo.json"),
            Scheme::Tower if rest.is_empty() => {
                return Err(NoDatabase::usage(
                    "tower: names no lock; name one, such as tower:app-production".to_owned(),
                ));
            }
            Scheme::Tower => {
                let name = LockName::parse(&String::from_utf8_lossy(rest));
                let wrong = |error| NoDatabase::usage(format!("{}: {error}", escaped_path(Path::new(text))));
                return name.map(Self::Tower).map_err(wrong);
            }
        };
        if rest.is_empty() {
            return Err(NoDatabase::usage(format!("the target is empty; name {example}")));
        }
        Ok(target)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        let parsed = |text: &str| Target::parse(OsStr::new(text));
        assert_eq!(parsed("a/.beads").unwrap(), Target::Beads("a/.beads".into()));
        assert_eq!(parsed("beads:a:b").unwrap(), Target::Beads("a:b".into()));
        assert_eq!(parsed("./a:b").unwrap(), Target::Beads("./a:b".into()));
        assert_eq!(parsed("/x/a:b").unwrap(), Target::Beads("/x/a:b".into()));
        assert_eq!(parsed("lock:/x/a:b").unwrap(), Target::Lock("/x/a:b".into()));
        assert_eq!(parsed("memory:x/memory").unwrap(), Target::Memory("x/memory".into()));
        assert_eq!(parsed("file:todo.json").unwrap(), Target::File("todo.json".into()));
        assert_eq!(parsed("tower:app-prod").unwrap(), Target::Tower(LockName::parse("app-prod").unwrap()));
        assert_eq!(parsed("./tower:App").unwrap(), Target::Beads("./tower:App".into()));
        for (wrong, words) in [
            ("App", "not 'A'"),
            ("../x", "not '.'"),
            ("a/b", "not '/'"),
            ("-a", "start with '-'"),
            ("", "names no lock"),
        ] {
            let error = parsed(&format!("tower:{wrong}")).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains(words), "{wrong}: {error}");
        }
        for wrong in ["", "beads:", "lock:", "memory:", "file:", "a:b", "ftp://x", ":x", "BEADS:x"] {
            assert_eq!(parsed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
        assert!(parsed("a:b").unwrap_err().to_string().contains("./a:b"));
    }

    #[test]
    fn every_scheme_is_parsed_and_named_where_one_is_unknown() {
        let unknown = Target::parse(OsStr::new("ftp:x")).unwrap_err().to_string();
        for scheme in Scheme::ALL {
            let text = format!("{}x", scheme.prefix());
            assert!(Target::parse(OsStr::new(&text)).is_ok(), "{text}");
            assert_eq!(Scheme::split(text.as_bytes()), Some((scheme, &b"x"[..])));
            assert!(unknown.contains(&format!("{}{}", scheme.prefix(), scheme.rest())), "{unknown}");
        }
        assert_eq!(Scheme::split(b"memory"), None);
        assert_eq!(Scheme::split(b"./memory:x"), None);
    }

    #[test]
    fn a_path_need_not_be_utf8() {
        let path = OsStr::from_bytes(b"a\xff/.beads");
        assert_eq!(Target::parse(path).unwrap(), Target::Beads(path.into()));
    }
}
