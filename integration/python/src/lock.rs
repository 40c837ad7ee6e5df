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
    named: Option<PathBuf>,
    reentrant: bool,
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
        labels: (Option<String>, Option<String>),
        durable: bool,
        reentrant: bool,
    ) -> PyResult<Self> {
        let (named, (version, about)) = (target.clone(), labels);
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
            named,
            reentrant,
            claims: Stack::new(),
        })
    }

    /// Claims, waiting for the holder: for this many seconds, or as long as this lock waits. `is_over` is asked every
    /// 50 ms of a wait. False: it said so, and nothing is claimed.
    #[pyo3(name = "_acquire_unless")]
    fn acquire_unless(
        &self,
        py: Python<'_>,
        is_over: Option<Py<PyAny>>,
        asker: Option<Given>,
        wait: Option<f64>,
    ) -> PyResult<bool> {
        let asker = asker::of(py, asker)?;
        let wait = waiting::of_call(wait)?;
        if self.reentrant && self.claims.again(py, asker) {
            return Ok(true);
        }
        let mut hold = self.hold.clone();
        if let Some(wait) = wait {
            hold = hold.wait(wait);
        }
        let claim = waiting::acquire(py, is_over.as_ref(), |is_over| {
            asker.run(|| hold.claim_unless(is_over))
        })?;
        Ok(claim
            .map(|claim| self.claims.push(py, asker, claim))
            .is_some())
    }

    /// Ends the claim of this asker, where there is one: with the last release of several, or at once.
    #[pyo3(name = "_release_as")]
    fn release_as(&self, py: Python<'_>, asker: Option<Given>, at_once: bool) -> PyResult<()> {
        self.end(py, asker, at_once)?
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

    /// How often this thread or task has acquired it: 0 or 1, or more where it may.
    #[getter]
    fn lock_counter(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.claims.levels(py, asker::of(py, None)?))
    }

    /// For how many seconds this process has held it; None when not held.
    #[getter]
    fn age(&self, py: Python<'_>) -> Option<f64> {
        self.claims.age(py).map(|age| age.as_secs_f64())
    }

    /// What was named; None: what is found.
    #[getter]
    #[pyo3(name = "_named")]
    fn named(&self) -> Option<&PathBuf> {
        self.named.as_ref()
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
        slf.get().acquire_unless(slf.py(), None, None, None)?;
        Ok(slf)
    }

    #[pyo3(signature = (*raised))]
    fn __exit__(&self, py: Python<'_>, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        exit(py, raised, self.end(py, None, false))
    }

    /// The end of an `async with` block of this asker.
    #[pyo3(name = "_exit_as", signature = (asker, *raised))]
    fn exit_as(&self, py: Python<'_>, asker: Given, raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        exit(py, raised, self.end(py, Some(asker), false))
    }
}

impl Lock {
    /// Ends the claim; returns how it had been lost, where it had.
    fn end(&self, py: Python<'_>, asker: Option<Given>, at_once: bool) -> PyResult<Option<Error>> {
        let asker = asker::of(py, asker)?;
        let claim = match self.claims.pop(py, asker, at_once) {
            Some(Popped::Ours(claim)) => claim,
            Some(Popped::Kept | Popped::OfAnother) => return Ok(None),
            None => return Err(not_held()),
        };
        let Err(failed) = py.detach(|| claim.release()) else {
            return Ok(None);
        };
        let error = failed.error().clone();
        match failed.into_guard() {
            None => Ok(Some(error)),
            Some(claim) => {
                self.claims.push(py, asker, claim);
                Err(raised::of(py, &error))
            }
        }
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
