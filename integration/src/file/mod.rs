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
//! - The lock file is made when it is missing, mode 0644 less the umask, and never deleted, written or read.
//! - After locking, the locked file is proved to be the one that has the name; else it is tried again with that one.
//! - The same file twice in one process is an error at once, not a deadlock. Inside a `beadlock hold` of the file it
//!   is that one's lock: what is done under it takes turns ([`FileLock::turn`]).
//! - A write is checked, backed up (`PATH.1` the newest) and renamed over the file: whenever it is killed the file is
//!   as it was or new, and the next operation removes what is left (`PATH.tmp`). What is added to a file are whole
//!   lines.
//!
//! # Limits
//! An flock is advisory: who does not lock is not kept out. On network file systems it may keep out this machine
//! only. Hard links to one file have a lock each. Who is killed leaves the lock to the next at once: what it was
//! doing to the file must be undone or completed by whoever writes, not by the lock. A write makes a new file with
//! mode, ACL and owner of the old one; other extended attributes are not kept, and other hard links keep the old
//! content.
//!
//! ```text
//! mod.rs        this page
//! target.rs     from a path to the file that is meant, and its lock file
//! lock.rs       FileLock, and how it is taken
//! locking.rs    what is to be taken, and how patiently
//! open.rs       the lock file, open; the flock on it
//! registry.rs   what this process has locked
//! own.rs        what is this process's, and no fork's
//! blocked.rs    the wait: a thread blocked in the kernel
//! turn.rs       several under one lock, one after the other
//! nested.rs     inside another hold
//! refused.rs    the words of a lock that was not obtained
//! watch.rs      whether it is still there
//! options.rs    what the command line has for files
//! release.rs    `beadlock release file:PATH`
//! said.rs       what is said and written down of a lock that is taken; ending.rs: of its end
//! look.rs       whether somebody has it, and who: `check`, `status`, `list`
//! breaking.rs   `beadlock break file:PATH`
//! waiting.rs    `beadlock wait file:PATH`
//! acl.rs        a file's access control list
//! entry.rs      a file by its name in an open directory, and those beside it
//! stage.rs      where new content is before it is the file's
//! json.rs       what content has to be; utf8.rs: its text; schema.rs: a JSON Schema
//! write.rs      the one way in which a file gets new content; backups.rs: what it was before; obstacle.rs: what keeps it from that
//! append.rs     whole lines at its end
//! operations.rs all of that from Rust
//! filter.rs     the command under an update
//! command/      `beadlock write`, `update`, `append`
//! ```

mod acl;
mod append;
mod backups;
mod blocked;
pub(crate) mod breaking;
pub(crate) mod command;
pub(crate) mod ending;
mod entry;
mod filter;
mod json;
mod lock;
mod locking;
mod look;
pub(crate) mod nested;
mod obstacle;
mod open;
mod operations;
pub(crate) mod options;
mod own;
pub(crate) mod refused;
mod registry;
pub(crate) mod release;
pub(crate) mod said;
mod schema;
mod stage;
mod target;
mod turn;
mod utf8;
pub(crate) mod waiting;
mod watch;
mod write;

pub use append::{Appended, Torn};
pub use beadlock_checker::internal::dialect::file::{LockId, Mode};
pub use json::Format;
pub use lock::FileLock;
pub(crate) use lock::take;
pub use locking::Locking;
pub(crate) use look::Look;
pub(crate) use open::LockFile;
pub use operations::{append, atomic_write, save_json, update_json};
pub use schema::Schema;
pub(crate) use target::FileTarget;
pub use turn::Turn;
pub(crate) use watch::Watch;
pub use write::{Rules, Written};
