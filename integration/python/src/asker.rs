//! Who asks for a lock: a task of asyncio, or a thread. A second lock of one of them would wait for itself.

use beadlock::Asker;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// Who asks, as Python hands it on: the number of the thread, and of the task that it runs, 0 for none.
pub type Given = (u64, u64);

/// Who asks in this thread now.
#[pyfunction]
#[pyo3(name = "_asker")]
pub fn now(py: Python<'_>) -> PyResult<Given> {
    Ok((Asker::thread(), task(py)?))
}

/// The asker that a task has handed on, which does not block its thread; a thread alone, which does; else this thread,
/// with the task that it runs.
pub fn of(py: Python<'_>, given: Option<Given>) -> PyResult<Asker> {
    Ok(match given {
        Some((thread, 0)) => Asker::task(thread, 0, true),
        Some((thread, task)) => Asker::task(thread, task, false),
        None => Asker::task(Asker::thread(), task(py)?, true),
    })
}

/// The number of the task that runs now; 0 where there is no event loop.
fn task(py: Python<'_>) -> PyResult<u64> {
    static MODULES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let modules = MODULES.get_or_try_init(py, || {
        let modules = py.import("sys")?.getattr("modules")?;
        modules.extract::<Py<PyDict>>().map_err(PyErr::from)
    })?;
    // Who has no asyncio has no task.
    if modules.bind(py).get_item("asyncio")?.is_none() {
        return Ok(0);
    }
    py.import("beadlock._threads")?
        .getattr("task_number")?
        .call0()?
        .extract()
}
