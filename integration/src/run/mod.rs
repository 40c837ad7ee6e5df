//! A command under a list of claims, and the helper processes. Each of these is the running binary again; its command
//! line is what it does, a hidden argument, and its request.

#[cfg(feature = "fleet")]
pub mod fleet;
pub mod lease_keeper;
pub mod session;
pub mod steps;

pub use crate::settings::remote::Lookup;
