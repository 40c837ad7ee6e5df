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
//! - A live lock never disappears but by its owner, whoever else checks, claims or crashes at the same time.
//! - A lock whose holder is proved dead is removed by the next check that finds it.
//! - Input that cannot be understood is a lock, not an open door. No input makes this crate panic or hang.
//!
//! # Limits
//! - The protocol is cooperative: who does not ask is not stopped. It is no security boundary.
//! - The gate (an flock on the directory) reaches as far as one kernel and one mount view.
//! - A process that is forked in the middle of a cycle has a copy of the gate. Dropped, the copy opens nothing; it keeps the gate
//!   shut when the process of the cycle is killed, until the fork has ended too.
//! - Linux is tested; its leases, `renameat2`, `O_TMPFILE` and `/proc` each have a portable fallback.

pub mod address;
pub mod audit;
pub mod beside;
mod check;
pub mod closed;
pub mod database;
pub mod dialect;
pub mod digest;
pub mod duration;
mod error;
pub mod escape;
pub mod facts;
mod filesystem;
mod gate;
mod gate_loss;
mod gates;
pub mod git;
pub mod log_line;
mod look;
pub mod mounts;
mod namespace;
pub mod obstacle;
mod on_disk;
mod opened;
pub mod outputs;
mod place;
pub mod process;
mod read;
pub mod redirect;
mod refresh;
pub mod runner;
pub mod shell;
pub mod sys;
pub mod take;
pub mod target;
pub mod trust;
mod verdict;
mod zombie;

pub use check::{Cycle, Entered, Options, check, should_skip_database};
pub use error::{Error, Result, words as system_words};
pub use filesystem::{FileSystem, Reach, shared_file_system};
pub use gate::{Gate, PassedOn};
pub use gate_loss::{GateLoss, GateLossCause, GateWatch};
pub use gates::{GateHolder, Gates, Role, flock_of};
pub use look::{Look, first_bytes, look, look_all, raw};
pub use namespace::{Member, Namespaces};
pub use on_disk::{FileKind, OnDisk};
pub use opened::OpenDirectory;
pub use place::{Names, Place};
pub use refresh::RefreshWatch;
pub use verdict::{Decision, Proceed, Reason, Removed, Skip, Verdict, Watched};
pub use zombie::Zombie;

/// Whether the process that a record names is to be taken for alive, as Go's `IsProcessAlive`: false only
/// when `hostname` is this host's name, ignoring ASCII case, and the system says ESRCH.
pub fn is_process_alive(pid: i64, hostname: &str) -> bool {
    let ours = facts::hostname().is_some_and(|name| name.eq_ignore_ascii_case(hostname));
    !(ours && process::probe(pid) == facts::Liveness::Gone)
}
