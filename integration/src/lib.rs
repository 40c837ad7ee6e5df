//! Claim a beads database for as long as a command, or a piece of Rust, runs.
//!
//! The program `beadlock` is another package: `cargo install beadlock-cli`. From Rust a lock is a guard:
//!
//! ```no_run
//! use beadlock::{Hold, Wait};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), beadlock::Error> {
//! let claim = Hold::on(".beads").holder("importer").wait(Wait::UpTo(Duration::from_secs(30))).claim()?;
//! // The database is ours: every sync daemon that checks skips it.
//! claim.release()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Limits
//!
//! A claim stops daemons that check, not a person who runs `bd`; it is not a transaction. The wait for a running cycle
//! (the drain) reaches as far as one kernel: on network file systems it covers this machine only. A guard is a claim
//! of the whole process: the lock is stale when the process is gone, and not before. A process that is forked
//! meanwhile has copies of the guards, and these end nothing.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod file;
pub mod framework;
mod hold;
pub mod memory;

pub use beadlock_claim::envelope::{Envelope, Request};
pub use beadlock_claim::wait::Wait;
pub use beadlock_claim::{Code, Error, Holder};
pub use hold::{Claim, Hold, NotReleased};
