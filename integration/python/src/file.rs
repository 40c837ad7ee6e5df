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
    named: PathBuf,
    reentrant: bool,
    locks: Stack<file::FileLock>,
}

#[pymethods]
impl FileLock {
    #[new]
    fn new(
        path: PathBuf,
        shared: bool,
        wait: Option<f64>,
        itself: bool,
        mode: Option<u32>,
        reentrant: bool,
    ) -> PyResult<Self> {
        let mut locking = if itself {
            file::FileLock::itself(&path)
        } else {
            file::FileLock::on(&path)
        };
        locking = locking.wait(waiting::wait(wait)?);
        if shared {
            locking = locking.shared();
        }
        if let Some(mode) = mode {
            locking = locking.permissions(permissions(mode)?);
        }
        Ok(Self {
            locking,
            named: path,
            reentrant,
            locks: Stack::new(),
        })
    }

    /// Locks the file, waiting for its holder: for this many seconds, or as long as this lock waits. `is_over` is asked
    /// every 50 ms of a wait. False: it said so, and nothing is locked.
    #[pyo3(name = "_acquire_unless")]
    fn acquire_unless(
        &self,
        py: Python<'_>,
        is_over: Option<Py<PyAny>>,
        asker: Option<Given>,
        wait: Option<f64>,
    ) -> PyResult<bool> {
        let asker = asker::of(py, asker)?;
        let own = waiting::of_call(wait)?.map(|wait| self.locking.clone().wait(wait));
        if self.reentrant && self.locks.again(py, asker) {
            return Ok(true);
        }
        let locking = own.as_ref().unwrap_or(&self.locking);
        let lock = waiting::acquire(py, is_over.as_ref(), |is_over| {
            asker.run(|| locking.acquire_unless(is_over))
        })?;
        Ok(lock.map(|lock| self.locks.push(py, asker, lock)).is_some())
    }

    /// Ends the lock of this asker, where there is one: with the last release of several, or at once.
    #[pyo3(name = "_release_as")]
    fn release_as(&self, py: Python<'_>, asker: Option<Given>, at_once: bool) -> PyResult<()> {
        self.end(py, asker, at_once)?
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

    /// How often this thread or task has acquired it: 0 or 1, or more where it may.
    #[getter]
    fn lock_counter(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.locks.levels(py, asker::of(py, None)?))
    }

    /// How often this asker has acquired it.
    #[pyo3(name = "_levels_of")]
    fn levels_of(&self, py: Python<'_>, asker: Given) -> PyResult<usize> {
        Ok(self.locks.levels(py, asker::of(py, Some(asker))?))
    }

    /// For how many seconds this process has held it; None when not held.
    #[getter]
    fn age(&self, py: Python<'_>) -> Option<f64> {
        self.locks.age(py).map(|age| age.as_secs_f64())
    }

    /// What was named.
    #[getter]
    #[pyo3(name = "_named")]
    fn named(&self) -> &PathBuf {
        &self.named
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
    fn end(&self, py: Python<'_>, asker: Option<Given>, at_once: bool) -> PyResult<Option<Error>> {
        let asker = asker::of(py, asker)?;
        match self.locks.pop(py, asker, at_once) {
            Some(Popped::Ours(lock)) => Ok(py.detach(|| lock.release().err().map(Error::from))),
            Some(Popped::Kept | Popped::OfAnother) => Ok(None),
            None => Err(not_held()),
        }
    }
}

/// The permissions of a file that is made.
fn permissions(mode: u32) -> PyResult<u32> {
    if mode > 0o777 {
        let words = format!("a mode is permissions, such as 0o660: {mode:#o}");
        return Err(PyValueError::new_err(words));
    }
    Ok(mode)
}
