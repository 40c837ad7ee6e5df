//! The library of beadlock; `cargo install beadlock-cli` gives the program `beadlock`.
//!
//! It claims a beads database, or another thing that one program at a time may have, for as long as a piece of Rust
//! runs. A lock is a guard:
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
//! | to lock | use |
//! |---|---|
//! | a beads database, or a name of your own (`lock:PATH`) | [`Hold`] |
//! | a file that is written | [`file`](mod@file) |
//! | a directory of a tool's memory | [`memory`] |
//! | a command of a command-line tool, with its exit codes and its JSON | [`framework`] |
//!
//! A daemon that only asks whether it may begin needs the crate `beadlock-checker` alone.
//!
//! # Promises
//! - Once [`Hold::claim`] has returned, no cycle of a daemon that checks runs, and none begins until the release.
//! - A claim that fails leaves no lock behind, and has touched nobody else's but one whose holder is proved dead.
//! - A lock is released by its owner alone: [`Claim::release`] removes this very lock, and no other one in its place.
//! - When the process is gone, however it went, the next who asks finds the lock stale and takes its place.
//! - Every [`Error`] says what, which file, held by whom and since when, and has a [`Code`] for programs.
//!
//! # Order
//! 1. [`Hold`] says what, in whose name, and how long to wait. Nothing happens before [`Hold::claim`].
//! 2. The gate is taken, and with it the end of a cycle that runs is waited for ([`Hold::drain`]). Under it a stale lock
//!    is removed and the new one is made: a daemon's next check sees it. Then the gate is open again.
//! 3. Where somebody else has the lock, its end is waited for ([`Wait`]), and step 2 begins anew.
//! 4. Work, and ask [`Claim::still_held`] before a step that cannot be undone.
//! 5. [`Claim::release`], which says whether the lock was still there. Dropping the claim is the net.
//!
//! # Limits
//! - A claim stops daemons that check, not a person who runs `bd`; it is not a transaction.
//! - The wait for a running cycle reaches as far as one kernel: on network file systems it covers this machine only.
//! - A guard is a claim of the whole process: the lock is stale when the process is gone, and not before. A process
//!   that is forked meanwhile has copies of the guards, and these end nothing.
//! - Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod file;
pub mod framework;
mod hold;
pub mod memory;

#[doc(hidden)]
pub use beadlock_base::asker::Asker;
pub use beadlock_claim::envelope::{Envelope, Request};
pub use beadlock_claim::released::{ReleaseError, Released};
pub use beadlock_claim::wait::Wait;
pub use beadlock_claim::{Code, Error, Holder};
pub use hold::{Claim, Hold};
