//! Why a sync ends early, and how its lines count and name what they are about.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use beadlock_checker::internal::escape::escaped_path;
use beadlock_checker::internal::log_line::Event;
use beadlock_checker::internal::shell::Part;
use beadlock_checker::internal::system_words;

/// Why a sync does nothing more.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// There is nothing more to do, and why: that is said once.
    Nothing(String),
    /// The remote does not answer, or does not take it: later again.
    Unreachable(String),
    /// It must not, or could not: the cycle has failed.
    Refused(String),
    /// Somebody else has moved the branch meanwhile: once more from the start.
    Moved(String),
}

impl Stop {
    /// There is nothing more to do: the line of `event` says why.
    pub(super) fn nothing(event: Event, why: impl Display) -> Self {
        Self::Nothing(event.line(why))
    }

    pub(super) fn io(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::Refused(format!("{what} {}: {}", escaped_path(path), system_words(error)))
    }
}

/// `1 file`, `2 files`.
pub(super) fn counted(count: impl TryInto<u64>, what: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// The first paths, as they are typed: what is left over is named when these are done.
pub(super) fn typed_all(paths: &[impl AsRef<[u8]>]) -> Part<'_> {
    Part::Paths(paths.iter().take(8).map(|path| Path::new(OsStr::from_bytes(path.as_ref()))).collect())
}
