//! A lock that this process holds, of the rule that its record's process decides.

use std::path::PathBuf;

use beadlock::{Claim, Error, Hold};
use pyo3::exceptions::{PyRuntimeError, PyRuntimeWarning};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::asker::{self, Given};
use crate::raised;
use crate::stack::{Popped, Stack};
use crate::waiting;

/// The native half of beadlock.Lock.
#[pyclass(subclass, frozen, module = "beadlock._beadlock")]
pub struct Lock {
    hold: Hold,
    claims: Stack<Claim>,
}

#[pymethods]
impl Lock {
    #[new]
    fn new(
        target: Option<PathBuf>,
        holder: &str,
        wait: Option<f64>,
        drain: Option<f64>,
        version: Option<String>,
        about: Option<String>,
        durable: bool,
    ) -> PyResult<Self> {
        let mut hold = target
            .map_or_else(Hold::found, Hold::target)
            .holder(holder)
            .wait(waiting::wait(wait)?);
        if let Some(seconds) = drain {
            hold = hold.drain(waiting::duration("drain", seconds)?);
        }
        if let Some(version) = version {
            hold = hold.version(version);
        }
        if let Some(about) = about {
            hold = hold.about(about);
        }
        if !durable {
            hold = hold.without_sync();
        }
        Ok(Self {
            hold,
            claims: Stack::new(),
        })
    }

    /// Claims, waiting for the holder.
    fn acquire(&self, py: Python<'_>) -> PyResult<()> {
        self.acquire_unless(py, None, None).map(|_| ())
    }

    /// Claims as acquire does, and asks `is_over` every 50 ms of a wait. False: it said so, and nothing is claimed.
    #[pyo3(name = "_acquire_unless")]
    fn acquire_unless(
        &self,
        py: Python<'_>,
        is_over: Option<Py<PyAny>>,
        asker: Option<Given>,
    ) -> PyResult<bool> {
        let asker = asker::of(py, asker)?;
        let hold = self.hold.clone();
        let claim = waiting::acquire(py, is_over.as_ref(), |is_over| {
            asker.run(|| hold.claim_unless(is_over))
        })?;
        Ok(claim
            .map(|claim| self.claims.push(py, asker, claim))
            .is_some())
    }

    /// Ends the claim.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.release_as(py, None)
    }

    /// Ends the one of this asker, where there is one.
    #[pyo3(name = "_release_as")]
    fn release_as(&self, py: Python<'_>, asker: Option<Given>) -> PyResult<()> {
        self.end(py, asker)?
            .map_or(Ok(()), |lost| Err(raised::of(py, &lost)))
    }

    /// Raises LockLost when the lock is no longer there, or no longer ours.
    fn still_held(&self, py: Python<'_>) -> PyResult<()> {
        match self.claims.last(py, Claim::still_held) {
            Some(held) => held.map_err(|lost| raised::of(py, &lost)),
            None => Err(not_held()),
        }
    }

    /// True when this process holds the lock, as far as this object knows.
    #[getter]
    fn held(&self, py: Python<'_>) -> bool {
        self.claims.last(py, |_| ()).is_some()
    }

    /// The id of this one claim, as the lock file has it; None when not held.
    #[getter]
    fn id(&self, py: Python<'_>) -> Option<String> {
        self.claims.last(py, |claim| claim.id().to_owned())
    }

    /// The lock file; None when not held.
    #[getter]
    fn path(&self, py: Python<'_>) -> Option<PathBuf> {
        self.claims.last(py, Claim::path)
    }

    fn __enter__<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, Self>> {
        slf.get().acquire(slf.py())?;
        Ok(slf)
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        exit(py, raised, self.end(py, None))
    }

    /// The end of an `async with` block of this asker.
    #[pyo3(name = "_exit_as", signature = (asker, *raised))]
    fn exit_as(&self, py: Python<'_>, asker: Given, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        exit(py, raised, self.end(py, Some(asker)))
    }
}

impl Lock {
    /// Ends the claim; returns how it had been lost, where it had.
    fn end(&self, py: Python<'_>, asker: Option<Given>) -> PyResult<Option<Error>> {
        let asker = asker::of(py, asker)?;
        let claim = match self.claims.pop(py, asker) {
            Some(Popped::Ours(claim)) => claim,
            Some(Popped::OfAnother) => return Ok(None),
            None => return Err(not_held()),
        };
        let ended = py.detach(|| {
            let lost = claim.still_held().err();
            claim.release().map(|()| lost)
        });
        ended.map_err(|not_released| {
            let error = raised::of(py, not_released.error());
            self.claims.push(py, asker, not_released.into_claim());
            error
        })
    }
}

pub fn not_held() -> PyErr {
    PyRuntimeError::new_err("this lock is not held")
}

/// The end of a `with` block. What the block has raised goes first: a loss is a warning then.
pub fn exit(
    py: Python<'_>,
    raised: &Bound<'_, PyTuple>,
    ended: PyResult<Option<Error>>,
) -> PyResult<()> {
    let wrong = match ended {
        Ok(None) => return Ok(()),
        Ok(Some(lost)) => raised::of(py, &lost),
        Err(error) => error,
    };
    if raised.iter().all(|nothing| nothing.is_none()) {
        return Err(wrong);
    }
    let words = std::ffi::CString::new(wrong.value(py).to_string().replace('\0', "\\0"))?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &words, 1)
}
