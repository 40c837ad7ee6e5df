//! May I touch this database now? The check that a sync daemon makes before every cycle, and the one way a lock
//! file is created and removed.
//!
//! A tool that needs a beads database to itself puts a lock file into its directory, `.exclusive-lock`. A daemon
//! asks before every cycle and leaves the database alone while the lock's holder may be alive:
//!
//! ```
//! use beadlock_checker::{Cycle, Entered};
//!
//! # let dir = std::env::temp_dir();
//! match Cycle::enter(&dir) {
//!     Entered::Cycle(cycle) => {
//!         // … sync …
//!         cycle.leave();
//!     }
//!     Entered::Skipped(decision) => println!("{decision}"),
//! }
//! ```
//!
//! # Promises
//! - A live lock never disappears but by its owner, whatever else checks, claims or crashes at the same time.
//! - A lock whose holder is proved dead is removed by the next check that finds it.
//! - Input that cannot be understood is a lock, not an open door. No input makes this crate panic or hang.
//!
//! # Order
//! 1. [`Cycle::enter`] takes the gate, an flock on the database's directory, without waiting. Who claims waits for it.
//! 2. Under the gate it looks whether a lock is there, and whether its holder may be alive. A lock whose holder is proved
//!    dead is removed.
//! 3. [`Entered::Cycle`]: work. The gate stays shut meanwhile, and a claim that comes now waits for the end.
//!    [`Entered::Skipped`]: leave the database alone; the [`Decision`] is the line for the log.
//! 4. [`Cycle::leave`] opens the gate. So does the end of the process.
//!
//! # Limits
//! - The protocol is cooperative: a program that does not ask is not stopped. It is not a security boundary.
//! - The gate (an flock on the directory) reaches as far as one kernel and one mount view.
//! - A process that is forked in the middle of a cycle has a copy of the gate. Dropped, the copy opens nothing; it
//!   keeps the gate shut when the process of the cycle is killed, until the fork has ended too.
//! - Linux alone: the sources do not compile elsewhere. Where a kernel or a file system refuses leases, `renameat2`,
//!   `O_TMPFILE` or `/proc`, a fallback takes their place.

#[doc(inline)]
pub use beadlock_base::error::Error;
#[doc(inline)]
pub use beadlock_core::check::{Cycle, Entered, check, should_skip_database};
#[doc(inline)]
pub use beadlock_core::facts::is_process_alive;
#[doc(inline)]
pub use beadlock_core::record::Rejected;
#[doc(inline)]
pub use beadlock_core::{
    Decision, GateLoss, NotChecked, Options, Place, Proceed, Reason, Record, Removed, Skip,
    StartedAt, Verdict, Watched,
};
