//! Claim a beads database for as long as a command, or a piece of Rust, runs.
//!
//! The program `beadlock` is this library's [`program::run`]. From Rust a lock is a guard:
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

mod agent;
mod api;
mod claim;
mod cli;
mod commands;
mod doctor;
mod error;
mod explain;
mod fact;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod ground;
mod ignored;
mod list;
mod log;
mod observe;
mod output;
mod protocol;
#[doc(hidden)]
pub mod run;
mod settings;
mod top;
mod words;

pub use api::hold::{Claim, Hold, NotReleased};
pub use api::{file_lock as file, framework, memory_lock as memory};
pub use error::{Code, Error, Holder};
pub use output::end::End;
pub use output::envelope::{Envelope, Request};
pub use settings::wait::Wait;

/// The program `beadlock`.
pub mod program {
    pub use crate::cli::dispatch::run;
}
