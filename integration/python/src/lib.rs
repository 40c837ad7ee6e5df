//! The extension module under the Python package `beadlock`: each class is the library's own, without the GIL while it
//! waits.
//!
//! ```text
//! decision.rs   should_skip_database, and what it answers
//! asker.rs      who asks for a lock: a task, or a thread
//! cycle.rs      one run of a daemon's work
//! lock.rs       a lock that this process holds
//! file.rs       the lock of a file
//! memory.rs     the lock of a directory
//! stack.rs      the guards of a lock object, and which process they are of
//! waiting.rs    a wait without the GIL, which Ctrl-C ends
//! raised.rs     an error of the library as an exception
//! ```
//!
//! What is left to Python (`python/beadlock`) is decorators, `async with`, and the exceptions themselves.

mod asker;
mod cycle;
mod decision;
mod file;
mod lock;
mod memory;
mod raised;
mod stack;
mod waiting;

/// The native module that the Python package imports.
#[pyo3::pymodule]
mod _beadlock {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "as every Python package calls it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
    #[pymodule_export]
    use super::asker::now;
    #[pymodule_export]
    use super::cycle::Cycle;
    #[pymodule_export]
    use super::decision::{Decision, should_skip_database};
    #[pymodule_export]
    use super::file::FileLock;
    #[pymodule_export]
    use super::lock::Lock;
    #[pymodule_export]
    use super::memory::MemoryLock;
}
