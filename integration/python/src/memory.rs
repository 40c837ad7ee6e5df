//! The lock of a directory, as the clawdbot document has it.

use std::path::PathBuf;

use beadlock::Code;
use beadlock::memory::{self, BreakLimit, Guard, Stale};
use pyo3::prelude::*;

use crate::asker;
use crate::raised;
use crate::stack::{Popped, Stack};
use crate::waiting;

/// The native half of beadlock.memory.MemoryLock.
#[pyclass(frozen, module = "beadlock._beadlock")]
pub struct MemoryLock {
    lock: memory::MemoryLock,
    guards: Stack<Guard>,
}

#[pymethods]
impl MemoryLock {
    #[new]
    fn new(dir: PathBuf, session: String) -> Self {
        Self {
            lock: memory::MemoryLock::in_dir(dir).session(session),
            guards: Stack::new(),
        }
    }

    /// Acquires the lock, or once more, and asks `is_over` every 50 ms of a wait. Returns what was logged of the stale
    /// locks in its place; None: somebody holds it and it was not to be waited for, or the wait is over.
    fn acquire(
        &self,
        py: Python<'_>,
        operation: &str,
        wait: f64,
        break_stale: bool,
        is_over: Option<Py<PyAny>>,
    ) -> PyResult<Option<Vec<String>>> {
        let stale = if break_stale {
            Stale::Break
        } else {
            Stale::Keep
        };
        let (lock, wait) = (self.lock.clone().stale(stale), waiting::wait(Some(wait))?);
        let asker = asker::of(py, None)?;
        let guard = waiting::acquire(py, is_over.as_ref(), |is_over| {
            match lock.acquire_unless(operation, wait, is_over) {
                Err(error) if wait == beadlock::Wait::No && error.code() == Code::LockHeld => {
                    Ok(None)
                }
                acquired => acquired,
            }
        })?;
        Ok(guard.map(|guard| {
            let broken = guard.broken().to_vec();
            self.guards.push(py, asker, guard);
            broken
        }))
    }

    /// Releases the last guard; returns how it had been lost, where it had. None too where there is none.
    fn release(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(Popped::Ours(guard)) = self.guards.pop(py, asker::of(py, None)?, false) else {
            return Ok(None);
        };
        match py.detach(|| guard.release()) {
            Ok(_) => Ok(None),
            Err(failed) if failed.is_lost() => Ok(Some(failed.to_string())),
            Err(failed) => Err(raised::of(py, failed.error())),
        }
    }

    /// How the last guard was lost, where it was. None too where there is none.
    fn lost(&self, py: Python<'_>) -> Option<String> {
        self.guards
            .last(py, |guard| {
                guard.still_held().err().map(|lost| lost.to_string())
            })
            .flatten()
    }

    /// Breaks the lock of any holder: its record in JSON, and the file in which it is kept. None: there is no lock.
    fn break_lock(
        &self,
        py: Python<'_>,
        even_if_live: bool,
    ) -> PyResult<Option<(String, PathBuf)>> {
        let limit = if even_if_live {
            BreakLimit::EvenIfLive
        } else {
            BreakLimit::Stale
        };
        let broken = py
            .detach(|| self.lock.break_lock(limit))
            .map_err(|error| raised::of(py, &error))?;
        Ok(broken.map(|broken| {
            (
                serde_json::to_string(&broken.record).unwrap_or_default(),
                broken.kept,
            )
        }))
    }

    /// The document's status object, in JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        match py.detach(|| self.lock.status()) {
            Ok(status) => Ok(serde_json::to_string(&status).unwrap_or_default()),
            Err(error) => Err(raised::of(py, &error)),
        }
    }
}
