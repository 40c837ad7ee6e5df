//! A process that waits until it may begin, the whole tree that it starts, the end of both, and the helpers that stay
//! beside it.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. A [`command`] is forked before its claim and
//! begins when the claim stands. A [`process_tree`] finds everything that a command has started. Three helpers are the
//! running program again: the [`watchdog`] ends the tree of a `hold` that was killed, its gate keeper opens a gate
//! late, and the [`runner`] stands beside the work of a sync cycle.
//!
//! Linux alone: the sources do not compile elsewhere.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod command;
pub mod process_ref;
pub mod process_tree;
pub mod runner;
pub mod signals;
pub mod tree_ending;
pub mod watchdog;
