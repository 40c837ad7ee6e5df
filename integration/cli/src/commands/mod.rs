//! One file for each command, named after it: its arguments, and what it does with them.

pub mod acquire;
pub mod append;
pub mod break_lock;
pub mod check;
pub mod cycle;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod hold;
pub mod merge;
pub mod release;
pub mod renew;
pub mod setup;
pub mod update;
pub mod wait;
pub mod write;
