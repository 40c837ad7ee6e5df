//! `file:PATH`: a file is locked by an `flock` on `PATH.lock` beside it, and written under that lock: all of the new
//! content or none.
//!
//! ```no_run
//! use beadlock::file::FileLock;
//! use beadlock::Wait;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), beadlock::Error> {
//! let lock = FileLock::on("todo.json").wait(Wait::UpTo(Duration::from_secs(5))).acquire()?;
//! // Nobody else who locks it, with flock(1) or with this, has it now.
//! lock.write(r#"{"n": 1}"#)?;
//! lock.update_json(|todo| todo["n"] = 2.into())?;
//! lock.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! One operation is a function of its own: [`atomic_write`], [`save_json`], [`update_json`], [`append`].
//!
//! # Promises
//! - `file:a` never blocks `file:b`; the same file has the same lock, by whatever path or symbolic link it is named.
//! - The lock is gone the moment its process is, however that ends.
//! - The lock file is made when it is missing, mode 0644 less the umask, and never deleted, written or read. After
//!   locking, it is proved to be the file that has the name; else that one is locked.
//! - Threads that want the same file wait for each other, first come, first served; readers go in together. The thread
//!   that has it and asks again gets an error at once, not a deadlock. Where the lock goes to another thread:
//!   [`FileLock::detach`]. Inside a `beadlock hold` of the file its lock is used: what is done under it takes turns
//!   ([`FileLock::turn`]).
//! - A write is checked, backed up (`PATH.1` the newest) and renamed over the file: after a kill the file is as it was
//!   or new, and the next operation removes what is left (`PATH.tmp`). An append adds whole lines.
//!
//! # Limits
//! An flock is advisory: a program that does not lock is not kept out. On network file systems it may keep out this
//! machine only. Hard links to one file have a lock each. A killed process leaves the lock to the next at once: that
//! one must undo or complete its work before it writes. A write makes a new file with mode, ACL and owner of the old
//! one; other extended attributes are not kept, and other hard links keep the old content.

pub use beadlock_claim::protocol::file::{
    FileLock, LockId, Locking, Mode, Turn, append, atomic_write, save_json, update_json,
};
#[cfg(feature = "validate-schema")]
pub use beadlock_files::Schema;
pub use beadlock_files::append::{Appended, Torn};
pub use beadlock_files::json::{Format, UnknownFormat};
pub use beadlock_files::write::{Rules, Written};
