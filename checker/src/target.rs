//! Targets: what is locked, as it is written on a command line, `[beads:]DIR` (DESIGN 2).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::database::NoDatabase;

/// A parsed target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The beads database in a directory.
    Beads(PathBuf),
}

impl Target {
    /// Parses `SCHEME:REST` or a path. A scheme is letters up to the first colon, with no slash before it; a path
    /// that looks so is written `./a:b`.
    ///
    /// # Errors
    /// An unknown scheme, or nothing at all: the command line is wrong (exit 2).
    pub fn parse(text: &OsStr) -> Result<Self, NoDatabase> {
        let bytes = text.as_bytes();
        let colon = bytes.iter().position(|byte| *byte == b':').filter(|at| !bytes[..*at].contains(&b'/'));
        let (scheme, rest) = match colon {
            Some(at) => (String::from_utf8_lossy(&bytes[..at]), &bytes[at + 1..]),
            None => ("beads".into(), bytes),
        };
        if scheme != "beads" {
            let (scheme, path) =
                (crate::escape::escaped(&scheme), crate::escape::escaped_path(Path::new(text)));
            return Err(NoDatabase::usage(format!(
                "unknown scheme {scheme}: (known: beads:DIR); a path with a colon is written ./{path}"
            )));
        }
        if rest.is_empty() {
            return Err(NoDatabase::usage(
                "the target is empty; name a directory, such as path/.beads".to_owned(),
            ));
        }
        Ok(Self::Beads(PathBuf::from(OsString::from_vec(rest.to_vec()))))
    }

    /// The directory, as it was written.
    pub fn dir(&self) -> &Path {
        match self {
            Self::Beads(dir) => dir,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses() {
        let parsed = |text: &str| Target::parse(OsStr::new(text)).map(|target| target.dir().to_owned());
        assert_eq!(parsed("a/.beads").unwrap(), Path::new("a/.beads"));
        assert_eq!(parsed("beads:a:b").unwrap(), Path::new("a:b"));
        assert_eq!(parsed("./a:b").unwrap(), Path::new("./a:b"));
        assert_eq!(parsed("/x/a:b").unwrap(), Path::new("/x/a:b"));
        for wrong in ["", "beads:", "a:b", "ftp://x", ":x", "BEADS:x"] {
            assert_eq!(parsed(wrong).unwrap_err().exit_code(), 2, "{wrong}");
        }
        assert!(parsed("a:b").unwrap_err().to_string().contains("./a:b"));
    }

    #[test]
    fn a_path_need_not_be_utf8() {
        let path = OsStr::from_bytes(b"a\xff/.beads");
        assert_eq!(Target::parse(path).unwrap(), Target::Beads(path.into()));
    }
}
