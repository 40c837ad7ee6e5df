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
//! # Limits
//! - The protocol is cooperative: a program that does not ask is not stopped. It is not a security boundary.
//! - The gate (an flock on the directory) reaches as far as one kernel and one mount view.
//! - A process that is forked in the middle of a cycle has a copy of the gate. Dropped, the copy opens nothing; it
//!   keeps the gate shut when the process of the cycle is killed, until the fork has ended too.
//! - Linux alone: the sources do not compile elsewhere. Where a kernel or a file system refuses leases, `renameat2`,
//!   `O_TMPFILE` or `/proc`, a fallback takes their place.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

#[macro_use]
mod words;

mod address;
mod agent_process;
mod audit;
mod beside;
mod check;
mod children;
mod closed;
mod database;
mod deadline;
mod decision;
mod dialect;
mod directory;
mod dolt;
mod duration;
mod error;
mod escape;
mod facts;
mod filesystem;
mod gate;
mod gate_loss;
mod gates;
mod git;
#[doc(hidden)]
pub mod internal;
mod log_line;
mod look;
mod mounts;
mod namespace;
mod obstacle;
mod on_disk;
mod opened;
mod options;
mod outputs;
mod place;
mod process;
mod read;
mod redirect;
mod refresh;
mod regular;
mod runner;
mod secrets;
mod shell;
mod sys;
mod take;
mod target;
mod verdict;
mod watchdog;
mod zombie;

pub use check::{Cycle, Entered, check, should_skip_database};
pub use decision::{Decision, Proceed, Removed, Skip, Watched};
pub use dialect::{Record, StartedAt};
pub use error::Error;
pub use gate_loss::GateLoss;
pub use options::Options;
pub use place::Place;
pub use verdict::{Reason, Verdict};
