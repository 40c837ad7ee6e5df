//! Bytes to events: which files a log consists of, what a line is made of, and what its message means.
//!
//! `source` reads the files, `line` splits a line into time, database and message, and `event` says what the
//! message means. No byte sequence is an error here, and nothing here remembers an earlier line.

pub(crate) mod event;
pub(crate) mod line;
pub(crate) mod reason;
mod slog;
pub(crate) mod source;
pub mod time;
