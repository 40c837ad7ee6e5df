//! Why a sync ends early, and how its lines count and name things.

use std::fmt::Display;
use std::io;
use std::path::Path;

use beadlock_checker::internal::system_words;

use super::{Event, Part, as_path, escaped_path};

/// Why a sync ends early, as a text for the log.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    /// There is nothing more to do, which is logged once.
    Nothing(String),
    /// The remote does not answer, or refuses: to be tried again later.
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

/// The first eight paths, as they are typed; the next refusal names the rest.
pub(super) fn typed_all(paths: &[impl AsRef<[u8]>]) -> Part<'_> {
    Part::Paths(paths.iter().take(8).map(|path| as_path(path.as_ref())).collect())
}
