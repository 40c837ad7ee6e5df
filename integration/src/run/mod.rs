//! The processes that stand beside a command. Each is the running binary again, with a hidden first argument.
//!
//! ```text
//! watchdog.rs     ends the work of a claim when beadlock is killed, and stops it where there is no heartbeat
//! session.rs      a command under a list of claims: the processes, the claims, the end
//! steps.rs        which step of the work has failed, and the rollback
//! gate_keeper.rs  shares the gate of a cycle that `beadlock cycle` runs
//! ```

pub mod gate_keeper;
pub mod session;
pub mod steps;
pub mod watchdog;
