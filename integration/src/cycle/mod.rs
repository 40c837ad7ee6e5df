//! `beadlock cycle [TARGET] -- CMD`: gate, check, run, leave; a sync cycle for daemons that cannot link Rust
//! (docs/design.md#the-gate).
//!
//! The gate is taken without waiting. While the command runs two processes hold it: this one, and a small
//! [gate keeper](crate::run::watchdog) that waits for the command's end, so that a kill of either leaves it shut.
//! The command inherits the gate as well, so that a kill of both leaves it shut for as long as the command works. At a
//! regular end the gate is let go for every copy: what the command leaves behind keeps nothing.

mod run;

use std::ffi::OsString;

use clap::Args;

pub use run::run;

/// `beadlock cycle [TARGET] -- CMD [ARG…]`
#[derive(Debug, Args)]
pub struct Typed {
    /// The database's directory, [beads:]DIR [env: BEADLOCK_TARGET] [default: the nearest .beads up the tree]
    pub target: Option<OsString>,
    /// Remove a lock also when its holder is proved dead by more than its PID
    #[arg(long)]
    pub reap_proven_dead: bool,
    /// Run it in DIR also when that does not look like a database: it is not called .beads, is not $BEADS_DIR, and
    /// has no *.db,
    /// *.sqlite*, *.jsonl or redirect in it
    #[arg(long)]
    pub any_directory: bool,
    /// Exit with N instead of any code that is not the command's
    #[arg(long, value_name = "N")]
    pub own_exit_code: Option<u8>,
    /// The command and its arguments; it has BEADS_DIR and BEADLOCK_CYCLE
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}
