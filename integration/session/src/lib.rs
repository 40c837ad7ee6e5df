//! A command under a list of claims, and the keeper that `beadlock acquire` leaves behind.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! The [`session`] has the order of things, which is the contract. A claim is a [`session_claim`]: of a lock with a
//! record ([`record_claim`]), of a file ([`kernel_claim`]), or of what the program adds to these, such as a claim in a
//! fleet.
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod interactive_wait;
pub mod kernel_claim;
pub mod lease_keeper;
pub mod on_loss;
pub mod record_claim;
pub mod report;
pub mod running_command;
pub mod session;
pub mod session_claim;
pub mod steps;
