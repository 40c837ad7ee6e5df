//! The program on a real terminal: its keys, its lines and its end.

mod hangup;
mod interrupt;
mod jobs;
mod line;
mod screen;

pub use beadlock_testkit::terminal::{Terminal, end, on_terminal, pid_in, program, state};

pub const BEADLOCK: &str = env!("CARGO_BIN_EXE_beadlock");
