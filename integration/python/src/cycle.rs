//! One run of a daemon's work on one database.

use std::path::PathBuf;

use beadlock_checker::Entered;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::asker::{self, Given};
use crate::decision::Decision;
use crate::raised;
use crate::stack::Stack;

/// The native half of beadlock.Cycle.
#[pyclass(subclass, frozen, module = "beadlock._beadlock")]
pub struct Cycle {
    path: PathBuf,
    entered: Stack<beadlock_checker::Cycle>,
}

#[pymethods]
impl Cycle {
    #[new]
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            entered: Stack::new(),
        }
    }

    /// Begins the cycle, or raises Skipped.
    fn enter(&self, py: Python<'_>) -> PyResult<()> {
        self.enter_as(py, None)
    }

    /// Begins the cycle for this asker.
    #[pyo3(name = "_enter_as")]
    fn enter_as(&self, py: Python<'_>, asker: Option<Given>) -> PyResult<()> {
        let asker = asker::of(py, asker)?;
        match py.detach(|| asker.run(|| beadlock_checker::Cycle::enter(&self.path))) {
            Entered::Cycle(cycle) => {
                self.entered.push(py, asker, cycle);
                Ok(())
            }
            Entered::Skipped(decision) => Err(raised::skipped(
                py,
                Bound::new(py, Decision::of(py, &decision))?.into_any(),
            )),
        }
    }

    /// Ends the cycle: lets the gate go.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        match self.entered.pop(py, asker::of(py, None)?, false) {
            Some(_) => Ok(()),
            None => Err(PyRuntimeError::new_err("this cycle was not entered")),
        }
    }

    /// Why the cycle may run; its str() is a line for the log when a stale lock was removed. None when it does not run.
    #[getter]
    fn decision(&self, py: Python<'_>) -> Option<Decision> {
        let decision = self.entered.last(py, |cycle| cycle.decision().clone());
        decision.map(|decision| Decision::of(py, &decision))
    }

    /// Why there is no gate, where there can be none: claims do not wait for this cycle then. To be said once.
    #[getter]
    fn no_gate(&self, py: Python<'_>) -> Option<String> {
        self.entered
            .last(py, |cycle| cycle.no_gate().map(ToString::to_string))
            .flatten()
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().enter(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.leave(py)
    }
}
