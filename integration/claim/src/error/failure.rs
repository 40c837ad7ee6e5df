//! What went wrong, as the contract has it: a code of a closed list, words, and whether to try again
//! (docs/design.md#json).

use std::path::{Path, PathBuf};
use std::{fmt, io, process::ExitCode, time::Duration};

use beadlock_base::{error::system_words, escape::escaped_path};
use beadlock_core::dialect::{Record, StartedAt};
use beadlock_core::{gate::Gate, gates::GateHolder};
use serde_json::Value;

use super::Exit;
use crate::words;
use beadlock_files::{self as files, SchemaError};

/// The error codes that scripts rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// Somebody holds the lock, and the wait ran out.
    LockHeld,
    /// The lock file cannot be understood.
    LockUnreadable,
    /// A lock that was held is gone, or somebody else's.
    LockLost,
    /// A stale lock could not be removed.
    LockStale,
    /// A running cycle kept the gate for longer than the drain.
    DrainTimeout,
    /// The lock of a file was not obtained.
    LockFailed,
    /// No such database, or nothing to be found.
    NoTarget,
    /// The command line, or a value in the environment, is wrong.
    Usage,
    /// The system refused.
    Io,
    /// The system refused for lack of permission.
    NotPermitted,
    /// The fleet that the database has joined does not answer.
    FleetUnreachable,
}

impl Code {
    /// The word of the contract, e.g. `LOCK_HELD`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LockHeld => "LOCK_HELD",
            Self::LockUnreadable => "LOCK_UNREADABLE",
            Self::LockLost => "LOCK_LOST",
            Self::LockStale => "LOCK_STALE",
            Self::DrainTimeout => "DRAIN_TIMEOUT",
            Self::LockFailed => "E_LOCK_FAILED",
            Self::NoTarget => "NO_TARGET",
            Self::Usage => "USAGE",
            Self::Io => "IO",
            Self::NotPermitted => "NOT_PERMITTED",
            Self::FleetUnreachable => "FLEET_UNREACHABLE",
        }
    }

    /// The exit code that goes with it.
    pub fn exit(self) -> Exit {
        match self {
            Self::LockHeld | Self::DrainTimeout => Exit::Conflict,
            Self::LockUnreadable | Self::LockStale | Self::FleetUnreachable => Exit::Unreadable,
            Self::LockLost => Exit::Lost,
            Self::LockFailed => Exit::LockFailed,
            Self::Usage => Exit::Usage,
            Self::NoTarget | Self::Io | Self::NotPermitted => Exit::Failed,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why there is no claim, or no answer. `Display` is the whole message: what, which file, its holder, since when, and
/// what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub exit: Exit,
    pub message: String,
    pub detail: Option<String>,
    pub retry_after: Option<Duration>,
    /// The answer that the protocol's document asks for, where it has one.
    pub lock: Option<Box<Value>>,
    pub errno: Option<i32>,
    pub holder: Option<Box<Holder>>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let (detail, retry_after, lock, errno, holder) = (None, None, None, None, None);
        Self {
            code,
            exit: code.exit(),
            message: message.into(),
            detail,
            retry_after,
            lock,
            errno,
            holder,
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    pub fn io(message: impl Into<String>, kind: io::ErrorKind) -> Self {
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

    /// `failed to DOING: what the system said`.
    pub fn failed(doing: impl fmt::Display, error: &io::Error) -> Self {
        Self::io(
            format!("failed to {doing}: {}", system_words(error)),
            error.kind(),
        )
    }

    pub fn of_code(self, code: Code) -> Self {
        Self {
            code,
            exit: code.exit(),
            ..self
        }
    }

    pub fn ending(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub fn detailed(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    pub fn retry_after(self, pause: Duration) -> Self {
        Self {
            retry_after: Some(pause),
            ..self
        }
    }

    /// Says when to try again for a lock of this age; `None`: its age is not known.
    pub fn retry_on_a_lock_of(self, age: Option<Duration>) -> Self {
        let mut random = [0; 8];
        // Without randomness all processes get the same pause.
        let _ = getrandom::fill(&mut random);
        self.retry_after(retry_after(age, u64::from_ne_bytes(random)))
    }

    pub fn answering(self, lock: Option<Value>) -> Self {
        Self {
            lock: lock.map(Box::new),
            ..self
        }
    }

    pub fn held_by(self, holder: Holder) -> Self {
        Self {
            holder: Some(Box::new(holder)),
            ..self
        }
    }

    /// The system's error, where it is known.
    pub fn system(&self) -> io::Error {
        self.errno.map_or_else(
            || io::Error::other(self.message.clone()),
            io::Error::from_raw_os_error,
        )
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

impl From<files::Error> for Error {
    /// With the code of the contract. A lost lock has an error of its own already.
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
    pub fn of_record(path: &Path, record: &Record, age: Option<Duration>) -> Self {
        Self {
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
    pub fn detail(&self) -> String {
        let (path, pid, age) = (
            escaped_path(&self.path),
            self.pid.unwrap_or_default(),
            self.age.unwrap_or_default(),
        );
        let about = self
            .about
            .as_ref()
            .map(|address| format!(" about={address}"))
            .unwrap_or_default();
        format!(
            "lock_file={path} holder_pid={pid} holder_age_ms={}{about}",
            age.as_millis()
        )
    }

    /// The first of those who have an flock on `path`.
    pub fn of_flock(path: &Path, holders: &[GateHolder]) -> Self {
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

    pub fn of_gate(dir: &Path) -> Self {
        Self::of_flock(dir, &Gate::holders(dir))
    }
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
