//! The processes that stand beside a command. Each is the running binary again, with a hidden first argument.
//!
//! ```text
//! watchdog.rs     ends the work of a claim when beadlock is killed, and stops it where there is no heartbeat
//! gate_keeper.rs  shares the gate of a cycle that `beadlock cycle` runs
//! ```

pub mod gate_keeper;
pub mod watchdog;
