//! Why a body failed, for the envelope and the exit code.

use beadlock_claim::error::Problem;
use std::{any::Any, error::Error as StdError, fmt, iter::successors, time::Duration};

use beadlock_claim::{
    envelope::{Envelope, Request},
    error::Error,
};

/// Why a command failed: what its envelope and its exit code say. `?` makes one of any error: [`Failure::CODE`], exit
/// code 1, the words of the error and of its sources. Of beadlock's own [`Error`] it takes everything. An error that is
/// not a [`std::error::Error`], such as `anyhow`'s, is given as words: `Failure::new(format!("{error:#}"))`.
///
/// ```
/// use beadlock::framework::Failure;
///
/// fn quota(used: u32) -> Result<u32, Failure> {
///     match used {
///         0..20 => Ok(used),
///         _ => {
///             let failure = Failure::new("no room for another release").code("QUOTA").exit(7);
///             Err(failure.detail(format!("releases={used}")))
///         }
///     }
/// }
/// assert_eq!(quota(20).unwrap_err().to_string(), "no room for another release");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: String,
    message: String,
    exit: u8,
    is_retryable: bool,
    retry_after: Option<Duration>,
    detail: Option<String>,
    lock: Option<Box<serde_json::Value>>,
}

impl Failure {
    /// The code of a failure that has none of its own.
    pub const CODE: &str = "COMMAND_FAILED";

    /// A failure in these words: [`Failure::CODE`], exit code 1, not to be tried again.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: Self::CODE.to_owned(),
            message: message.into(),
            exit: 1,
            is_retryable: false,
            retry_after: None,
            detail: None,
            lock: None,
        }
    }

    /// `error.code`, by custom in capitals: `QUOTA`.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// The exit code. 0 would be a success and counts as 1.
    pub fn exit(mut self, code: u8) -> Self {
        self.exit = code.max(1);
        self
    }

    /// `error.retryable`: the same command may succeed later, nobody can say when.
    pub fn retryable(mut self) -> Self {
        self.is_retryable = true;
        self
    }

    /// `error.retry_after_ms`, and so retryable.
    pub fn retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// `error.detail`: what happened, for programs and bug reports.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(super) fn exit_code(&self) -> u8 {
        self.exit
    }

    pub(super) fn envelope(&self, request: &Request) -> Envelope {
        let mut envelope = Envelope::failed(request, &self.code, &self.message);
        if self.is_retryable {
            envelope = envelope.retryable();
        }
        if let Some(pause) = self.retry_after {
            envelope = envelope.retry_after(pause);
        }
        if let Some(detail) = &self.detail {
            envelope = envelope.detail(detail);
        }
        match &self.lock {
            Some(lock) => envelope.with_in_error("lock", serde_json::Value::clone(lock)),
            None => envelope,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        if let Some(error) = (&error as &dyn Any).downcast_ref::<Error>() {
            return Self {
                code: error.code().as_str().to_owned(),
                message: error.to_string(),
                exit: error.exit().code().max(1),
                is_retryable: error.is_retryable(),
                retry_after: error.retry_in(),
                detail: error.detail().map(str::to_owned),
                lock: error.answer().cloned().map(Box::new),
            };
        }
        let mut message = error.to_string();
        for cause in successors(error.source(), |&cause| cause.source()) {
            let words = cause.to_string();
            // Many say the words of their source themselves.
            if !message.contains(&words) {
                message = format!("{message}: {words}");
            }
        }
        Self::new(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_claim::error::Code;
    use serde_json::{Value, json};

    #[derive(Debug)]
    struct Chained(&'static str, Option<Box<Chained>>);

    impl fmt::Display for Chained {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Chained {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1
                .as_deref()
                .map(|cause| cause as &(dyn StdError + 'static))
        }
    }

    #[test]
    fn any_error_is_one_with_its_sources_said_once() {
        let cause = Chained("no route to host", None);
        let failure = Failure::from(Chained("cannot fetch", Some(Box::new(cause.clone_of()))));
        assert_eq!(failure, Failure::new("cannot fetch: no route to host"));
        let outer = Chained("cannot fetch: no route to host", Some(Box::new(cause)));
        assert_eq!(Failure::from(outer), failure);
    }

    impl Chained {
        fn clone_of(&self) -> Self {
            Self(self.0, None)
        }
    }

    #[test]
    fn beadlocks_own_error_keeps_its_code_and_exit_code() {
        let error = Error::new(Code::LockLost, "lost")
            .detailed("lock_file=x")
            .retry_after(Duration::from_secs(2));
        let failure = Failure::from(error);
        assert_eq!(failure.exit_code(), 9);
        let value: Value =
            serde_json::from_str(&failure.envelope(&Request::begin()).to_string()).unwrap();
        assert_eq!(
            value["error"],
            json!({"code": "LOCK_LOST", "message": "lost", "retryable": true, "retry_after_ms": 2000, "detail": "lock_file=x"})
        );
    }

    #[test]
    fn a_failure_never_ends_with_0() {
        assert_eq!(Failure::new("x").exit(0).exit_code(), 1);
        assert_eq!(Failure::new("x").exit(7).exit_code(), 7);
    }
}
