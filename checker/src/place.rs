//! Where a lock file lies: a directory, the file's name in it, and the one side name (DESIGN 4 and 6).

use std::borrow::Cow;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dialect::beads::StartedAt;
use crate::read::join;

/// A place for one lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    dir: PathBuf,
    names: Names,
}

impl Place {
    /// The lock of the beads database in `dir`.
    pub fn beads(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), names: Names::BEADS }
    }

    /// A lock file called `name` in `dir`. `None`: a file cannot be called so.
    pub fn named(dir: impl Into<PathBuf>, name: &OsStr) -> Option<Self> {
        Some(Self { dir: dir.into(), names: Names::of(name)? })
    }

    /// A lock of these names in `dir`.
    pub(crate) fn new(dir: impl Into<PathBuf>, names: Names) -> Self {
        Self { dir: dir.into(), names }
    }

    /// The directory; the gate is the flock on it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The lock file.
    pub fn path(&self) -> PathBuf {
        join(&self.dir, self.names.lock())
    }

    /// The side file.
    pub fn aside(&self) -> PathBuf {
        join(&self.dir, self.names.aside())
    }

    /// What the lock and its side file are called.
    pub fn names(&self) -> &Names {
        &self.names
    }
}

/// What a lock and the files beside it are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    lock: Cow<'static, CStr>,
    aside: Cow<'static, CStr>,
}

impl Names {
    /// Of a beads database.
    pub const BEADS: Self =
        Self { lock: Cow::Borrowed(c".exclusive-lock"), aside: Cow::Borrowed(c".exclusive-lock.aside") };

    fn of(name: &OsStr) -> Option<Self> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.contains(&b'/') || [&b"."[..], b".."].contains(&bytes) {
            return None;
        }
        let lock = CString::new(bytes).ok()?;
        let aside = CString::new([bytes, b".aside"].concat()).ok()?;
        Some(Self { lock: Cow::Owned(lock), aside: Cow::Owned(aside) })
    }

    /// The lock file's name.
    pub fn lock(&self) -> &CStr {
        &self.lock
    }

    /// The one side name: nobody without the gate ever touches it.
    pub fn aside(&self) -> &CStr {
        &self.aside
    }

    /// The side name, for words.
    pub(crate) fn aside_shown(&self) -> String {
        crate::escape::escaped(&self.aside.to_string_lossy()).to_string()
    }

    /// What an unfinished lock of `process` is called where there are no unnamed files.
    pub(crate) fn draft(&self, process: u32, random: &str) -> CString {
        let tail = format!(".tmp-{process}-{random}");
        // Neither half has a NUL.
        CString::new([self.lock.to_bytes(), tail.as_bytes()].concat()).unwrap_or_default()
    }

    /// What a lock that is broken at `time` is kept as; the `number`th of that second.
    pub(crate) fn broken(&self, time: StartedAt, number: usize) -> CString {
        let time = time.to_string();
        let second = time.split(['.', 'Z']).next().unwrap_or_default().replace(['-', ':'], "");
        let number = if number > 1 { format!("-{number}") } else { String::new() };
        let tail = format!(".broken-{second}Z{number}.json");
        // Neither half has a NUL.
        CString::new([self.lock.to_bytes(), tail.as_bytes()].concat()).unwrap_or_default()
    }

    /// The process whose unfinished lock a file called `name` is.
    pub(crate) fn process_of_draft(&self, name: &CStr) -> Option<i64> {
        let rest = name.to_bytes().strip_prefix(self.lock.to_bytes())?.strip_prefix(b".tmp-")?;
        std::str::from_utf8(rest).ok()?.split_once('-')?.0.parse().ok()
    }

    /// The lock whose side file or unfinished lock a file called `name` would be taken for: such a name is no lock's.
    pub fn belongs_to(name: &OsStr) -> Option<&OsStr> {
        let bytes = name.as_bytes();
        let of_aside = bytes.strip_suffix(b".aside");
        let of_draft = || {
            let at = bytes.windows(5).rposition(|window| window == b".tmp-")?;
            let is_process = bytes[at + 5..].first().is_some_and(u8::is_ascii_digit);
            is_process.then(|| &bytes[..at])
        };
        of_aside.or_else(of_draft).filter(|lock| !lock.is_empty()).map(OsStr::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_name_is_the_locks_name_and_aside() {
        let place = Place::named("/run", OsStr::new("x.lock")).unwrap();
        assert_eq!((place.path(), place.aside()), ("/run/x.lock".into(), "/run/x.lock.aside".into()));
        assert_eq!(Place::beads("/d").path(), Path::new("/d/.exclusive-lock"));
        assert_eq!(Place::named("/d", OsStr::new(".exclusive-lock")), Some(Place::beads("/d")));
        for name in ["", ".", "..", "a/b", "a\0b"] {
            assert_eq!(Place::named("/d", OsStr::new(name)), None, "{name:?}");
        }
    }

    #[test]
    fn an_unfinished_lock_tells_whose_it_is() {
        let draft = Names::BEADS.draft(77, "ab12");
        assert_eq!(draft.as_c_str(), c".exclusive-lock.tmp-77-ab12");
        assert_eq!(Names::BEADS.process_of_draft(&draft), Some(77));
        for other in [c".exclusive-lock", c".exclusive-lock.tmp-x-1", c".exclusive-lock.tmp-7", c"x.tmp-7-1"]
        {
            assert_eq!(Names::BEADS.process_of_draft(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_broken_lock_has_the_second_in_its_name() {
        let time = StartedAt::from_unix(1_795_238_007, 999_999_999);
        let names = [1, 2, 11].map(|number| Names::BEADS.broken(time, number).into_string().unwrap());
        let tails = ["", "-2", "-11"];
        assert_eq!(names, tails.map(|tail| format!(".exclusive-lock.broken-20261121T051327Z{tail}.json")));
    }

    #[test]
    fn a_side_name_is_no_locks_name() {
        let owner = |name: &'static str| Names::belongs_to(OsStr::new(name)).and_then(OsStr::to_str);
        assert_eq!(owner("x.aside"), Some("x"));
        assert_eq!(owner("x.tmp-77-ab"), Some("x"));
        for name in ["x", ".aside", "x.aside.lock", "x.tmp-old", "x.tmp"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
