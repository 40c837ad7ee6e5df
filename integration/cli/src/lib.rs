//! `beadlock`: claims a beads database, a named lock or a file while a command runs, and shows the claims of others.
//!
//! This is the program's own library, and the program is [`run`]. From Rust, use the crate `beadlock`.
//!
//! ```text
//! command_line.rs   what may be typed; dispatch.rs: what is done then
//! settings/         what was typed, over the environment, over the defaults
//! targets/          the options and the help of each protocol
//! commands/         one file for each command that changes something
//! fleet/            claims across machines, behind the feature `fleet`
//! help/, completion/, man.rs, schema.rs, hint.rs
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

mod command_line;
mod commands;
mod completion;
mod dispatch;
#[cfg(feature = "fleet")]
mod fleet;
mod git_reminder;
mod help;
mod hint;
mod man;
mod merge;
mod schema;
mod settings;
mod status;
mod targets;

pub use dispatch::run;
