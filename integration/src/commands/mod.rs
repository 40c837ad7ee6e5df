//! One file for each command, named after it: its arguments, and what it does with them.

pub mod append;
pub mod update;
pub mod write;
