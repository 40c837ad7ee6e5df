//! A command under a list of claims, and the helper processes. Each of these is the running binary again; its command
//! line is what it does, a hidden argument, and its request.
//!
//! ```text
//! session.rs       the processes, the claims, the end
//! steps.rs         which step of the work has failed, and the rollback
//! request.rs       what each helper process is asked for
//! watchdog.rs      watches a command: ends its tree when beadlock is killed, or keeps the gate of a cycle
//! lease_keeper.rs  keeps the claim that `acquire` leaves behind
//! ```

pub mod lease_keeper;
pub mod request;
pub mod session;
pub mod steps;
pub mod watchdog;
