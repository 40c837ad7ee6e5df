//! How a trial ends, and the list of results that text, JSON and promises are made from.

use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::system_words;
use nix::errno::Errno;
use serde::Serialize;

use super::table::TrialKey;

const UNTRIED: &str = "could not be tried: ";

/// How a trial ended: what was seen, or why not.
pub type TrialOutcome = Result<String, TrialFailure>;

/// Why a trial did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFailure {
    /// `Some(false)`: it is missing; `None`: it could not be tried.
    pub ok: Option<bool>,
    /// What was seen, or why nothing was.
    pub detail: String,
    /// What to type to have it.
    pub to_type: Option<String>,
}

impl TrialFailure {
    /// It is not there.
    pub fn missing(detail: impl Into<String>) -> Self {
        Self { ok: Some(false), detail: detail.into(), to_type: None }
    }

    /// It could not be tried.
    pub fn untried(why: impl std::fmt::Display) -> Self {
        Self { ok: None, detail: format!("{UNTRIED}{why}"), to_type: None }
    }
}

impl From<Errno> for TrialFailure {
    /// The system refused. A passing condition, such as a full disk, says nothing about the file system.
    fn from(errno: Errno) -> Self {
        use Errno::{EAGAIN, EDQUOT, EEXIST, EINTR, EMFILE, ENFILE, ENOMEM, ENOSPC};
        let detail = system_words(&errno.into());
        match errno {
            // EEXIST: a file of an earlier trial is still there. Trials that hope for EEXIST look for it themselves.
            EEXIST | EMFILE | ENFILE | ENOMEM | ENOSPC | EDQUOT | EAGAIN | EINTR => Self::untried(detail),
            _ => Self::missing(detail),
        }
    }
}

impl From<std::io::Error> for TrialFailure {
    fn from(error: std::io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Errno::from_raw(errno).into(),
            None => Self::untried(error),
        }
    }
}

/// What was seen, whether that is enough or not.
pub fn seen(is_there: bool, detail: String) -> TrialOutcome {
    if is_there { Ok(detail) } else { Err(TrialFailure::missing(detail)) }
}

/// Goes on where `is_so`; else what is tried is not there.
pub fn ensure(is_so: bool, otherwise: &str) -> Result<(), TrialFailure> {
    if is_so { Ok(()) } else { Err(TrialFailure::missing(otherwise)) }
}

/// How long something took that is expected to take no time: `at once`, `after 40 ms`.
pub fn after(took: Duration) -> String {
    if took < Duration::from_millis(5) { "at once".to_owned() } else { format!("after {}", shown(took)) }
}

/// The result of a trial, as JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialResult {
    #[serde(skip)]
    pub key: TrialKey,
    /// The trial's name.
    pub name: &'static str,
    /// It is there; `None`: unknown.
    pub ok: Option<bool>,
    /// What was seen.
    pub detail: String,
    /// What it means for locks.
    pub means: &'static str,
    /// What to type where it is missing.
    #[serde(rename = "next")]
    pub to_type: Option<String>,
}

impl TrialResult {
    /// The trial's name for people.
    pub fn words(&self) -> String {
        self.name.replace('_', " ")
    }
}

/// The results of all trials of one directory, in the order of the table.
#[derive(Debug, Clone, Serialize)]
pub struct TrialResults(pub Vec<TrialResult>);

impl TrialResults {
    fn get(&self, key: TrialKey) -> Option<&TrialResult> {
        self.0.iter().find(|result| result.key == key)
    }

    /// Whether it is there; `None`: unknown.
    pub fn ok(&self, key: TrialKey) -> Option<bool> {
        self.get(key)?.ok
    }

    /// What was seen.
    pub fn detail(&self, key: TrialKey) -> &str {
        self.get(key).map_or("", |result| &result.detail)
    }

    /// The detail, for a sentence that says already that it did not work.
    pub fn why(&self, key: TrialKey) -> &str {
        let detail = self.detail(key);
        detail.strip_prefix(UNTRIED).unwrap_or(detail)
    }

    /// `flock wakes: permission denied`.
    pub fn says(&self, key: TrialKey) -> String {
        self.get(key).map_or_else(String::new, |result| format!("{}: {}", result.words(), result.detail))
    }

    /// It was seen to be there.
    pub fn has(&self, key: TrialKey) -> bool {
        self.ok(key) == Some(true)
    }

    /// It was seen to be missing.
    pub fn misses(&self, key: TrialKey) -> bool {
        self.ok(key) == Some(false)
    }

    /// The first of these that was not seen to be there.
    pub fn first_without(&self, keys: &[TrialKey]) -> Option<TrialKey> {
        keys.iter().copied().find(|key| !self.has(*key))
    }

    /// The names of the trials that were not seen to end well.
    pub fn not_ok(&self) -> Vec<String> {
        self.0.iter().filter(|result| result.ok != Some(true)).map(TrialResult::words).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_unknown_and_not_missing() {
        let refused = TrialFailure::from(Errno::EPERM);
        assert_eq!((refused.ok, refused.detail.as_str()), (Some(false), "operation not permitted"));
        let passing = TrialFailure::from(Errno::EMFILE);
        assert_eq!(passing.ok, None);
        assert!(passing.detail.starts_with("could not be tried: "), "{passing:?}");
        let ended = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it ended");
        assert_eq!(TrialFailure::from(ended).ok, None);
    }
}
