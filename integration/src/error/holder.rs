//! Who was in the way of a claim, for programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_checker::internal::{Gate, GateHolder, dialect::Record, dialect::StartedAt};

use crate::words;

/// Who holds what could not be had, as far as that is known. What a lock file says is untrusted: it is not escaped
/// here.
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
    /// How long ago that was; `None` for a time in the future.
    pub age: Option<Duration>,
}

impl Holder {
    /// As the record in the lock file has it.
    pub(crate) fn of_record(path: &Path, record: &Record) -> Self {
        Self {
            path: path.to_owned(),
            name: Some(record.holder().to_owned()),
            pid: Some(record.pid()),
            hostname: Some(record.hostname().to_owned()),
            since: record.started_at(),
            age: words::known_age(record),
        }
    }

    /// The first of those who have an flock on `path`.
    pub(crate) fn of_flock(path: &Path, holders: &[GateHolder]) -> Self {
        let pid = holders.first().map(|holder| i64::from(holder.pid));
        Self { path: path.to_owned(), name: None, pid, hostname: None, since: None, age: None }
    }

    /// Who has the gate of `dir`.
    pub(crate) fn of_gate(dir: &Path) -> Self {
        Self::of_flock(dir, &Gate::holders(dir))
    }
}
