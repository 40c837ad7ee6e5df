//! How each trial ended: the list that text, JSON and promises are made from.

use std::{fmt::Display, io, ops::Index, time::Duration};

use beadlock_base::{duration::shown, error::system_words};
use clap::ValueEnum;
use nix::errno::Errno;
use serde::Serialize;

use super::table::{Trial, TrialKey};

/// How a trial ended: the words for what was seen, or the failure.
pub type TrialOutcome = Result<String, TrialFailure>;

/// Why a trial has not shown that something is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFailure {
    pub cause: TrialCause,
    /// A command that would help; `None`: there is none to advise.
    pub to_type: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrialCause {
    /// The tried feature is missing; the words say what was seen.
    Missing(String),
    /// The trial was made, but its result is not clear; the words say what was seen.
    Unclear(String),
    /// The trial could not be made; the words say why.
    Untried(String),
}

impl TrialCause {
    /// Whether the tried feature is there: `Some(false)` when it is missing, `None` when it is unknown.
    pub fn ok(&self) -> Option<bool> {
        match self {
            Self::Missing(_) => Some(false),
            Self::Unclear(_) | Self::Untried(_) => None,
        }
    }

    /// The words for the report: what was seen, or why the trial could not be made.
    pub fn detail(&self) -> String {
        match self {
            Self::Missing(seen) | Self::Unclear(seen) => seen.clone(),
            Self::Untried(why) => format!("could not be tried: {why}"),
        }
    }

    /// The detail without `could not be tried: `, for a sentence that already says that something does not work.
    fn why(self) -> String {
        match self {
            Self::Missing(words) | Self::Unclear(words) | Self::Untried(words) => words,
        }
    }
}

impl From<TrialCause> for TrialFailure {
    fn from(cause: TrialCause) -> Self {
        Self {
            cause,
            to_type: None,
        }
    }
}

impl TrialFailure {
    pub fn missing(detail: impl Into<String>) -> Self {
        TrialCause::Missing(detail.into()).into()
    }

    pub fn untried(why: impl Display) -> Self {
        TrialCause::Untried(why.to_string()).into()
    }
}

impl From<Errno> for TrialFailure {
    /// The system refused. A passing condition, such as a full disk, says nothing about the file system.
    fn from(errno: Errno) -> Self {
        use Errno::{EAGAIN, EDQUOT, EEXIST, EINTR, EMFILE, ENFILE, ENOMEM, ENOSPC};
        let detail = system_words(&errno.into());
        match errno {
            // EEXIST: a file of an earlier trial is still there. Trials that hope for EEXIST look for it themselves.
            EEXIST | EMFILE | ENFILE | ENOMEM | ENOSPC | EDQUOT | EAGAIN | EINTR => {
                Self::untried(detail)
            }
            _ => Self::missing(detail),
        }
    }
}

impl From<io::Error> for TrialFailure {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Errno::from_raw(errno).into(),
            None => Self::untried(error),
        }
    }
}

/// The outcome of a trial that saw `detail`: success where `is_there`, else missing.
pub fn seen(is_there: bool, detail: String) -> TrialOutcome {
    if is_there {
        Ok(detail)
    } else {
        Err(TrialFailure::missing(detail))
    }
}

/// Fails unless `is_so`: the tried feature is missing, and `otherwise` says what was seen.
pub fn ensure(is_so: bool, otherwise: &str) -> Result<(), TrialFailure> {
    if is_so {
        Ok(())
    } else {
        Err(TrialFailure::missing(otherwise))
    }
}

/// The words for a time that is expected to be short: `at once`, `after 40 ms`.
pub fn after(took: Duration) -> String {
    if took < Duration::from_millis(5) {
        "at once".to_owned()
    } else {
        format!("after {}", shown(took))
    }
}

/// The name of a value in JSON and on the pipe: `flock_wakes`. Each value has a name: none is hidden.
pub fn word(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

/// The result of a trial, with the fields that it has in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialResult {
    /// The name of the trial in JSON: `flock_wakes`.
    name: String,
    /// Whether the tried feature is there; `None`: unknown.
    pub ok: Option<bool>,
    /// The words for what was seen, or why the trial could not be made.
    pub detail: String,
    /// The detail without `could not be tried: `, for a sentence that already says that something does not work.
    #[serde(skip)]
    why: String,
    /// The consequence for locks.
    pub means: &'static str,
    /// A command to type where the feature is missing; `None`: there is none to advise.
    #[serde(rename = "next")]
    pub to_type: Option<String>,
}

impl TrialResult {
    pub fn of(trial: &Trial, outcome: TrialOutcome) -> Self {
        let (ok, detail, why, to_type) = match outcome {
            Ok(detail) => (Some(true), detail.clone(), detail, None),
            Err(TrialFailure { cause, to_type }) => {
                (cause.ok(), cause.detail(), cause.why(), to_type)
            }
        };
        let means = match ok {
            Some(true) => trial.there,
            Some(false) => trial.missing,
            None => trial.unknown,
        };
        Self {
            name: word(trial.key),
            ok,
            detail,
            why,
            means,
            to_type,
        }
    }

    /// The trial's name for people: `flock wakes`.
    pub fn words(&self) -> String {
        self.name.replace('_', " ")
    }

    /// The trial's name and its detail: `flock wakes: permission denied`.
    pub fn says(&self) -> String {
        format!("{}: {}", self.words(), self.detail)
    }

    /// The detail without `could not be tried: `, for a sentence that already says that something does not work.
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// The results of all trials of one directory, in the order of the table.
#[derive(Debug, Clone, Serialize)]
pub struct TrialResults(pub Vec<TrialResult>);

impl Index<TrialKey> for TrialResults {
    type Output = TrialResult;

    fn index(&self, key: TrialKey) -> &TrialResult {
        &self.0[key as usize]
    }
}

impl TrialResults {
    /// Whether the trial `key` has shown that its feature is there.
    pub fn has(&self, key: TrialKey) -> bool {
        self[key].ok == Some(true)
    }

    /// Whether the trial `key` has shown that its feature is missing.
    pub fn misses(&self, key: TrialKey) -> bool {
        self[key].ok == Some(false)
    }

    /// The first of these trials that has not shown its feature to be there; `None`: all have.
    pub fn first_without(&self, keys: &[TrialKey]) -> Option<&TrialResult> {
        keys.iter()
            .copied()
            .find(|key| !self.has(*key))
            .map(|key| &self[key])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_unknown_and_not_missing() {
        let refused = TrialFailure::from(Errno::EPERM);
        assert_eq!(
            refused.cause,
            TrialCause::Missing("operation not permitted".to_owned())
        );
        let passing = TrialFailure::from(Errno::EMFILE);
        let cause = passing.cause.clone();
        assert_eq!(
            (cause.ok(), cause.detail().as_str()),
            (None, "could not be tried: too many open files (ulimit -n)")
        );
        let trial = &super::super::table::TRIALS[0];
        let result = TrialResult::of(trial, Err(passing));
        assert_eq!(result.why(), "too many open files (ulimit -n)");
        assert_eq!(result.detail, cause.detail());
        let unclear = TrialCause::Unclear("x".to_owned());
        assert_eq!((unclear.ok(), unclear.detail().as_str()), (None, "x"));
        let ended = io::Error::new(io::ErrorKind::UnexpectedEof, "it ended");
        assert_eq!(TrialFailure::from(ended).cause.ok(), None);
    }
}
