//! A wait without the GIL. Every 50 ms Python runs the handlers of signals that have come: Ctrl-C ends it.

use std::time::Duration;

use beadlock::{Error, Wait};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::raised;

/// The result of `acquire`, with `is_over` asked during the wait whether that is over. `None`: it said so.
///
/// # Errors
/// What a handler has raised, such as `KeyboardInterrupt`, with nothing acquired; else the library's error.
pub fn acquire<G: Send>(
    py: Python<'_>,
    is_over: Option<&Py<PyAny>>,
    acquire: impl FnOnce(&mut (dyn FnMut() -> bool + Send)) -> Result<Option<G>, Error> + Send,
) -> PyResult<Option<G>> {
    let mut raised = None;
    let acquired = py.detach(|| {
        acquire(&mut || {
            Python::attach(|py| asked(py, is_over)).unwrap_or_else(|error| {
                raised = Some(error);
                true
            })
        })
    });
    match raised {
        Some(error) => Err(error),
        None => acquired.map_err(|error| raised::of(py, &error)),
    }
}

fn asked(py: Python<'_>, is_over: Option<&Py<PyAny>>) -> PyResult<bool> {
    py.check_signals()?;
    is_over.map_or(Ok(false), |is_over| is_over.bind(py).call0()?.extract())
}

/// The wait of this many seconds: none for 0, one without an end for None, infinity and, as in filelock, -1.
pub fn wait(seconds: Option<f64>) -> PyResult<Wait> {
    Ok(match seconds {
        None | Some(-1.0) => Wait::FOREVER,
        Some(0.0) => Wait::No,
        Some(seconds) => Wait::UpTo(duration("wait", seconds)?),
    })
}

/// The wait of one call; `None`: the lock's own. One without an end is said as -1 or infinity.
pub fn of_call(seconds: Option<f64>) -> PyResult<Option<Wait>> {
    seconds.map(|seconds| wait(Some(seconds))).transpose()
}

/// A duration of this many seconds; `what` names it in the error.
pub fn duration(what: &str, seconds: f64) -> PyResult<Duration> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{what} is a number of seconds, 0 or more: {seconds}"
        )));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
