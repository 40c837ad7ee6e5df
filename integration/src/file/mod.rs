//! `file:PATH`: a file is locked by an `flock` on `PATH.lock` beside it.
//!
//! ```no_run
//! use beadlock::file::FileLock;
//! use beadlock::Wait;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), beadlock::Error> {
//! let lock = FileLock::on("todo.json").wait(Wait::UpTo(Duration::from_secs(5))).acquire()?;
//! // Nobody else who locks it, with flock(1) or with this, has it now.
//! lock.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//! - `file:a` never blocks `file:b`; the same file has the same lock, by whatever path or symbolic link it is named.
//! - The lock is gone the moment its process is, however that ends.
//! - The lock file is made when it is missing, mode 0644 less the umask, and never deleted, written or read.
//! - After locking, the locked file is proved to be the one that has the name; else it is tried again with that one.
//! - The same file twice in one process is an error at once, not a deadlock. Inside a `beadlock hold` of the file it is that
//!   one's lock: what is done under it takes turns ([`FileLock::turn`]).
//!
//! # Limits
//! An flock is advisory: who does not lock is not kept out. On network file systems it may keep out this machine only. Hard
//! links to one file have a lock each. Who is killed leaves the lock to the next at once: what it was doing to the file must
//! be undone or completed by whoever writes, not by the lock.
//!
//! ```text
//! mod.rs        this page
//! target.rs     from a path to the file that is meant, and its lock file
//! lock.rs       FileLock, and how it is taken
//! open.rs       the lock file, open; the flock on it
//! registry.rs   what this process has locked
//! blocked.rs    the wait: a thread blocked in the kernel
//! turn.rs       several under one lock, one after the other
//! nested.rs     inside another hold
//! refused.rs    the words of a lock that was not obtained
//! watch.rs      whether it is still there
//! options.rs    what the command line has for files
//! hold.rs       `beadlock hold file:PATH -- CMD`
//! look.rs       whether somebody has it, and who: `check`, `status`, `list`
//! breaking.rs   `beadlock break file:PATH`
//! waiting.rs    `beadlock wait file:PATH`
//! ```

mod blocked;
pub(crate) mod breaking;
pub(crate) mod hold;
mod lock;
mod look;
mod nested;
mod open;
pub(crate) mod options;
pub(crate) mod refused;
mod registry;
mod target;
mod turn;
pub(crate) mod waiting;
mod watch;

pub use beadlock_checker::dialect::file::{LockId, Mode};
pub(crate) use lock::take;
pub use lock::{FileLock, Locking};
pub(crate) use look::Look;
pub(crate) use target::FileTarget;
pub use turn::Turn;
pub(crate) use watch::Watch;
