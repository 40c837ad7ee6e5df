//! An error of the library as an exception of `beadlock.errors`, with everything that it says.

use beadlock::Error;
use beadlock_checker::StartedAt;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyDict, PyTzInfo};

/// The exception for this error; should Python refuse to make it, that refusal.
pub fn of(py: Python<'_>, error: &Error) -> PyErr {
    made(py, error).map_or_else(|refusal| refusal, PyErr::from_value)
}

fn made<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("detail", error.detail())?;
    fields.set_item(
        "retry_after",
        error.retry_in().map(|pause| pause.as_secs_f64()),
    )?;
    let is_held = error.holder().is_some();
    if let Some(holder) = error.holder() {
        fields.set_item("path", &holder.path)?;
        fields.set_item("holder", &holder.name)?;
        fields.set_item("pid", holder.pid)?;
        fields.set_item("host", &holder.hostname)?;
        fields.set_item("since", holder.since.and_then(|since| datetime(py, since)))?;
        fields.set_item("age", holder.age.map(|age| age.as_secs_f64()))?;
    }
    let errors = py.import("beadlock.errors")?;
    errors.getattr("_of")?.call(
        (error.code().as_str(), is_held, error.to_string()),
        Some(&fields),
    )
}

/// The time as a Python datetime, in UTC; `None` for a year that Python does not have.
pub fn datetime(py: Python<'_>, at: StartedAt) -> Option<Bound<'_, PyDateTime>> {
    let utc = PyTzInfo::utc(py).ok()?;
    PyDateTime::from_timestamp(py, at.0.as_secs_f64(), Some(&utc)).ok()
}

/// The exception of a cycle that must not run.
pub fn skipped(py: Python<'_>, decision: Bound<'_, PyAny>) -> PyErr {
    let made = || {
        py.import("beadlock.errors")?
            .getattr("Skipped")?
            .call1((decision,))
    };
    made().map_or_else(|refusal| refusal, PyErr::from_value)
}
