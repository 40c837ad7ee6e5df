//! The lock of a file.

use std::path::PathBuf;

use beadlock::Error;
use beadlock::file::{self, Format, Locking, Rules, Schema};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::asker::{self, Given};
use crate::lock::{exit, not_held};
use crate::raised;
use crate::stack::{Popped, Stack};
use crate::waiting;

/// The native half of beadlock.FileLock.
#[pyclass(subclass, frozen, module = "beadlock._beadlock")]
pub struct FileLock {
    locking: Locking,
    locks: Stack<file::FileLock>,
}

#[pymethods]
impl FileLock {
    #[new]
    fn new(path: PathBuf, shared: bool, wait: Option<f64>) -> PyResult<Self> {
        let locking = file::FileLock::on(path).wait(waiting::wait(wait)?);
        let locking = if shared { locking.shared() } else { locking };
        Ok(Self {
            locking,
            locks: Stack::new(),
        })
    }

    /// Locks the file, waiting for its holder.
    fn acquire(&self, py: Python<'_>) -> PyResult<()> {
        self.acquire_unless(py, None, None).map(|_| ())
    }

    /// Locks the file as acquire does, and asks `is_over` every 50 ms of a wait. False: it said so, and nothing is
    /// locked.
    #[pyo3(name = "_acquire_unless")]
    fn acquire_unless(
        &self,
        py: Python<'_>,
        is_over: Option<Py<PyAny>>,
        asker: Option<Given>,
    ) -> PyResult<bool> {
        let asker = asker::of(py, asker)?;
        let lock = waiting::acquire(py, is_over.as_ref(), |is_over| {
            asker.run(|| self.locking.acquire_unless(is_over))
        })?;
        Ok(lock.map(|lock| self.locks.push(py, asker, lock)).is_some())
    }

    /// Unlocks the file.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.release_as(py, None)
    }

    /// Ends the one of this asker, where there is one.
    #[pyo3(name = "_release_as")]
    fn release_as(&self, py: Python<'_>, asker: Option<Given>) -> PyResult<()> {
        self.end(py, asker)?
            .map_or(Ok(()), |lost| Err(raised::of(py, &lost)))
    }

    /// Raises LockLost when the lock keeps nobody out any more.
    fn still_held(&self, py: Python<'_>) -> PyResult<()> {
        self.under(py, file::FileLock::still_held)
    }

    /// All of the file's content; None: there is no file.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let read = self.under(py, file::FileLock::read)?;
        Ok(read.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Gives the file this content, all of it or none. It has to be what the format says: json, jsonl (a value in each
    /// line) or any; by default lines of JSON in a file called .jsonl or .ndjson, else JSON.
    #[pyo3(signature = (content, format=None))]
    fn write(&self, py: Python<'_>, content: &[u8], format: Option<&str>) -> PyResult<()> {
        let rules = match format {
            None => Rules::default(),
            Some("json") => Rules::default().format(Format::Json),
            Some("jsonl") => Rules::default().format(Format::JsonLines),
            Some("any") => Rules::default().format(Format::Any),
            Some(other) => {
                let words = format!("a format is json, jsonl or any: {other}");
                return Err(PyValueError::new_err(words));
            }
        };
        self.under(py, |lock| lock.write_with(content, &rules))
            .map(|_| ())
    }

    /// Gives the file this content, which has to be JSON. It must also conform to the schema in the file `schema`,
    /// where one is given.
    #[pyo3(name = "_write_json")]
    fn write_json(
        &self,
        py: Python<'_>,
        content: &[u8],
        schema: Option<PathBuf>,
        backups: u32,
    ) -> PyResult<()> {
        self.under(py, |lock| {
            let rules = Rules::default().format(Format::Json).backups(backups);
            let rules = match &schema {
                Some(path) => rules.schema(Schema::read(path)?),
                None => rules,
            };
            lock.write_with(content, &rules)
        })
        .map(|_| ())
    }

    /// True when this process holds the lock, as far as this object knows.
    #[getter]
    fn held(&self, py: Python<'_>) -> bool {
        self.locks.last(py, |_| ()).is_some()
    }

    /// The file, absolute; None when not held.
    #[getter]
    fn path(&self, py: Python<'_>) -> Option<PathBuf> {
        self.locks.last(py, |lock| lock.path().to_owned())
    }

    /// The lock file beside it; None when not held.
    #[getter]
    fn lock_path(&self, py: Python<'_>) -> Option<PathBuf> {
        self.locks.last(py, |lock| lock.lock_path().to_owned())
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

impl FileLock {
    fn under<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&file::FileLock) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        match self.locks.last(py, work) {
            Some(done) => done.map_err(|error| raised::of(py, &error)),
            None => Err(not_held()),
        }
    }

    /// Ends the lock; returns how it had been lost, where it had.
    fn end(&self, py: Python<'_>, asker: Option<Given>) -> PyResult<Option<Error>> {
        let asker = asker::of(py, asker)?;
        match self.locks.pop(py, asker) {
            Some(Popped::Ours(lock)) => Ok(py.detach(|| lock.release().err())),
            Some(Popped::OfAnother) => Ok(None),
            None => Err(not_held()),
        }
    }
}
