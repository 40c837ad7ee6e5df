//! Looks and explains, and changes nothing: `beadlock status`, `list`, `top`, `doctor`, and what a running agent says.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! Each command is a room with a function `run`. What a lock means, and what to type next, is told by `beadlock-explain`.
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod agent;
pub mod doctor;
pub mod ignored;
pub mod list;
pub mod same_dir;
pub mod status;
pub mod top;
