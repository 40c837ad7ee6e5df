//! The check at the start of a cycle, and what it answers.

use std::borrow::Cow;
use std::path::PathBuf;

use beadlock_checker::Record;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyTuple};

use crate::raised;

/// Decision of a daemon about a database at this moment. True when the daemon must leave it alone; `str()` is the line
/// for its log, empty where there is none.
#[pyclass(frozen, get_all, module = "beadlock")]
pub struct Decision {
    /// The database must be left alone.
    skip: bool,
    /// Why, in a word of a closed list: `no_lock`, `pid_alive`, `malformed` …
    reason: Cow<'static, str>,
    /// `free`, `held`, `stale` or `unreadable`.
    verdict: Cow<'static, str>,
    /// A stale lock was removed.
    removed: bool,
    /// The holder that the lock file names; None where none could be read. Untrusted.
    holder: Option<String>,
    /// The process that the lock file names.
    pid: Option<i64>,
    /// The host that the lock file names. Untrusted.
    host: Option<String>,
    /// Since when, by the lock file.
    since: Option<Py<PyDateTime>>,
    /// The line for the log.
    message: String,
}

impl Decision {
    pub fn of(py: Python<'_>, decision: &beadlock_checker::Decision) -> Self {
        let record = decision.record();
        let since = record
            .and_then(Record::started_at)
            .and_then(|since| raised::datetime(py, since));
        Self {
            skip: decision.is_skip(),
            reason: decision.reason().as_str().into(),
            verdict: decision.verdict().as_str().into(),
            removed: decision.removed().is_some(),
            holder: record.map(|record| record.holder().to_owned()),
            pid: record.map(Record::pid),
            host: record.map(|record| record.hostname().to_owned()),
            since: since.map(Bound::unbind),
            message: decision.to_string(),
        }
    }
}

#[pymethods]
impl Decision {
    /// For `pickle`, and for the tests of a daemon.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "its fields")]
    fn new(
        skip: bool,
        reason: String,
        verdict: String,
        removed: bool,
        holder: Option<String>,
        pid: Option<i64>,
        host: Option<String>,
        since: Option<Py<PyDateTime>>,
        message: String,
    ) -> Self {
        let (reason, verdict) = (reason.into(), verdict.into());
        Self {
            skip,
            reason,
            verdict,
            removed,
            holder,
            pid,
            host,
            since,
            message,
        }
    }

    fn __getnewargs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let fields = [
            "skip", "reason", "verdict", "removed", "holder", "pid", "host", "since", "message",
        ];
        let values: PyResult<Vec<_>> = fields.iter().map(|field| slf.getattr(*field)).collect();
        PyTuple::new(slf.py(), values?)
    }
    fn __bool__(&self) -> bool {
        self.skip
    }

    fn __str__(&self) -> &str {
        &self.message
    }

    fn __repr__(&self) -> String {
        let what = if self.skip { "skip" } else { "proceed" };
        format!("<Decision: {what} ({})>", self.reason)
    }
}

/// Whether a daemon must leave the database in this directory alone now. Removes a stale lock, as the protocol says.
/// The answer is of this moment: Cycle holds it for a whole cycle.
#[pyfunction]
pub fn should_skip_database(py: Python<'_>, path: PathBuf) -> Decision {
    let decision = py.detach(|| beadlock_checker::should_skip_database(path));
    Decision::of(py, &decision)
}
