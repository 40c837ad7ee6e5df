//! The stories. Each is told once, to every protocol.

pub mod audit;
pub mod break_lock;
pub mod crash;
pub mod create;
pub mod json;
pub mod list;
pub mod loss;
pub mod refuse;
pub mod release;
pub mod stale;
pub mod status;
pub mod wait;
