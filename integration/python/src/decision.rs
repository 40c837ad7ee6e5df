//! The check at the start of a cycle, and what it answers.

use std::path::PathBuf;

use beadlock_checker::dialect::Record;
use pyo3::prelude::*;
use pyo3::types::PyDateTime;

use crate::raised;

/// What a daemon does about a database now. True when it must leave it alone; `str()` is the line for its log, empty where there
/// is none.
#[pyclass(frozen, module = "beadlock")]
pub struct Decision(pub beadlock_checker::Decision);

#[pymethods]
impl Decision {
    /// The database must be left alone.
    #[getter]
    fn skip(&self) -> bool {
        self.0.is_skip()
    }

    /// Why, in a word of a closed list: `no_lock`, `pid_alive`, `malformed` …
    #[getter]
    fn reason(&self) -> &'static str {
        self.0.reason().as_str()
    }

    /// `free`, `held`, `stale` or `unreadable`.
    #[getter]
    fn verdict(&self) -> &'static str {
        self.0.verdict().as_str()
    }

    /// A stale lock was removed.
    #[getter]
    fn removed(&self) -> bool {
        self.0.removed().is_some()
    }

    /// Who the lock file says holds it; None where none could be read. Untrusted.
    #[getter]
    fn holder(&self) -> Option<&str> {
        self.0.record().map(Record::holder)
    }

    /// The process that the lock file names.
    #[getter]
    fn pid(&self) -> Option<i64> {
        self.0.record().map(Record::pid)
    }

    /// The host that the lock file names. Untrusted.
    #[getter]
    fn host(&self) -> Option<&str> {
        self.0.record().map(Record::hostname)
    }

    /// Since when, by the lock file.
    #[getter]
    fn since<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyDateTime>> {
        self.0.record().and_then(Record::started_at).and_then(|since| raised::datetime(py, since))
    }

    fn __bool__(&self) -> bool {
        self.skip()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        let what = if self.skip() { "skip" } else { "proceed" };
        format!("<Decision: {what} ({})>", self.reason())
    }
}

/// Whether a daemon must leave the database in this directory alone now. Removes a stale lock, as the protocol says. The answer
/// is of this moment: Cycle holds it for a whole cycle.
#[pyfunction]
pub fn should_skip_database(py: Python<'_>, path: PathBuf) -> Decision {
    Decision(py.detach(|| beadlock_checker::should_skip_database(path)))
}
