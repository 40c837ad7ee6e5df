//! The one lock of a directory, `memory:DIR`: judged by its process and by its age, as the clawdbot document has it.
//!
//! ```no_run
//! use beadlock::memory::{MemoryLock, WAIT};
//!
//! # fn main() -> Result<(), beadlock::Error> {
//! let lock = MemoryLock::in_dir("memory").session("main");
//! let guard = lock.acquire("write:tasks.json", WAIT)?;
//! // Nobody else who asks writes here, and the lock is refreshed every 3 s.
//! guard.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Promises
//! - A lock that is held and refreshed is never broken by beadlock, and what beadlock writes the document's programs
//!   understand.
//! - A stale one is removed only if it is still the one that was judged, under the directory's flock.
//! - A process that has the lock has it again at once; it is released with the last guard. Threads of one process do
//!   not keep each other out: that is the document's rule.
//!
//! # Limits
//! The document's own programs look and then write: two of them may have the lock at once, and one of them may write
//! over a lock that was made between its look and its write. Who holds one of ours then learns that it is lost
//! ([`Guard::still_held`]).

mod here;
mod lock;

pub use beadlock_checker::internal::dialect::memory::{Limits, Record};

pub use crate::protocol::memory::WAIT;
pub use crate::protocol::memory::status::Status;
pub use lock::{Guard, MemoryLock, Stale};
