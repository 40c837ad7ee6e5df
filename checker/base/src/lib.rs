//! The parts that know no lock: processes, files, clocks, git and the words of the system.
//!
//! The crates of beadlock share it and pin it with `=`. It makes no promise to anybody else: a daemon uses
//! `beadlock-checker`, and a program that claims uses `beadlock`.
//!
//! Linux alone: the sources do not compile elsewhere.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

#[macro_use]
pub mod words;

pub mod address;
pub mod asker;
pub mod children;
pub mod deadline;
pub mod duration;
pub mod error;
pub mod escape;
pub mod filesystem;
pub mod git;
pub mod helper;
pub mod mounts;
pub mod namespace;
pub mod open_directory;
pub mod own;
pub mod permission;
pub mod poll;
pub mod process;
pub mod regular;
pub mod secrets;
pub mod shell;
pub mod stdout;
pub mod sys;

pub use error::{Error, Result};
