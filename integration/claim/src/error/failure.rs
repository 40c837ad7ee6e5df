//! What went wrong, as the contract has it: a code of a closed list, words, and whether to try again
//! (docs/design.md#json).

use std::path::{Path, PathBuf};
use std::{fmt, io, process::ExitCode, time::Duration};

use beadlock_base::{error::system_words, escape::escaped_path};
use beadlock_core::record::{Record, StartedAt};
use beadlock_core::{gate::Gate, gate_holders::GateHolder};
use serde_json::Value;

use super::Exit;
use crate::words;
use beadlock_files::{self as files, SchemaError};

beadlock_base::words! {
    /// The error codes that scripts rely on.
    #[non_exhaustive]
    pub enum Code {
        /// Somebody holds the lock, and the wait ran out.
        LockHeld = "LOCK_HELD",
        /// The lock file cannot be understood.
        LockUnreadable = "LOCK_UNREADABLE",
        /// A lock that was held is gone, or somebody else's.
        LockLost = "LOCK_LOST",
        /// A stale lock could not be removed.
        LockStale = "LOCK_STALE",
        /// A running cycle kept the gate for longer than the drain.
        DrainTimeout = "DRAIN_TIMEOUT",
        /// The lock of a file was not obtained.
        LockFailed = "E_LOCK_FAILED",
        /// No such database, or nothing to be found.
        NoTarget = "NO_TARGET",
        /// The command line, or a value in the environment, is wrong.
        Usage = "USAGE",
        /// The system refused.
        Io = "IO",
        /// The system refused for lack of permission.
        NotPermitted = "NOT_PERMITTED",
        /// The fleet that the database has joined does not answer.
        FleetUnreachable = "FLEET_UNREACHABLE",
    }
}

/// Why there is no claim, or no answer. `Display` is the whole message: what, which file, its holder, since when, and
/// what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code of the closed list.
    pub(crate) code: Code,
    /// The exit code: [`Exit::of`] unless another was set.
    pub(crate) exit: Exit,
    /// The words for people, which `Display` writes.
    pub(crate) message: String,
    /// `error.detail` of the JSON contract; `None`: null.
    pub(crate) detail: Option<String>,
    /// The pause after which the same call may succeed; `None`: it is not retryable.
    pub(crate) retry_after: Option<Duration>,
    /// The answer that the protocol's document asks for, where it has one.
    pub(crate) lock: Option<Box<Value>>,
    /// The number of the system's error; `None`: it is not known, or there was none.
    pub(crate) errno: Option<i32>,
    /// The holder that was in the way; `None`: there was none, or it is not known.
    pub(crate) holder: Option<Box<Holder>>,
}

impl Error {
    pub(crate) fn answering(self, lock: Option<Value>) -> Self {
        Self {
            lock: lock.map(Box::new),
            ..self
        }
    }

    /// The code of the closed list.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The exit code that goes with it, for a tool's `main`: 4 for [`Code::LockHeld`] and [`Code::DrainTimeout`], 2 for
    /// [`Code::Usage`], 5 for a lock file that could not be dealt with, 9 for [`Code::LockLost`], else 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit.code())
    }

    /// True when the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.retry_after.is_some()
    }

    /// When to try again, where the same call may succeed later.
    pub fn retry_in(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The holder that was in the way, where there was one.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_deref()
    }

    /// `error.detail` of the JSON contract: `lock_file=… holder_pid=… holder_age_ms=…`, and ` about=…` of a holder that
    /// says what it is at.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

/// How beadlock's own crates make an [`Error`], and what they alone ask of one. Users of the library `beadlock` do not see
/// it.
#[doc(hidden)]
pub trait Problem: Sized {
    /// An error of this code with the exit code that goes with it, and a message alone.
    fn new(code: Code, message: impl Into<String>) -> Self;

    /// An error of [`Code::Usage`].
    fn usage(message: impl Into<String>) -> Self;

    /// An error of the system: [`Code::NotPermitted`] where `kind` is `PermissionDenied`, else [`Code::Io`].
    fn io(message: impl Into<String>, kind: io::ErrorKind) -> Self;

    /// `failed to DOING: what the system said`.
    fn failed(doing: impl fmt::Display, error: &io::Error) -> Self;

    /// Replaces the code, and the exit code by the one that goes with it.
    fn of_code(self, code: Code) -> Self;

    /// Replaces the exit code alone.
    fn ending(self, exit: Exit) -> Self;

    /// Sets `error.detail` of the JSON contract.
    fn detailed(self, detail: impl Into<String>) -> Self;

    /// Sets the pause after which the same call may succeed.
    fn retry_after(self, pause: Duration) -> Self;

    /// Says when to try again for a lock of this age; `None`: its age is not known.
    fn retry_on_a_lock_of(self, age: Option<Duration>) -> Self;

    /// Sets the holder that was in the way.
    fn held_by(self, holder: Holder) -> Self;

    /// The system's error, where it is known.
    fn system(&self) -> io::Error;

    /// The exit code.
    fn exit(&self) -> Exit;

    /// The answer that the protocol's document asks for, where it has one.
    fn answer(&self) -> Option<&Value>;

    /// Replaces the words for people.
    fn saying(self, message: impl Into<String>) -> Self;
}

impl Problem for Error {
    fn new(code: Code, message: impl Into<String>) -> Self {
        let (detail, retry_after, lock, errno, holder) = (None, None, None, None, None);
        Self {
            code,
            exit: Exit::of(code),
            message: message.into(),
            detail,
            retry_after,
            lock,
            errno,
            holder,
        }
    }

    fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    fn io(message: impl Into<String>, kind: io::ErrorKind) -> Self {
        let refused = matches!(kind, io::ErrorKind::PermissionDenied);
        Self::new(
            if refused {
                Code::NotPermitted
            } else {
                Code::Io
            },
            message,
        )
    }

    fn failed(doing: impl fmt::Display, error: &io::Error) -> Self {
        Self::io(
            format!("failed to {doing}: {}", system_words(error)),
            error.kind(),
        )
    }

    fn of_code(self, code: Code) -> Self {
        Self {
            code,
            exit: Exit::of(code),
            ..self
        }
    }

    fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    fn detailed(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    fn retry_after(self, pause: Duration) -> Self {
        Self {
            retry_after: Some(pause),
            ..self
        }
    }

    fn retry_on_a_lock_of(self, age: Option<Duration>) -> Self {
        let mut random = [0; 8];
        // Without randomness all processes get the same pause.
        let _ = getrandom::fill(&mut random);
        self.retry_after(retry_after(age, u64::from_ne_bytes(random)))
    }

    fn held_by(self, holder: Holder) -> Self {
        Self {
            holder: Some(Box::new(holder)),
            ..self
        }
    }

    fn system(&self) -> io::Error {
        self.errno.map_or_else(
            || io::Error::other(self.message.clone()),
            io::Error::from_raw_os_error,
        )
    }

    fn exit(&self) -> Exit {
        self.exit
    }

    fn answer(&self) -> Option<&Value> {
        self.lock.as_deref()
    }

    fn saying(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<beadlock_base::error::Error> for Error {
    fn from(error: beadlock_base::error::Error) -> Self {
        Self {
            errno: error.raw_os_error(),
            ..Self::io(error.to_string(), error.kind())
        }
    }
}

#[doc(hidden)]
impl From<files::Error> for Error {
    /// An error with the code of the contract. A lost lock has an error of its own already.
    fn from(error: files::Error) -> Self {
        let lost = match error {
            files::Error::Lost(why) => why.downcast::<Self>(),
            files::Error::Schema(SchemaError::NotOne { .. } | SchemaError::NotBuilt) => {
                return Self::usage(error.to_string());
            }
            error => {
                let failed = Self::io(error.to_string(), error.kind());
                return if error.is_invalid_content() {
                    failed.detailed("invalid_content")
                } else {
                    failed
                };
            }
        };
        lost.map_or_else(
            |why| Self::new(Code::LockLost, why.to_string()),
            |error| *error,
        )
    }
}

/// The holder that was in the way of a claim, as far as it is known. The fields of a lock file are untrusted, and not
/// escaped here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The lock file; of a gate the directory.
    pub path: PathBuf,
    /// The name in the lock file. A gate and the lock of a file have none.
    pub name: Option<String>,
    /// The process, as the lock file has it, or `/proc` where there is nothing to read.
    pub pid: Option<i64>,
    /// The host in the lock file.
    pub hostname: Option<String>,
    /// Since when, by the lock file.
    pub since: Option<StartedAt>,
    /// How long ago that was, to the millisecond where that is known, else in whole seconds; `None` for a time in the
    /// future.
    pub age: Option<Duration>,
    /// The address of what the lock is held for, by the lock file: http or https, printable and without spaces.
    pub about: Option<String>,
}

impl Holder {
    /// The first of those who have an flock on `path`.
    pub(crate) fn of_flock(path: &Path, holders: &[GateHolder]) -> Self {
        let pid = holders.first().map(|holder| i64::from(holder.pid));
        Self {
            path: path.to_owned(),
            name: None,
            pid,
            hostname: None,
            since: None,
            age: None,
            about: None,
        }
    }

    pub(crate) fn of_gate(dir: &Path) -> Self {
        Self::of_flock(dir, &Gate::holders(dir))
    }
}

/// The holder in the record of the lock file at `path`; `age`: how old the lock is, where that is known.
pub fn holder_of_record(path: &Path, record: &Record, age: Option<Duration>) -> Holder {
    Holder {
        path: path.to_owned(),
        name: Some(record.holder().to_owned()),
        pid: Some(record.pid()),
        hostname: Some(record.hostname().to_owned()),
        since: record.started_at(),
        age,
        about: words::about(record),
    }
}

/// `lock_file=… holder_pid=… holder_age_ms=…`, and where it is known what the lock is held for, `about=…`.
pub fn detail_of(holder: &Holder) -> String {
    let (path, pid, age) = (
        escaped_path(&holder.path),
        holder.pid.unwrap_or_default(),
        holder.age.unwrap_or_default(),
    );
    let about = holder
        .about
        .as_ref()
        .map(|address| format!(" about={address}"))
        .unwrap_or_default();
    format!(
        "lock_file={path} holder_pid={pid} holder_age_ms={}{about}",
        age.as_millis()
    )
}

const LEAST_MS: u64 = 1000;
const MOST_MS: u64 = 30_000;
/// Where the holder's age is not known.
const UNKNOWN_MS: u64 = 3000;

/// When to come back to a lock that was refused: the `retry_after_ms` of every `LOCK_HELD` (REQ-F-033). A lock that has
/// been held for long is likely to be held for longer. Each process gets a slightly different pause, so that they do
/// not come back together.
///
/// A quarter of the holder's age, at least 1 and at most 30 seconds, 3 seconds when it is unknown; give or take up to a
/// fifth of that, by `random`, without leaving the bounds. Every value in reach is as likely as the others.
fn retry_after(age: Option<Duration>, random: u64) -> Duration {
    let base = age.map_or(UNKNOWN_MS, |age| {
        (words::millis(age) / 4).clamp(LEAST_MS, MOST_MS)
    });
    let least = (base - base / 5).max(LEAST_MS);
    let most = (base + base / 5).min(MOST_MS);
    let room = u128::from(most - least + 1);
    Duration::from_millis(least + ((room * u128::from(random)) >> 64) as u64)
}

#[cfg(test)]
mod tests;
