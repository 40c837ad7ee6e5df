//! What a look has found, for people and for programs: the holder of a lock, why that counts, and what to type next.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! What belongs to one kind of lock is in its own file (`process`, `tower`, `memory`); the rest is the same for
//! all. Nothing is changed here.
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

mod by_protocol;
pub mod checked;
pub mod explained;
pub mod explanation;
mod gate;
pub mod lines;
mod memory;
pub mod observed;
mod process;
pub mod seen;
mod situation;
mod tower;
