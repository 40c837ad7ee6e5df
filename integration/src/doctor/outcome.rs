//! How a trial ends.

use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use beadlock_checker::internal::system_words;
use nix::errno::Errno;

/// How the detail of a trial begins that could not be made.
pub const UNTRIED: &str = "could not be tried: ";

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
