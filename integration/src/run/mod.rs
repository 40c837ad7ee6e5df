//! The helper processes. Each is the running binary again; its command line is what it does, a hidden argument, and
//! its request.
//!
//! ```text
//! request.rs   what each of them is asked for
//! watchdog.rs  watches a command: ends its tree when beadlock is killed, or keeps the gate of a cycle until its end
//! ```

pub mod request;
pub mod watchdog;
